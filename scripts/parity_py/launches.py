"""Starts one side once, with a process for each device, and returns its steps."""

import contextlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple, Sequence

from plan import Plan

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

sys.path.append(str(ROOT / "scripts"))
from grant_page import grant_page  # noqa: E402

KEEP_FREED_MEMORY = {"GLIBC_TUNABLES": f"glibc.malloc.trim_threshold={2**62}:glibc.malloc.mmap_threshold={32 * 2**20}"}
"""The setting of the C library that torch-worker makes by itself."""


class Failed(Exception):
    """An error for the user, with a remedy."""


def program(name: str) -> Path:
    """A program that scripts/setup builds."""
    path = ROOT / "bin" / name
    if not path.exists():
        raise Failed(f"bin/{name} is not there; run scripts/setup first")
    return path


PACKAGES = {"torchvision": "0.26.0", "transformers": "5.23.0"}
"""Those that models are taken from, with the versions that are compared; torchvision 0.26 is that of PyTorch 2.11."""


def reference(family: str) -> Path:
    """The file with Python's model of the family."""
    return HERE / "models" / f"{family.replace('-', '_')}.py"


def has_reference(family: str) -> bool:
    """Whether Python has a model of the family; asked without loading PyTorch, which this python3 need not have."""
    return reference(family).exists()


def package_of(family: str) -> str | None:
    """The package beside PyTorch that Python's model of the family is taken from."""
    imports = re.search(rf"^from ({'|'.join(PACKAGES)})\b", reference(family).read_text(), re.MULTILINE)
    return imports and imports[1]


class Device(NamedTuple):
    """One core, or one GPU."""

    kind: str
    index: int

    @classmethod
    def parse(cls, text: str) -> "Device":
        kind, _, index = text.partition(":")
        if kind not in ("cpu", "cuda") or not index.isdecimal():
            raise ValueError(f"'{text}' is no device; use cpu:N or cuda:N")
        return cls(kind, int(index))

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.index}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which a process sees this device alone. GPUs are in bus order, as in the harness."""
        if self.kind == "cpu":
            return {}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        entry = visible.split(",")[self.index] if visible else str(self.index)
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": entry}


class Launch(NamedTuple):
    """The result of one start: the steps in order, and the largest share of a core that others used meanwhile (CPU).

    With several ranks, a step has the duration of the slowest rank and the mean loss of those that have samples, as in
    the harness.
    """

    step_ns: list[int]
    losses: list[float]
    foreign_cpu_percent: float | None


class Exchange(NamedTuple):
    """The files that make both sides compute the same: a spec of the harness, and torch-worker's exports of it."""

    spec: Path
    weights: Path
    data: list[Path]
    """One for each rank. Ranks that share a model take the same samples."""

    scratch: Path
    cut: int | None = None
    """Links of the first of two stages in Python's pipeline."""


def export(spec: Path, scratch: Path, batches: int, devices: list[Device], cut: int | None = None) -> Exchange:
    """Makes torch-worker write the initial weights and the first batches of each rank of the spec.

    For a plan that divides the model, they are those of the plan of data parallelism alone, which takes the same samples.
    """
    plan = Plan.parse(json.loads(spec.read_text())["program"]["training"]["plan"])
    whole = whole_models(spec, plan, scratch) if plan.divides_models else spec
    data = [scratch / f"data.{rank}.safetensors" for rank in range(plan.dp)]
    weights = scratch / "weights.safetensors"
    for rank, (device, file) in enumerate(zip(devices, data)):
        command = [program("torch-worker"), "--spec", whole, "--rank", str(rank), "--steps", str(batches)]
        command += ["--export-initial", weights, "--export-data", file]
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **device.variables})
        if run.returncode != 0:
            raise Failed(f"torch-worker could not export {spec.name}: {last_line(run.stderr)}")
    return Exchange(spec, weights, [data[plan.data_rank(rank)] for rank in range(len(devices))], scratch, cut)


def whole_models(spec: Path, plan: Plan, scratch: Path) -> Path:
    """The spec with one rank, which has all of the model, in the place of the ranks that share one."""
    launch = json.loads(spec.read_text())
    launch["program"]["training"]["plan"] = f"dp{plan.dp}"
    launch["devices"] = launch["devices"][: plan.dp]
    file = scratch / "whole.json"
    file.write_text(json.dumps(launch))
    return file


def launch_python(python: Path, exchange: Exchange, steps: int, devices: list[Device]) -> Launch:
    rendezvous = exchange.scratch / f"rendezvous-{uuid.uuid4()}"
    commands = []
    for rank, (device, data) in enumerate(zip(devices, exchange.data)):
        command = [python, HERE / "train.py", "--spec", exchange.spec, "--weights", exchange.weights]
        command += ["--data", data, "--steps", str(steps), "--device", device.kind]
        command += ["--rank", str(rank), "--ranks", str(len(devices)), "--rendezvous", rendezvous]
        if exchange.cut is not None:
            command += ["--cut", str(exchange.cut)]
        commands.append(Command(command, device, KEEP_FREED_MEMORY))
    outputs, foreign = _run(commands, exchange.scratch)
    lines = [[json.loads(line) for line in output.splitlines()] for output in outputs]
    return _launch("Python PyTorch", lines, steps, foreign)


