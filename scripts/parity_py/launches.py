"""Starts one side once, on one device, and gives the steps it made."""

import json
import math
import os
import struct
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

GRANT_PAGE_BYTES = 4096
"""The grant is the first eight bytes of one page, in the machine's own byte order."""


KEEP_FREED_MEMORY = {"GLIBC_TUNABLES": f"glibc.malloc.trim_threshold={2**62}:glibc.malloc.mmap_threshold={32 * 2**20}"}
"""What torch-worker tells its C library by itself."""


class Failed(Exception):
    """A sentence for the user that says what went wrong and what to do."""


def program(name: str) -> Path:
    """One of those that scripts/setup builds."""
    path = ROOT / "bin" / name
    if not path.exists():
        raise Failed(f"bin/{name} is not there; run scripts/setup first")
    return path


def has_reference(family: str) -> bool:
    """Whether Python has a model of the family; asked without loading PyTorch, which this python3 need not have."""
    return (HERE / "models" / f"{family.replace('-', '_')}.py").exists()


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
        """What a process needs to see this device alone, a GPU by its place on the bus, as the harness counts."""
        if self.kind == "cpu":
            return {}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        entry = visible.split(",")[self.index] if visible else str(self.index)
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": entry}


class Launch(NamedTuple):
    """What one start gave: the steps in order, and how much of the core others used meanwhile (CPU)."""

    step_ns: list[int]
    losses: list[float]
    foreign_cpu_percent: float | None


class Exchange(NamedTuple):
    """The files that make both sides compute the same: a spec of the harness, and what torch-worker makes of it."""

    spec: Path
    weights: Path
    data: Path
    scratch: Path


def export(spec: Path, scratch: Path, batches: int, device: Device) -> Exchange:
    """Has torch-worker write the initial weights and the first batches that the spec leads to."""
    exchange = Exchange(spec, scratch / "weights.safetensors", scratch / "data.safetensors", scratch)
    command = [program("torch-worker"), "--spec", spec, "--export-initial", exchange.weights]
    command += ["--export-data", exchange.data, "--steps", str(batches)]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **device.variables})
    if run.returncode != 0:
        raise Failed(f"torch-worker could not export {spec.name}: {last_line(run.stderr)}")
    return exchange


def launch_python(python: Path, exchange: Exchange, steps: int, device: Device) -> Launch:
    command = [python, HERE / "train.py", "--spec", exchange.spec, "--weights", exchange.weights]
    command += ["--data", exchange.data, "--steps", str(steps), "--device", device.kind]
    output, foreign = _run(command, device, KEEP_FREED_MEMORY, exchange.scratch)
    lines = [json.loads(line) for line in output.splitlines()]
    return _launch("Python PyTorch", lines, steps, foreign)


def launch_worker(exchange: Exchange, steps: int, device: Device) -> Launch:
    """Speaks the worker protocol: the spec says how many steps to make, and all of them are granted at once."""
    scratch = exchange.scratch
    spec = json.loads(exchange.spec.read_text())
    spec["program"]["training"]["steps"] = steps
    files = {name: scratch / name.lower() for name in ("WORKER_SPEC", "WORKER_CONTROL", "WORKER_EVENTS")}
    files["WORKER_SPEC"].write_text(json.dumps(spec))
    files["WORKER_CONTROL"].write_bytes(struct.pack("=Q", steps).ljust(GRANT_PAGE_BYTES, b"\0"))
    files["WORKER_EVENTS"].write_bytes(b"")
    _, foreign = _run([program("torch-worker")], device, {name: str(path) for name, path in files.items()}, scratch)
    events = [json.loads(line)["event"] for line in files["WORKER_EVENTS"].read_text().splitlines()]
    return _launch("torch-worker", [event["step"] for event in events if "step" in event], steps, foreign)


def _launch(side: str, lines: list[dict], steps: int, foreign_cpu_percent: float | None) -> Launch:
    if [line["index"] for line in lines] != list(range(steps)):
        raise Failed(f"{side} made {len(lines)} of {steps} steps")
    # torch-worker leaves out a loss that is not finite, as training far beyond what a workload is made for may give.
    losses = [line.get("loss", math.nan) for line in lines]
    return Launch([line["dur_ns"] for line in lines], losses, foreign_cpu_percent)


def _run(command: list, device: Device, variables: dict, scratch: Path) -> tuple[str, float | None]:
    """Runs to the end; gives its output, and the CPU time on its core that was not its own, in percent of the time."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **device.variables, **variables}
    core = device.index if device.kind == "cpu" else None
    log = scratch / "stderr"
    busy_before_s, begin_s = _busy_s(core), time.monotonic()
    with open(log, "wb") as stderr, open(scratch / "stdout", "w+") as stdout:
        process = subprocess.Popen(
            [str(part) for part in command],
            # A worker leaves at the end of this file, so it stays open until the worker has left.
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdin.close()
        stdout.seek(0)
        output = stdout.read()
    elapsed_s, busy_after_s = time.monotonic() - begin_s, _busy_s(core)
    if process.returncode != 0:
        raise Failed(f"{Path(command[0]).name} ended with {process.returncode}: {last_line(log.read_text())}")
    if core is None:
        return output, None
    own_s = usage.ru_utime + usage.ru_stime
    return output, max(0.0, 100 * (busy_after_s - busy_before_s - own_s) / elapsed_s)


def _busy_s(core: int | None) -> float | None:
    """CPU time of all processes on a core since boot; guests are contained in user time. None where none is pinned."""
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
