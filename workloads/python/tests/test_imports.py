"""Programs with import hooks of their own, and others that meet the hook where it is registered."""

import unittest

from harness import FAKE, Launch

TRAINING = """
import torch
optimizer = torch.optim.SGD()
for _ in range(5): optimizer.step()
print("done")
"""
SAID = ["hello", "ready"] + ["step"] * 4 + ["finished"]

FINDERS = {
    "asks all others": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torch.optim.optimizer": return None
        print("sought", name)
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)): return spec
sys.meta_path.insert(0, Finder())
""",
    "asks all others, and is the last": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        print("sought", name)
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)): return spec
sys.meta_path.append(Finder())
try: import torch.nowhere
except ImportError as error: print(error)
""",
    "asks importlib and wraps the loader": """
import importlib.util
class Loader:
    def __init__(self, own): self.own = own
    def create_module(self, spec): return self.own.create_module(spec)
    def exec_module(self, module):
        print("begin", module.__name__, type(module.__spec__.loader).__name__)
        self.own.exec_module(module)
        print("end", module.__name__)
class Finder:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if self.busy or not name.startswith("torch"): return None
        self.busy = True
        try: spec = importlib.util.find_spec(name)
        finally: self.busy = False
        if spec: spec.loader = Loader(spec.loader)
        return spec
sys.meta_path.insert(0, Finder())
""",
    "looks at the class of the loader": """
import importlib.machinery
class Finder:
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("torch"): return None
        for finder in sys.meta_path[1:]:
            if spec := finder.find_spec(name, path, target):
                print(name, type(spec.loader) is importlib.machinery.SourceFileLoader)
                return spec
sys.meta_path.insert(0, Finder())
""",
    "keeps all others in it": """
class Finder:
    def __init__(self, others): self.others = others
    def find_spec(self, name, path=None, target=None):
        for finder in self.others:
            if spec := finder.find_spec(name, path, target): return spec
sys.meta_path[:] = [Finder(list(sys.meta_path))]
""",
    "takes itself off the list while it asks": """
import importlib.util
class Finder:
    def find_spec(self, name, path=None, target=None):
        sys.meta_path.remove(self)
        try: return importlib.util.find_spec(name)
        finally: sys.meta_path.insert(0, self)
sys.meta_path.insert(0, Finder())
""",
    "raises": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch.amp.grad_scaler": raise ImportError("not here")
sys.meta_path.append(Finder())
class First(Finder):
    pass
sys.meta_path.insert(0, First())
try: import torch.amp.grad_scaler
except ImportError as error: print(error)
""",
}


class ImportTest(unittest.TestCase):
    def runs_as_without_us(self, program: str) -> list:
        """Runs the program with the hook and without it. Returns the names of its events with the hook."""
        with Launch() as launch:
            ours = launch.run(program)
            names = launch.names()
            launch.environment["PYTHONPATH"] = str(FAKE)
            theirs = launch.run(program)
            for what in ("returncode", "stdout", "stderr"):
                self.assertEqual(getattr(ours, what), getattr(theirs, what), what)
        return names

    def test_every_finder_of_the_program_is_asked_as_without_us(self):
        for what, finder in FINDERS.items():
            with self.subTest(what):
                names = self.runs_as_without_us("import sys\n" + finder + TRAINING)
                self.assertEqual(names, [] if what == "raises" else SAID)

    def test_modules_that_are_sought_and_not_loaded_are_watched_when_they_are(self):
        sought = "import importlib.util\nfor _ in range(3): print(importlib.util.find_spec('torch.optim.optimizer').name)\n"
        self.assertEqual(self.runs_as_without_us(sought + TRAINING), SAID)

    def test_a_module_is_loaded_in_two_threads_at_once(self):
        threads = """
import threading
def load():
    import torch.optim.optimizer
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        self.assertEqual(self.runs_as_without_us(threads + TRAINING), SAID)


class FilesTest(unittest.TestCase):
    def test_events_survive_a_program_that_closes_all_files(self):
        closes = """
import os, torch
optimizer = torch.optim.SGD()
for _ in range(3): optimizer.step()
os.closerange(3, 256)
own = [open(name, "w") for name in NAMES]
for _ in range(5): optimizer.step()
pid = os.fork()
if pid == 0:
    for file in own: print("child", file=file)
    for file in own: file.close()
    os._exit(0)
print(os.waitpid(pid, 0)[1], flush=True)
"""
        with Launch() as launch:
            own = [launch.folder / str(number) for number in range(9)]
            ended = launch.run("NAMES = %r" % [str(path) for path in own] + closes)
            self.assertEqual((ended.stdout, ended.stderr), ("0\n", ""))
            self.assertEqual([path.read_text() for path in own], ["child\n"] * 9)
            self.assertEqual(launch.names(), ["hello", "ready"] + ["step"] * 7 + ["finished"])


if __name__ == "__main__":
    unittest.main()
