"""Runs programs under the hook as a harness does: event files, a grant page, an environment."""

import contextlib
import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HOOK = HERE.parent / "hook"
FAKE = HERE / "fake"

sys.path.append(str(ROOT / "scripts"))
from grant_page import grant_page  # noqa: E402
from waiting import LONG_S, wait_for  # noqa: E402

SYS_FUTEX = {"x86_64": 202, "aarch64": 98}
FUTEX_WAKE = 1
ENDLESS = 2**64 - 1

FROM_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def python_with_torch():
    """This Python or that of scripts/parity, if one of them has PyTorch."""
    for python in (Path(sys.executable), ROOT / ".venv-parity/bin/python"):
        asks = [str(python), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]
        if python.exists() and subprocess.run(asks, stderr=subprocess.DEVNULL).returncode == 0:
            return str(python)
    return None


def asked_of(python: str, code: str) -> str:
    """The output of the program under this Python."""
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def version_of_torch(python: str) -> tuple:
    """The first two numbers of PyTorch's version."""
    return tuple(map(int, asked_of(python, "import torch; print(torch.__version__)").split(".")[:2]))


class Program(subprocess.Popen):
    """A started program. A test that fails kills it, where `Popen` would wait for its end."""

    def __exit__(self, failure, *rest) -> None:
        if failure is not None:
            self.kill()
        super().__exit__(failure, *rest)


class Launch(contextlib.AbstractContextManager):
    """A folder for one launch, with `granted` steps from the beginning; by default without limit."""

    def __init__(self, granted: int = ENDLESS, python: str = sys.executable, fake: bool = True):
        self.folder = Path(tempfile.mkdtemp(prefix="hook-"))
        self.python = python
        self.hook = self.folder / "hook"
        # A copy, so that Python writes its bytecode there.
        shutil.copytree(HOOK, self.hook)
        self.events_path = self.folder / "0001-cmd.0.jsonl"
        self.events_path.touch()
        self._page = grant_page(granted)
        self.page = self.folder / "0001-cmd.control"
        self.page.symlink_to(self._page.__enter__())
        search_path = os.pathsep.join([str(self.hook)] + [str(FAKE)] * fake)
        self.environment = {name: value for name, value in os.environ.items() if name not in FROM_TORCHRUN}
        self.environment.update(
            PYTHONPATH=search_path, TANDEM_EVENTS=str(self.events_path), TANDEM_CONTROL=str(self.page), OMP_NUM_THREADS="1"
        )

    def __exit__(self, *_) -> None:
        shutil.rmtree(self.folder)
        self._page.__exit__(None, None, None)

    def start(self, program: str, before=(), **variables) -> "Program":
        """`program` is a script's text; `before` are arguments of Python that come before its name."""
        script = self.folder / "train.py"
        script.write_text(program)
        environment = {**self.environment, **{name: str(value) for name, value in variables.items()}}
        return Program(
            [self.python, *before, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, program: str, **variables) -> subprocess.CompletedProcess:
        with self.start(program, **variables) as process:
            stdout, stderr = process.communicate(timeout=LONG_S)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def grant(self, steps: int) -> None:
        with open(self.page, "r+b") as file:
            page = mmap.mmap(file.fileno(), 4096)
        memoryview(page).cast("Q")[0] = steps
        word = ctypes.c_uint32.from_buffer(page)
        ctypes.CDLL(None).syscall(SYS_FUTEX[os.uname().machine], ctypes.byref(word), FUTEX_WAKE, 2**31 - 1, None, None, 0)

    def lines(self, rank: int = 0, is_written: bool = False) -> list:
        """Every line of a rank's file, after the checks of a harness. While the file is written, it may end within a line."""
        path = self.events_path.with_name("0001-cmd.%d.jsonl" % rank)
        text = path.read_text() if path.exists() or not is_written else ""
        if is_written:
            text = text[: text.rfind("\n") + 1]
        assert text == "" or text.endswith("\n"), "the file ends within a line"
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["seq"] for line in lines] == list(range(len(lines))), "events were lost"
        assert all(line["rank"] == rank for line in lines), "an event of another rank"
        return lines

    def events(self, rank: int = 0, is_written: bool = False) -> list:
        """Name and fields of each event."""
        return [next(iter(line["event"].items())) for line in self.lines(rank, is_written)]

    def names(self, rank: int = 0) -> list:
        return [name for name, _ in self.events(rank)]

    def steps(self, rank: int = 0) -> list:
        """The lines of steps, with the fields of the step beside `mono_ns`."""
        return [{**line, **line["event"]["step"]} for line in self.lines(rank) if "step" in line["event"]]

    def notes(self) -> list:
        """The words of the notes, in the order in which they were written."""
        path = self.events_path.with_name("0001-cmd.notes")
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def uncounted(self) -> int:
        """The last number of calls that are no steps."""
        lines = self.events_path.with_name("0001-cmd.notes").read_text().splitlines()
        return int([line.split()[2] for line in lines if line.startswith("uncounted ")][-1])

    def wait_for(self, event, process: subprocess.Popen, rank: int = 0) -> None:
        """Waits for an event of this name, or for one of this name with these fields."""

        def look() -> tuple:
            # Before reading: a program that has ended says nothing after that.
            has_ended = process.poll() is not None
            return has_ended, self.events(rank, is_written=True)

        def is_there(seen: tuple) -> bool:
            has_ended, events = seen
            found = event in events or event in [name for name, _ in events]
            assert found or not has_ended, "no %s in %s" % (event, events)
            return found

        wait_for("rank %d says %s" % (rank, event), look, is_there)

    def wait_for_rest(self, process: subprocess.Popen) -> None:
        """Waits until a program sleeps at the end of its grant, after it has said so."""
        self.wait_for("held", process)
        stat = Path("/proc/%d/stat" % process.pid)
        wait_for("the program sleeps", lambda: stat.read_text().rpartition(")")[2].split()[0], lambda state: state == "S")
