"""What the demonstration says of its numbers."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import findings  # noqa: E402


def written(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run(folder, pair, step_ns_mean, intervals):
    written(folder, "simulated/fifo/outcomes.csv", "job,jct_ns\n0,3000000000\n1,5000000000\n2,\n")
    written(folder, "simulated/srtf/outcomes.csv", "job,jct_ns\n0,2500000000\n1,3500000000\n2,\n")
    head = "job,device,status,samples_per_s,step_ns_median,step_ns_median_ci_lo,step_ns_median_ci_hi\n"
    rows = "a@b8@dp1,cpu:0,ok,90.5,23140000,22900000,23400000\na@b16@dp1,cpu:0,ok,120.4,41000000,,\nb,cpu:0,failed,,,,\n"
    written(folder, "plans/summary.csv", head + rows)
    plan = {"global_batch": 64, "plan": "ga2", "step_ns": 2.3e8, "step_ns_ci_lo": 2e8, "step_ns_ci_hi": 2.6e8}
    written(folder, "plan.json", json.dumps([plan]))
    written(folder, "chosen/summary.csv", f"job,step_ns_mean\na@b64@ga2,{step_ns_mean}\n")
    written(folder, "pair/interference.csv", "job,slowdown,slowdown_ci_lo,slowdown_ci_hi\n" + pair)
    times = {"predicted_ns": 9.5e9, "measured_ns": 1e10, "error_percent": -5.0}
    written(folder, "fidelity.json", json.dumps({"jobs": 6, "average_jct": times, "intervals": intervals}))


class Findings(unittest.TestCase):
    def said(self, *arguments, verdicts=()):
        with tempfile.TemporaryDirectory() as folder:
            run(pathlib.Path(folder), *arguments)
            return list(findings.sentences(pathlib.Path(folder), dict(verdicts)))

    def test_each_part_has_a_sentence_with_its_interval(self):
        drawn = {"drawn": {"jct_ns_mean": {"ci_lo_ns": 9e9, "ci_hi_ns": 1.1e10}}}
        said = self.said("a@b8,1.912,1.8,2.1\nb@b8,1.02,0.9,1.2\n", 2.41e8, drawn)
        self.assertEqual(
            said,
            [
                "In the simulation, jobs take 3.00 s on average under srtf, 4.00 s under fifo.",
                "Alone, a@b16@dp1 trains the most samples a second of 2 measured jobs: 120. A step takes 41.0 ms, without an interval.",
                "For a batch of 64, which was not measured, the model chose the plan ga2 and predicted 230 ms a step (200 ms to 260 ms); "
                "measured then: 241 ms, inside the interval.",
                "Side by side on one device: a step of a takes 1.91 times as long (1.80 to 2.10); for b this cannot be told from no "
                "slowdown (0.90 to 1.20).",
                "The run of 6 jobs was predicted to take 9.50 s a job on average (9.00 s to 11.0 s), and took 10.0 s: the prediction was "
                "-5.0 % off.",
            ],
        )

    def test_what_was_not_measured_or_is_not_to_be_quoted_is_said(self):
        verdicts = {"pair": "do not quote: other programs had 40 % of cpu:0 beside a", "plans": "usable"}
        said = self.said("a@b8,,,\n", "", None, verdicts=verdicts)
        self.assertIn("(200 ms to 260 ms); it could not be measured.", said[2])
        self.assertEqual(said[3], "Side by side on one device: a could not be measured.")
        self.assertNotIn("(", said[4])
        self.assertEqual(len(said), 6)
        self.assertTrue(said[5].startswith("The numbers of pair are of no use here: do not quote: other programs had 40 %"), said[5])

    def test_times_have_three_digits(self):
        for ns, text in ((950, "950 ns"), (1500, "1.50 us"), (23140000, "23.1 ms"), (1.0e9, "1.00 s"), (1580e9, "1580 s"), (9.996e6, "10.0 ms"), (999.7e6, "1.00 s")):
            self.assertEqual(findings.time(ns), text)


if __name__ == "__main__":
    unittest.main()
