"""Packing in a record: from the tables of runs to one row per pair and a sentence about Gandiva's law."""

import contextlib
import io
import itertools
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
import packing  # noqa: E402
import page  # noqa: E402
import parts  # noqa: E402
from waiting import LONG_S  # noqa: E402
from workplace import Failed, Workplace, read_csv  # noqa: E402

LIGHT_HEAVY = packing.LOADS_ON_GPU
BOUND_PAIR = packing.Run("bound", {"memory-bound": "vae@b128", "compute-bound": "gpt2@b4@bf16"}, every_pair=False)
JOBS = {"vae": "vae@b128@dp1", "gpt2": "gpt2@b4@bf16"}


def seats(workloads: tuple[str, ...], mode: str, throughput: str, **more: str) -> list[dict]:
    """Rows of `interference.csv`, with the columns that are read."""
    row = {"group": "+".join(JOBS[workload] for workload in workloads), "sharing": packing.MODES[mode], "blocks": "1"}
    row |= {"group_norm_throughput": throughput, "valid": "true", "warnings": "", "status": "ok", "err_detail": "", **more}
    return [
        {**row, "seat": str(seat), "workload": workload, "job": JOBS[workload]} for seat, workload in enumerate(workloads)
    ]


def launch(workload: str, util: str, group: str = "", status: str = "ok") -> dict:
    """A row of `measurements.csv`, with the columns that are read."""
    row = {"job": JOBS[workload], "group": group, "status": status, "device_util_percent_mean": util}
    return row | {"sm_util_percent": "", "dram_util_percent": "12.5"}


def pair(util: float | None, gain: float | None, **more: str) -> dict:
    row = {"pair": "light + heavy", "device_util_percent_alone_mean": util, "gain_percent": gain}
    return row | {"missing": "", "warnings": "", **more}