def launch_worker(exchange: Exchange, steps: int, devices: list[Device]) -> Launch:
    """Speaks the worker protocol. The spec has the number of steps, and all of them are granted at once."""
    scratch = exchange.scratch
    spec = json.loads(exchange.spec.read_text())
    spec["program"]["training"]["steps"] = steps
    if len(devices) > 1:
        spec["program"]["training"]["rendezvous"] = str(scratch / f"rendezvous-{uuid.uuid4()}")
    spec_file = scratch / "tandem_spec"
    spec_file.write_text(json.dumps(spec))
    events = [scratch / f"worker_events.{rank}" for rank in range(len(devices))]
    with grant_page(steps) as page:
        commands = []
        for rank, (device, file) in enumerate(zip(devices, events)):
            file.write_bytes(b"")
            variables = {"TANDEM_SPEC": spec_file, "TANDEM_CONTROL": page, "TANDEM_EVENTS": file}
            variables |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(devices)}
            commands.append(Command([program("torch-worker")], device, variables))
        _, foreign = _run(commands, scratch)
    said = [[json.loads(line)["event"] for line in file.read_text().splitlines()] for file in events]
    return _launch("torch-worker", [[event["step"] for event in rank if "step" in event] for rank in said], steps, foreign)


def _launch(side: str, ranks: list[list[dict]], steps: int, foreign_cpu_percent: float | None) -> Launch:
    for rank, lines in enumerate(ranks):
        if [line["index"] for line in lines] != list(range(steps)):
            raise Failed(f"rank {rank} of {side} made {len(lines)} of {steps} steps")
    step_ns = [max(line["dur_ns"] for line in lines) for lines in zip(*ranks)]
    return Launch(step_ns, [mean_loss(lines) for lines in zip(*ranks)], foreign_cpu_percent)


def mean_loss(ranks: Sequence[dict]) -> float:
    """The loss of one step over all ranks. A rank whose samples another one counts has none and no loss."""
    # torch-worker leaves out a loss that is not finite, which a very long training may reach.
    return statistics.fmean(line.get("loss", math.nan) for line in ranks if line.get("samples") != 0)


class Command(NamedTuple):
    """One process of a launch."""

    line: list
    device: Device
    variables: dict

    @property
    def core(self) -> int | None:
        return self.device.index if self.device.kind == "cpu" else None

    def start(self, stdout, stderr) -> subprocess.Popen:
        variables = {name: str(value) for name, value in self.variables.items()}
        return subprocess.Popen(
            [str(part) for part in self.line],
            # A worker exits at the end of this file, so it stays open until then.
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.device.variables, **variables},
            preexec_fn=None if self.core is None else lambda: os.sched_setaffinity(0, {self.core}),
        )


def _run(commands: list[Command], scratch: Path) -> tuple[list[str], float | None]:
    """Runs all at once to the end; gives what each has put out, and the CPU time on the core of any that was not its own,
    in percent of the time."""
    busy_before_s, begin_s = [_busy_s(command.core) for command in commands], time.monotonic()
    outputs, foreign_percent, processes = [], [], []
    with contextlib.ExitStack() as files:
        logs = [scratch / f"stderr.{rank}" for rank in range(len(commands))]
        try:
            for rank, command in enumerate(commands):
                stdout = files.enter_context(open(scratch / f"stdout.{rank}", "w+"))
                stderr = files.enter_context(open(logs[rank], "wb"))
                processes.append((command.start(stdout, stderr), stdout))
            for rank, (process, stdout) in enumerate(processes):
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode != 0:
                    name, words = Path(commands[rank].line[0]).name, last_line(logs[rank].read_text())
                    raise Failed(f"{name} ended with {process.returncode}: {words}")
                elapsed_s, busy_after_s = time.monotonic() - begin_s, _busy_s(commands[rank].core)
                if busy_after_s is not None:
                    own_s = usage.ru_utime + usage.ru_stime
                    foreign_s = busy_after_s - busy_before_s[rank] - own_s
                    foreign_percent.append(max(0.0, 100 * foreign_s / elapsed_s))
                stdout.seek(0)
                outputs.append(stdout.read())
        finally:
            for process, _ in processes:
                process.kill()
                process.stdin.close()
                process.wait()
    return outputs, max(foreign_percent, default=None)


def _busy_s(core: int | None) -> float | None:
    """CPU time of all processes on a core since boot; user time includes guests. None without a pinned core."""
    if core is None:
        return None
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, ticks[:8])
            return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    raise Failed(f"this machine has no core {core}; choose another with --device")


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
