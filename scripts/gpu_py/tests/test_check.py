"""Properties of a check on any machine: its time, the effect of a failure, and forbidden content of a record."""

import contextlib
import io
import runpy
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
import nvml  # noqa: E402
import parts  # noqa: E402
import probes  # noqa: E402
import record  # noqa: E402
import workplace  # noqa: E402
from mps import lives  # noqa: E402
from waiting import LONG_S, wait_for  # noqa: E402
from workplace import Failed, Outcome, Skipped, Workplace  # noqa: E402

check = runpy.run_path(str(HERE.parent / "check"))


class CheckTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.place = Workplace(self.folder / "dist", "cpu:0", "AMD EPYC", True, self.folder / "out" / "record")
        self.place.record.mkdir(parents=True)
        self.place.work.mkdir()
        quiet = contextlib.redirect_stderr(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def run_parts(self, *measures) -> list[Outcome]:
        listed = [parts.Part(f"part{index}", 50, measure) for index, measure in enumerate(measures)]
        outcomes, interrupted = check["run_parts"](listed, self.place)
        self.assertFalse(interrupted)
        return outcomes

    def test_all_limits_together_keep_the_promise(self):
        self.assertLessEqual(sum(part.limit_s(False) for part in parts.PARTS) + check["RECORD_LIMIT_S"], 1080)

    def test_a_quick_part_that_reaches_its_limit_hangs_and_is_not_slow(self):
        for part in parts.PARTS:
            self.assertGreaterEqual(part.limit_s(True), 30, part.name)

    def test_a_part_that_fails_ends_no_other(self):
        def lacks(place):
            raise Skipped("cpu:0 has none")

        def breaks(place):
            raise KeyError("gone")

        outcomes = self.run_parts(breaks, lacks, lambda place: "fine")
        self.assertEqual([outcome.state for outcome in outcomes], ["failed", "skipped", "ok"])
        self.assertEqual([outcome.note for outcome in outcomes], ["KeyError: 'gone'", "cpu:0 has none", "fine"])

    def test_an_interrupted_check_keeps_the_parts_before_and_begins_none_after(self):
        def interrupted(place):
            raise KeyboardInterrupt

        measures = [lambda place: "fine", interrupted, lambda place: self.fail("it was begun")]
        listed = [parts.Part(f"part{index}", 50, measure) for index, measure in enumerate(measures)]
        outcomes, was_interrupted = check["run_parts"](listed, self.place)
        self.assertTrue(was_interrupted)
        self.assertEqual([(outcome.state, outcome.note) for outcome in outcomes], [("ok", "fine"), ("failed", "interrupted")])

    def test_what_a_part_leaves_over_is_the_next_ones(self):
        # A part takes no time.
        with mock.patch.object(time, "monotonic", lambda: 1000.0):
            seen = []
            self.run_parts(*[lambda place: seen.append(place.left_s())] * 2)
        self.assertEqual(seen, [100, 200])

    def test_a_command_is_ended_with_all_it_started_and_its_output_is_kept(self):
        out = self.place.work / "01-part.out"

        class UntilItHasSaidAll(subprocess.Popen):
            """A command that exceeds its time-out once it has printed two words."""

            def wait(self, timeout=None):
                if timeout is not None:
                    wait_for("two words are printed", lambda: out.read_text().split(), lambda words: len(words) == 2)
                    raise subprocess.TimeoutExpired(self.args, timeout)
                return super().wait()

        self.place.begin("part", time.monotonic() + LONG_S)
        with mock.patch.object(subprocess, "Popen", UntilItHasSaidAll):
            ran = self.place.run(["sh", "-c", "echo before; sleep infinity & echo $!; sleep infinity"])
        self.assertTrue(ran.torn)
        word, pid = ran.stdout.split()
        self.assertEqual(word, "before")
        self.assertFalse(lives(int(pid)))

    def test_a_command_that_ends_leaves_nothing_behind(self):
        self.place.begin("part", time.monotonic() + LONG_S)
        ran = self.place.run(["sh", "-c", "sleep infinity & echo $!"])
        self.assertEqual((ran.code, ran.torn), (0, False))
        self.assertFalse(lives(int(ran.stdout)))

    def test_the_answers_of_a_probe_that_was_ended_are_kept(self):
        probe = probes.PROBES[0]
        answers = probes.answers_of(probe, workplace.Ran(143, '{"question":"a","answer":"b","numbers":{}}\n', "", True))
        self.assertEqual(answers[0]["answer"], "b")
        self.assertTrue(answers[1]["answer"].startswith("not possible here: not done when its time was up"))

    def test_a_record_that_names_the_machine_fails_and_says_where(self):
        self.place.bundle.mkdir()
        (self.place.bundle / "manifest.json").write_text('{"version": "0.1.0", "revision": "abc"}')
        (self.place.record / "doctor.csv").write_text("about,health,found\ncpu,ok,AMD EPYC\n")
        self.assertIn("KiB in", record.write(self.place, []))
        (self.place.record / "doctor.csv").write_text("about,health,found\ncpu,ok,/home/somebody/run\n")
        with self.assertRaisesRegex(Failed, "doctor.csv:2 holds '/home'"):
            record.write(self.place, [])

    def test_folders_of_the_check_itself_become_relative(self):
        self.place.bundle.mkdir()
        (self.place.bundle / "manifest.json").write_text('{"version": "0.1.0", "revision": "abc"}')
        (self.place.record / "summary.csv").write_text(f"job,err_detail\nlstm,{self.place.work}/single: gone\n")
        record.write(self.place, [])
        self.assertEqual((self.place.record / "summary.csv").read_text(), "job,err_detail\nlstm,./record.work/single: gone\n")

    def test_names_in_a_text_are_replaced(self):
        text = f"{self.place.bundle}/bin/profile --out {self.place.record.parent}/x {sys.executable}"
        self.assertEqual(self.place.without_places(text), "bin/profile --out ./x python3")

    def test_folders_are_named_after_devices(self):
        names = {
            "NVIDIA H200": "h200",
            "AMD EPYC": "epyc",
            "AMD EPYC 9B14 96-Core Processor": "epyc-9b14",
            "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz": "xeon-platinum-8481c",
            "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
        }
        self.assertEqual({name: workplace.slug(name) for name in names}, names)

    def test_structures_are_as_large_as_the_driver_has_them(self):
        sizes = {nvml.FieldValue: 40, nvml.Sample: 16, nvml.MemoryV2: 40, nvml.ProcessUtilization: 32}
        sizes |= {nvml.ProcessInfo: 24, nvml.GpmMetric: 40, nvml.GpmMetrics: 24 + 333 * 40}
        self.assertEqual({structure: nvml.ctypes.sizeof(structure) for structure in sizes}, sizes)


if __name__ == "__main__":
    unittest.main()
