"""The hook as installed by pip, with and without the folder on the path."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness import FAKE, HERE, Launch

TRAINING = """
import sys, torch
optimizer = torch.optim.SGD()
for _ in range(5): optimizer.step()
print(sys.modules["tandem_hook.hook"].__file__ if "tandem_hook.hook" in sys.modules else "no hook")
"""


@unittest.skipUnless(os.environ.get("TANDEM_SLOW") == "1", "slow: set TANDEM_SLOW=1")
class PipTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="pip-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # pip builds beside the sources.
        left_out = shutil.ignore_patterns("tests", "__pycache__", "build", "*.egg-info")
        cls.source = str(shutil.copytree(HERE.parent, cls.folder / "source", ignore=left_out))
        subprocess.run([sys.executable, "-m", "venv", str(cls.folder / "venv")], check=True)
        cls.python = str(cls.folder / "venv/bin/python")
        install = cls.run_pip("install", cls.source)
        if install.returncode != 0:
            raise unittest.SkipTest("pypi: pip cannot install: " + install.stderr[-300:])
        asks = "import site; print(site.getsitepackages()[0])"
        cls.packages = Path(subprocess.run([cls.python, "-c", asks], capture_output=True, text=True).stdout.strip())
        shutil.copytree(FAKE / "torch", cls.packages / "torch")

    @classmethod
    def run_pip(cls, *arguments):
        return subprocess.run([cls.python, "-m", "pip", *arguments], capture_output=True, text=True)

    def run_training(self, *options, path: bool = True, harness: bool = True):
        """The output of a run without an error, and the events."""
        with Launch(python=self.python, fake=False) as launch:
            if not path:
                del launch.environment["PYTHONPATH"]
            if not harness:
                del launch.environment["TANDEM_EVENTS"]
            with launch.start(TRAINING, before=options) as process:
                printed, errors = process.communicate()
            self.assertEqual((process.returncode, errors), (0, ""))
            return printed.strip(), launch.names()

    def test_steps_are_told_once_whatever_python_ignores(self):
        said = ["hello", "ready"] + ["step"] * 4 + ["finished"]
        installed, in_folder = str(self.packages), "/hook/tandem_hook/"
        for options, path, place in (
            ((), True, in_folder),
            ((), False, installed),
            (("-E",), True, installed),
            (("-I",), True, installed),
        ):
            with self.subTest(options=options, path=path):
                printed, names = self.run_training(*options, path=path)
                self.assertIn(place, printed)
                self.assertEqual(names, said)

    def test_without_a_harness_nothing_of_it_is_there(self):
        self.assertEqual(self.run_training(harness=False), ("no hook", []))
        self.assertEqual(self.run_training(path=False, harness=False), ("no hook", []))

    def test_nothing_stays_when_it_is_removed(self):
        self.addCleanup(self.run_pip, "install", self.source)
        self.assertEqual(self.run_pip("uninstall", "--yes", "tandem-hook").returncode, 0)
        self.assertEqual([path.name for path in self.packages.glob("*tandem*")], [])
        self.assertEqual(self.run_training("-I"), ("no hook", []))


if __name__ == "__main__":
    unittest.main()
