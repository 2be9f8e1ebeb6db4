"""The workplace of a check: its device, its output folder, and its commands with their time limits."""

import csv
import datetime
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import nvml

class Failed(Exception):
    """An error in a sentence."""


class Skipped(Exception):
    """The reason in a sentence why something cannot be done here."""


class Outcome(NamedTuple):
    part: str
    state: str
    note: str
    seconds: float


class Ran(NamedTuple):
    code: int
    stdout: str
    stderr: str
    torn: bool
    """The command was ended because its time was up."""

    @property
    def last_line(self) -> str:
        lines = self.stderr.strip().splitlines() or self.stdout.strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@dataclass
class Workplace:
    bundle: Path
    device: str
    """The device as `profile` spells it: cuda:0, cpu:0."""

    device_name: str
    quick: bool
    record: Path
    commands: list[str] = field(default_factory=list)
    """The commands, as a reader could type them in a bundle."""

    part: str = ""
    torn: bool = False
    """Whether the last command was ended by its time limit."""

    deadline_s: float = 0.0

    grace_s = 6.0
    """The time between SIGTERM and SIGKILL, for a run to complete its files and for MPS clients to finish."""

    @classmethod
    def open(cls, bundle: Path, device: str, quick: bool, out: Path | None) -> "Workplace":
        if not re.fullmatch(r"(cuda|cpu):\d+", device):
            raise Failed(f"--device {device}: use cuda:N or cpu:N")
        name = name_of(device)
        place = cls(bundle, device, name, quick, (out or unused_name(slug(name))).absolute())
        for folder in (place.record, place.work):
            if folder.exists() and any(folder.iterdir()):
                raise Failed(f"{folder.name}/ is there already; name another folder with --out, or remove it")
            folder.mkdir(parents=True, exist_ok=True)
        return place

    @property
    def work(self) -> Path:
        """The folder beside the record for the raw files of its runs, which are not part of it."""
        return self.record.with_name(f"{self.record.name}.work")

    @property
    def is_gpu(self) -> bool:
        return self.device.startswith("cuda:")

    def begin(self, part: str, deadline_s: float) -> None:
        self.part, self.deadline_s = part, deadline_s

    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    def profile(self, *arguments: str) -> Ran:
        """Runs `profile`; paths among the arguments are relative to the folder of the record."""
        return self.run([self.bundle / "bin" / "profile", *arguments])

    def sched(self, *arguments: str) -> Ran:
        """Runs `sched`, as `profile` runs `profile`."""
        return self.run([self.bundle / "bin" / "sched", *arguments])

    def rows(self, *arguments: str) -> list[dict]:
        """The output of `profile ARGUMENTS --json`; a single row counts as a list of one."""
        ran = self.profile(*arguments, "--json")
        try:
            rows = json.loads(ran.stdout)
        except ValueError:
            how = "its time was up" if ran.torn else f"exit code {ran.code}: {ran.last_line}"
            raise Failed(f"profile {' '.join(arguments[:2])}: {how}") from None
        return rows if isinstance(rows, list) else [rows]

    def run(self, command: list, limit_s: float | None = None) -> Ran:
        """Runs a program in a session of its own, in the folder of the record, until the deadline of the part.

        Then its process group gets SIGTERM and, after a grace period, SIGKILL. Its output until then is kept.
        """
        words = [str(word) for word in command]
        self.commands.append(shlex.join(self.without_places(word) for word in words))
        number = len(self.commands)
        out, err = (self.work / f"{number:02}-{self.part}.{stream}" for stream in ("out", "err"))
        limit_s = max(1.0, min(limit_s or self.left_s(), self.left_s()) - self.grace_s)
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self.record.parent,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"},
                start_new_session=True,
            )
            try:
                process.wait(limit_s)
                torn = False
            except subprocess.TimeoutExpired:
                torn = True
            finally:
                end_group(process, self.grace_s)
        self.torn = torn
        return Ran(process.returncode, out.read_text(errors="replace"), err.read_text(errors="replace"), torn)

    def relative(self, name: str) -> str:
        """A folder for raw files, as an argument of a command."""
        return f"{self.work.name}/{name}"

    def without_places(self, text: str) -> str:
        """The text without names of folders of this machine."""
        site_packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        names = [(str(self.bundle), "."), (sys.executable, "python3"), (str(self.record.parent), ".")]
        names += [(path, "<site-packages>") for path in site_packages]
        names += [(str(Path.cwd()), "."), (os.environ.get("HOME", ""), "~")]
        for place, name in names:
            if len(place) > 1:
                text = text.replace(place, name)
        return text.replace("./bin/", "bin/").replace("./scripts/", "scripts/")


def end_group(process: subprocess.Popen, grace_s: float) -> None:
    """Ends every process of the group, with SIGTERM before SIGKILL."""
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        ends_s = time.monotonic() + wait_s
        while (lives := group_lives(process.pid)) and time.monotonic() < ends_s:
            time.sleep(0.02)
        if not lives:
            break
    process.wait()


def group_lives(group: int) -> bool:
    """Whether a process of the group runs. Zombies do not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state not in "ZX":
            return True
    return False


def name_of(device: str) -> str:
    if device.startswith("cuda:"):
        try:
            return nvml.Library.open().device(device).name()
        except nvml.Error as error:
            raise Failed(f"there is no {device} here: {error}; --device cpu:0 measures a core") from None
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "cpu"


def unused_name(device: str) -> Path:
    """`<date>-<device>`, with a number after it if that is taken."""
    today = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d")
    names = (f"{today}-{device}{suffix}" for suffix in ("", *(f"-{number}" for number in range(2, 1000))))
    return Path(next(name for name in names if not Path(name).exists() and not Path(f"{name}.work").exists()))


def slug(device_name: str) -> str:
    """`NVIDIA H200` to `h200`, `AMD EPYC 9B14 96-Core Processor` to `epyc-9b14`: short, and usable in a path."""
    text = re.sub(r"\(r\)|\(tm\)|@.*|\d+-core", " ", device_name.lower())
    words = [word for word in re.findall(r"[a-z0-9]+", text)]
    plain = [word for word in words if word not in ("nvidia", "amd", "intel", "cpu", "processor", "core", "with")]
    return "-".join(plain[:3]) or "cpu"


def read_csv(path: Path) -> list[dict]:
    """Returns no rows if there is no such file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def some_of(reasons: list[str]) -> str:
    """Jobs mostly fail for the same reason, and the tables have all reasons."""
    more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return reasons[0] + more


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
