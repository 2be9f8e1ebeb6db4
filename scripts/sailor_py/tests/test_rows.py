"""Plans of Sailor's artifact become rows, and those that a row cannot describe are left out for a reason."""

import copy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import rows  # noqa: E402
import summary  # noqa: E402

MODEL = {"parameters": 407_431_168, "layers": 24, "sequence": 2048, "hidden": 1024}


def plan(stages: list, dp: int, gpu: str = "GH-96", tp: int = 4) -> dict:
    """A plan whose stages have these numbers of layers."""
    numbers = iter(range(sum(stages)))
    return {
        "pipeline_list": [
            {
                "num_stages": len(stages),
                "layers_per_stage": [[next(numbers) for _ in range(layers)] for layers in stages],
                "tmp_per_stage": [[[[[gpu, 4, "zone"]], tp] for _ in range(dp)] for _ in stages],
                "dp": [dp] * len(stages),
            }
        ],
        "mbs": 2,
        "gbs": 32,
        "real": 0.8048,
        "max_mem": 12_540_968_960,
    }


class Rows(unittest.TestCase):
    def test_degrees_micro_batches_and_nodes_are_those_of_the_plan(self):
        row = rows.row(plan([12, 14], 2), "opt-350m", MODEL)
        self.assertEqual((row["job"], row["devices"]), ("opt-350m@b32@dp2-tp4-pp2-ga8", "4+4+4+4"))
        self.assertEqual((row["step_s"], row["peak_memory_bytes"], row["layers"]), (0.8048, 12_540_968_960, 24))
        self.assertEqual(sorted(row), sorted(rows.COLUMNS))
        self.assertEqual(rows.row(plan([26], 1), "opt-350m", MODEL)["job"], "opt-350m@b32@tp4-ga16")

    def test_plans_that_a_row_cannot_describe_are_left_out(self):
        mixed, uneven, split = plan([26], 2), plan([6, 20], 2), plan([26], 2)
        mixed["pipeline_list"][0]["tmp_per_stage"][0][1][0][0][0] = "V100-16"
        split["gbs"] = 33
        twice = copy.deepcopy(uneven)
        twice["pipeline_list"] *= 2
        degrees = plan([12, 14], 2)
        degrees["pipeline_list"][0]["dp"] = [2, 4]
        for wrong, reason in [
            (mixed, "several types"),
            (uneven, "many more layers"),
            (plan([34], 1), "34 layers, and the model has 26"),
            (split, "not divided evenly"),
            (twice, "several pipelines"),
            (degrees, "different degrees"),
            (plan([26], 1, tp=2), "not those of a node"),
        ]:
            with self.assertRaisesRegex(rows.LeftOut, reason):
                rows.row(wrong, "opt-350m", MODEL)


class Summary(unittest.TestCase):
    def test_errors_and_coverage_are_those_of_the_predictions(self):
        of = lambda predicted, lo, hi, basis: {
            "measured_s": "2.0", "predicted_s": predicted, "lo_s": lo, "hi_s": hi, "basis": basis
        }
        three = [of("2.2", "1", "3", "formula"), of("1.0", "0.5", "1.5", "extrapolated"), of("2.0", "1.9", "2.1", "extrapolated")]
        self.assertEqual(summary.line("m", "7", three), "| m | 7 | 3 | 20.0 % | 10.0 % | 50.0 % | 67 % | 67 % | 50 % |")

    def test_a_simulator_is_scored_on_the_plans_of_the_table_alone(self):
        table = [{"job": "opt-350m@b32@tp4-ga16", "step_s": "0.5"}, {"job": "other@b32@tp4-ga16", "step_s": "0.7"}]
        simulated = [{"gbs": "32", "real": "0.5", "estimated": "0.55"}, {"gbs": "32", "real": "0.7", "estimated": "0.1"}]
        line = summary.simulator("opt-350m", "Varuna", table, simulated)
        self.assertEqual(line, "| opt-350m | Varuna | 1 of 1 | 10.0 % | 10.0 % | 10.0 % | - | - | - |")


if __name__ == "__main__":
    unittest.main()
