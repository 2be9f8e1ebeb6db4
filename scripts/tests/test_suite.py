"""scripts/suite.py over programs that say what test runners say, and scripts/targets.py over this project."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent

LIBTEST_FAILS = r"""echo 'test a::good ... ok'; echo 'test a::bad ... FAILED'
echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'; exit 101"""
LIBTEST_PASSES = r"echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s'"
UNITTEST_FAILS = r"""echo 'FAIL: test_one (test_x.X)'; echo 'Ran 6 tests in 0.1s'; echo; echo 'FAILED (failures=1, skipped=2)'; exit 1"""
NODE_FAILS = r"""echo '✔ opens (1.5ms)'; echo '✖ closes (2.5ms)'; echo 'ℹ pass 1'; echo 'ℹ fail 1'; echo '✖ failing tests:'; exit 1"""


class SuiteTest(unittest.TestCase):
    def suite(self, *scripts, waits=True):
        with tempfile.TemporaryDirectory() as folder:
            programs = Path(folder) / "programs"
            lines = [
                json.dumps({"name": f"program {number}", "command": ["sh", "-c", script], "waits": waits})
                for number, script in enumerate(scripts)
            ]
            programs.write_text("\n".join(lines))
            done = subprocess.run(
                [sys.executable, "-B", SCRIPTS / "suite.py", programs, folder], capture_output=True, text=True
            )
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_everything_runs_after_a_failure_and_failures_are_named_at_the_end(self):
        code, out, err = self.suite(LIBTEST_FAILS, LIBTEST_PASSES, UNITTEST_FAILS, NODE_FAILS)
        self.assertEqual(code, 1)
        self.assertEqual(
            [line for line in out if line.startswith("FAILED program")],
            [
                "FAILED program 0: a::bad",
                "FAILED program 2: test_one (test_x.X)",
                "FAILED program 3: closes",
            ],
        )
        self.assertEqual(out[-1], "8 passed, 3 failed")
        self.assertIn("program 1: 3 passed", err)
        self.assertIn("test a::good ... ok", out, "the output of a program with a failure is shown")

    def test_a_program_that_dies_without_naming_a_test_is_a_failure(self):
        code, out, _ = self.suite("echo 'test result: ok. 2 passed; 0 failed; 0 ignored;'; kill -9 $$", LIBTEST_PASSES)
        self.assertEqual(code, 1)
        self.assertEqual(out[-1], "5 passed, 1 failed")
        self.assertIn("exit code -9", out[-2])

    def test_a_program_that_waits_runs_beside_one_that_computes(self):
        self.meet(True, False)

    def test_two_programs_that_compute_run_at_a_time_when_none_is_left_that_waits(self):
        self.meet(False, False)

    def meet(self, *waits):
        with tempfile.TemporaryDirectory() as folder:
            # Each ends when the other has begun.
            meet = "touch {0}/{1}; until [ -e {0}/{2} ]; do sleep 0.01; done; " + LIBTEST_PASSES
            programs = Path(folder) / "programs"
            programs.write_text(
                "\n".join(
                    json.dumps({"name": own, "command": ["sh", "-c", meet.format(folder, own, other)], "waits": waits})
                    for own, other, waits in (("one", "two", waits[0]), ("two", "one", waits[1]))
                )
            )
            done = subprocess.run(
                [sys.executable, "-B", SCRIPTS / "suite.py", programs, folder],
                capture_output=True,
                text=True,
                timeout=600,
            )
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "6 passed, 0 failed"))


class FastTest(unittest.TestCase):
    def test_every_test_that_fast_skips_exists(self):
        listed = re.search(r"^long=\(\n(.*?)^\)", (SCRIPTS / "test").read_text(), re.M | re.S)[1].split()
        sources = [file for file in SCRIPTS.parent.rglob("*.rs") if "target" not in file.parts]
        functions = set(re.findall(r"fn (\w+)", "\n".join(file.read_text() for file in sources)))
        modules = {file.stem for file in sources}
        self.assertGreater(len(listed), 10)
        for name in listed:
            *around, last = [part for part in name.split("::") if part]
            is_there = last in modules if name.endswith("::") else any(function.startswith(last) for function in functions)
            self.assertTrue(is_there and set(around) <= modules, name)


class TargetsTest(unittest.TestCase):
    def targets(self, name):
        command = [sys.executable, "-B", SCRIPTS / "targets.py", name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def test_only_programs_with_tests_of_the_name_are_built(self):
        self.assertEqual(self.targets("the_readme_is_of_this_wire"), ["harness", "--test", "protocol"])
        self.assertEqual(self.targets("exit_codes::"), ["harness", "--test", "it"])
        self.assertEqual(self.targets("a_damaged_image_ends_the_job")[0], "all")
        self.assertEqual(self.targets("no_test_has_this_name"), [])