class PackingTest(unittest.TestCase):
    def test_a_gain_is_what_packing_gets_through_over_what_turns_do(self):
        both = ("vae", "gpt2")
        interference = seats(both, "time-slice", "1.32", warnings="foreign") + seats(both, "step-gate", "0.96")
        interference += seats(both, "mps", "1.45", warnings="few-repeats")
        interference += seats(("gpt2", "gpt2"), "time-slice", "0.95", valid="false", warnings="foreign;few-steps")
        measurements = [launch("vae", "30"), launch("vae", "34"), launch("gpt2", "98")]
        # The utilisation beside another job or in a failed launch is not that of the job alone.
        measurements += [launch("vae", "90", group="x"), launch("vae", "1", status="failed")]
        mixed, heavy = packing.of_run(LIGHT_HEAVY, interference, measurements)
        self.assertEqual(mixed["pair"], "light + heavy")
        self.assertEqual([mixed[f"device_util_percent_alone_{of}"] for of in ("seat0", "seat1", "mean")], [32, 98, 65])
        self.assertEqual((mixed["sm_util_percent_alone_seat0"], mixed["dram_util_percent_alone_seat0"]), (None, 12.5))
        self.assertEqual((mixed["gain_percent"], mixed["valid"], mixed["warnings"]), (37.5, True, "foreign;few-repeats"))
        self.assertEqual((mixed["norm_throughput_mps"], heavy["norm_throughput_mps"], mixed["missing"]), (1.45, None, ""))
        self.assertEqual((heavy["pair"], heavy["norm_throughput_time_slice"]), ("heavy + heavy", 0.95))
        self.assertEqual((heavy["norm_throughput_step_gate"], heavy["gain_percent"], heavy["valid"]), (None, None, False))
        self.assertEqual((heavy["missing"], heavy["warnings"]), ("step-gate: not measured; mps: not measured", "foreign;few-steps"))

    def test_what_is_not_known_is_said_and_not_zero(self):
        both = ("vae", "vae")
        interference = seats(both, "time-slice", "", err_detail="an MPS server is there")
        [row] = packing.of_run(LIGHT_HEAVY, interference + seats(both, "step-gate", "0.97"), [launch("vae", "")])
        self.assertEqual(row["pair"], "light + light")
        self.assertIsNone(row["device_util_percent_alone_mean"])
        self.assertIsNone(row["gain_percent"])
        missing = "no utilisation of vae@b128@dp1 alone; time-slice: an MPS server is there; mps: not measured"
        self.assertEqual(row["missing"], missing)
        self.assertIn(f"Left out: light + light ({missing}).", packing.law([row, pair(50, 2), pair(90, 1)]).text)

    def test_a_machine_without_mps_is_said_and_casts_no_doubt_on_the_other_modes(self):
        both, why = ("vae", "gpt2"), "there is no nvidia-cuda-mps-control; it comes with the driver"
        interference = seats(both, "time-slice", "1.2") + seats(both, "step-gate", "0.96")
        lacks = {"status": "unsupported", "blocks": "0", "valid": "false", "warnings": "foreign", "err_detail": why}
        [row] = packing.of_run(LIGHT_HEAVY, interference + seats(both, "mps", "", **lacks), [launch("vae", "30")] * 2)
        self.assertEqual((row["norm_throughput_mps"], row["gain_percent"]), (None, 25))
        self.assertEqual((row["blocks"], row["valid"], row["warnings"]), (1, True, ""))
        self.assertEqual(row["missing"], f"no utilisation of gpt2@b4@bf16 alone; mps: {why}")
        said = "Not measured under MPS, for the reason in `missing`: light + heavy."
        self.assertEqual(packing.with_mps([row]), said)
        # Only the reasons why a number of the law is not known leave a pair out of it.
        known = pair(90, 1, missing=f"mps: {why}")
        self.assertNotIn("Left out", packing.law([known, pair(10, 80)]).text)
        # A run that asks for no MPS lacks none.
        [row] = packing.of_run(BOUND_PAIR, interference, [])
        self.assertEqual((row["norm_throughput_mps"], packing.with_mps([row])), (None, ""))
        self.assertNotIn("mps", row["missing"])

    def test_what_mps_gives_beside_time_slices(self):
        light = {"pair": "light + light", "norm_throughput_time_slice": "1.5", "norm_throughput_mps": "1.8", "missing": ""}
        heavy = {**light, "pair": "heavy + heavy", "norm_throughput_time_slice": 1.001, "norm_throughput_mps": 0.999}
        not_sliced = {**light, "norm_throughput_time_slice": "", "missing": "time-slice: out of memory"}
        gains = "light + light +20 % (1.50 to 1.80), heavy + heavy +0 % (1.00 to 1.00)"
        expected = f"MPS in place of time slices changes the throughput at once: {gains}."
        self.assertEqual(packing.with_mps([light, heavy, not_sliced]), expected)

    def test_whether_the_law_shows(self):
        cases = {
            "shows": [(90, -10), (10, 80), (50, 40), (70, 5)],
            "shows on the whole only": [(10, 80), (50, 5), (70, 40), (90, -10)],
            "does not show": [(10, 1), (50, 40), (70, 20), (90, 30)],
            "is not to be judged": [(99, 1), (99.4, 40), (None, 20), (90, None)],
        }
        for shows, points in cases.items():
            with self.subTest(shows):
                self.assertEqual(packing.law([pair(*point) for point in points]).shows, shows)
        self.assertEqual(packing.law([pair(10, 0.2), pair(90, -0.3)]).shows, "does not show")
        self.assertEqual(packing.law([]).shows, "is not to be judged")
        self.assertIn("and all 2 pairs have 99 %.", packing.law([pair(99, 1), pair(99.4, 40)]).text)

    def test_four_points_are_called_few(self):
        law = packing.law([pair(10, 80), pair(50, 40), pair(70, 5), pair(90, -10, warnings="foreign")])
        self.assertIn("over 4 pairs the gain falls", law.text)
        self.assertIn("from +80 % at 10 % to -10 % at 90 %. The rank correlation is -1.00", law.text)
        self.assertIn("of the 24 orders that these gains can have, 1 falls as clearly or more so.", law.text)
        self.assertIn("So few points are a sign and no proof. With warnings: light + heavy (foreign).", law.text)
        # Two saturate the device, and their order is unknown.
        tied = packing.law([pair(35, 80), pair(67, 40), pair(99.6, -1), pair(100, 2)])
        self.assertEqual(tied.shows, "shows")
        self.assertIn("correlation is -0.95; of the 24 orders that these gains can have, 2 fall as clearly", tied.text)

    def test_equal_values_share_a_rank(self):
        self.assertEqual(packing.ranks((5.0, 1.0, 5.0, 9.0)), [2.5, 1, 2.5, 4])
        self.assertAlmostEqual(packing.rank_correlation((1, 2, 3, 4), (2, 1, 4, 3)), 0.6)

    def test_four_pairs_of_the_catalog_are_measured_on_a_gpu(self):
        self.assertEqual((packing.LOADS_ON_GPU.pairs, packing.BOUNDS_ON_GPU.pairs), (3, 1))
        files = (HERE.parents[2] / "workloads" / "catalog").glob("*.toml")
        workloads = {workload["name"] for file in files for workload in tomllib.loads(file.read_text())["workload"]}
        each = itertools.product((False, True), repeat=2)
        for run in [packing.loads(*where) for where in each] + [packing.bounds(False), packing.bounds(True)]:
            kinds = [run.kind_of(job.partition("@")[0]) for job in run.jobs.values()]
            self.assertEqual(kinds, list(run.jobs), "each workload is of one kind")
            self.assertLessEqual({job.partition("@")[0] for job in run.jobs.values()}, workloads)


PROFILE = """#!/bin/sh
# Stands in for bin/profile: copies the tables of a run from a given folder.
while [ "$1" != --out ]; do shift; done
mkdir -p "$2" && cp -- "$(dirname -- "$0")"/tables/* "$2/"
echo 'error: it said why' >&2
exit "$(cat -- "$(dirname -- "$0")/code")"
"""


class OutOfTime(subprocess.Popen):
    """A program that exceeds every time-out at once."""

    def wait(self, timeout=None):
        if timeout is not None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return super().wait()


class PartTest(unittest.TestCase):
    """The part of a check, with another program instead of `profile`."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Workplace(Path(folder.name) / "dist", "cpu:0", "AMD EPYC", True, Path(folder.name) / "record")
        self.tables = self.place.bundle / "bin" / "tables"
        for path in (self.place.record, self.place.work, self.tables):
            path.mkdir(parents=True)
        program = self.place.bundle / "bin" / "profile"
        program.write_text(PROFILE)
        program.chmod(0o755)
        quiet = contextlib.redirect_stderr(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def leave(self, name: str, head: str, *rows: str) -> None:
        (self.tables / name).write_text("\n".join([head, *rows]) + "\n")

    def measure(self, code: int, left_s: float = LONG_S) -> str | None:
        (self.place.bundle / "bin" / "code").write_text(str(code))
        self.place.begin("colocate", time.monotonic() + left_s)
        return parts.colocate(self.place)

    def leave_tables(self, status: str = "ok", detail: str = "", lacks_mps: str = "") -> None:
        head = "group,sharing,seat,workload,job,blocks,group_norm_throughput,valid,warnings,status,err_detail"
        spin = "synthetic-spin,synthetic-spin@b32@dp1"
        modes = (("time-slice", "1.08"), ("step-gate:250ms", "0.96"))
        rows = [
            f"spin+spin,{mode},{seat},{spin},1,{throughput},true,,{status},{detail}"
            for mode, throughput in modes
            for seat in (0, 1)
        ]
        if lacks_mps:
            rows += [f"spin+spin,mps,{seat},{spin},0,,false,,unsupported,{lacks_mps}" for seat in (0, 1)]
        self.leave("interference.csv", head, *rows)
        head = "job,group,status,device_util_percent_mean,sm_util_percent,dram_util_percent"
        self.leave("measurements.csv", head, *(f"synthetic-spin@b32@dp1,,ok,{util},," for util in (88, 92)))
        self.leave("summary.csv", "job", "x")
        self.leave("manifest.toml", "format = 1")

    def test_the_record_has_the_tables_and_says_what_they_show(self):
        self.leave_tables()
        self.assertEqual(self.measure(0), "1 pair; Gandiva's law is not to be judged")
        names = {path.name for path in self.place.record.iterdir()}
        tables = {f"{name}.csv" for name in ("interference", "packing", "colocate-summary", "colocate-measurements")}
        self.assertEqual(names, tables | {"colocate-heavy-manifest.toml"})
        [pair] = read_csv(self.place.record / "packing.csv")
        self.assertEqual((pair["pair"], pair["gain_percent"], pair["valid"]), ("heavy + heavy", "12.5", "true"))
        self.assertEqual((pair["device_util_percent_alone_mean"], pair["sm_util_percent_alone_seat0"]), ("90.0", ""))
        self.place.bundle.joinpath("manifest.json").write_text('{"version": "0.1.0", "revision": "abc"}')
        text = page.describe(self.place, [])
        self.assertIn("Gandiva's law is not to be judged here: it takes pairs of different utilisation alone", text)
        self.assertIn("| heavy + heavy | spin+spin | 90 | 90 | 90 | 1.08 | 0.96 | 12.5 | 1 | true |", text)

    def test_a_machine_without_mps_does_not_fail_the_part(self):
        self.leave_tables(lacks_mps="there is no nvidia-cuda-mps-control")
        note = "1 pair; Gandiva's law is not to be judged; without MPS: there is no nvidia-cuda-mps-control"
        self.assertEqual(self.measure(1), note)
        [pair] = read_csv(self.place.record / "packing.csv")
        self.assertEqual((pair["norm_throughput_mps"], pair["gain_percent"], pair["valid"]), ("", "12.5", "true"))
        self.assertIn("mps: there is no nvidia-cuda-mps-control", pair["missing"])

    def test_which_modes_are_measured(self):
        for is_gpu, quick, modes in (
            (True, False, "time-slice,step-gate:250ms,mps"),
            (True, True, "time-slice,step-gate:250ms,mps"),
            (False, False, "time-slice,step-gate:250ms"),
            (False, True, "time-slice"),
        ):
            with self.subTest(is_gpu=is_gpu, quick=quick):
                self.place.device, self.place.quick = "cuda:0" if is_gpu else "cpu:0", quick
                with self.assertRaises(Failed):
                    self.measure(1)
                self.assertIn(f" --sharing {modes} --device ", self.place.commands[-1])

    def test_what_is_missing_fails_the_part_with_its_reason(self):
        with self.assertRaisesRegex(Failed, "0 of 1 pair: exit code 3: error: it said why"):
            self.measure(3)
        up = "heavy has 0 of 1 pair: its time was up before the block was complete"
        with self.assertRaisesRegex(Failed, up), mock.patch.object(subprocess, "Popen", OutOfTime):
            self.measure(0)
        with self.assertRaisesRegex(Failed, "0 of 1 pair: the time of this part was used up"):
            self.measure(0, left_s=2)
        self.leave_tables("failed", "contaminated: out of memory")
        with self.assertRaisesRegex(Failed, "spin\\+spin: contaminated: out of memory; and 3 more"):
            self.measure(1)


if __name__ == "__main__":
    unittest.main()
