"""Commands that read files, each with files that it reads without an error."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import tables
from programs import ROOT, program

RECORD = ROOT / "reports" / "record"

CATALOG = """\
[[workload]]
name = "short"
about = "steps of 2 ms"
source = "this campaign"
global_batch = 8
axes = ["dp", "ga"]
verify = { global_batch = 8, steps = 4 }
optimizer.sgd = { learning_rate = 0.1, momentum = 0.0, weight_decay = 0.0 }
model.synthetic = { step_us = 2000, busy_percent = 0 }
"""

CLUSTER = """\
[[nodes]]
count = 2
devices = 4
"""

TRACE = "name,submit_s,job,steps,step_ns\na,0,any,500,5000000\nb,1,any@dp2,100,7000000\nc,2.5,any,900,1000000\n"


@dataclass(frozen=True)
class Reader:
    """A command that reads files below a folder of its own."""

    name: str
    files: dict[str, bytes]
    """All files, by their paths in the folder."""
    changed: tuple[str, ...]
    """The files that are changed, one at a time."""
    arguments: tuple[str, ...]
    """The program and its arguments, as typed in the folder."""


def readers(scratch: Path) -> list[Reader]:
    """All of them; the files that records do not have are made in `scratch`, which takes seconds."""
    single = folder_of(RECORD / "20261121-epyc", "run")
    pairs = folder_of(RECORD / "20261123-epyc" / "colocate" / "all-pairs-1", "run")
    testbed = folder_of(RECORD / "20261124-epyc" / "testbed" / "tiresias", "run")
    plans = of_one_workload(folder_of(RECORD / "20261125-epyc-avx512" / "two-ranks", "run"), b"lstm")
    raw, model = raw_run(scratch / "raw"), fitted(scratch / "fitted", plans)
    trace = {"trace.csv": TRACE.encode()}
    machine = {"machine.toml": testbed["run/inputs/machine.toml"]}
    jobs = {"trace.csv": testbed["run/inputs/trace.csv"]}
    of_jobs = {name.removeprefix("run/inputs/"): content for name, content in testbed.items() if "/inputs/table-" in name}
    table_arguments = "--table table-0 --table table-1 --machine machine.toml"
    tables_of_run = [name for name in raw if name.startswith("run/") and "/events/" not in name and "/jobs/" not in name]
    corpus = [
        reader("report table summary", "report table summary run --csv", single),
        reader("report table interference", "report table interference run --csv", pairs),
        reader("report table gantt", "report table gantt run --csv", testbed, "run/decisions.jsonl", "run/outcomes.csv"),
        reader("report", "report run --out page", testbed, *(name for name in testbed if "/inputs/" not in name)),
        reader("report compare", "report compare run run", single),
        reader("sched fidelity", "sched fidelity run --jobs", testbed),
        reader("sched fidelity --hindsight", "sched fidelity run --hindsight", testbed),
        reader("sched replay", "sched replay run", testbed),
        reader("sched explain", "sched explain run lstm-2", testbed),
        reader("sched fit", "sched fit run --out model.json", plans),
        reader("sched fit --interference", "sched fit --interference run --out model.json", pairs),
        reader("sched fit --interference, pairs", "sched fit --interference p.csv --out model.json", text({"p.csv": tables.pairs()})),
        reader("sched fit --csv", "sched fit --csv s.csv --out model.json", text({"s.csv": tables.STEP_TIMES})),
        reader("sched fit --csv, Rubick", "sched fit --csv bert.csv --out model.json", text({"bert.csv": tables.RUBICK_TIMES})),
        reader("sched fit --csv, Pollux", "sched fit --csv cifar10.csv --out model.json", text({"cifar10.csv": tables.POLLUX_TIMES})),
        reader("sched fit --duration", "sched fit --duration trace.csv --out shapes.csv", {"trace.csv": durations()}),
        reader("sched predict", "sched predict --model model.json lstm@b8@dp2-zero1 --devices 2", model),
        reader("sched plan", "sched plan --model model.json lstm@b8 --devices 1..4", model),
        reader("sched sim", "sched sim trace.csv --policy fifo,srtf,tiresias:60s --cluster 1x4 --switch-cost 5s", trace),
        reader(
            "sched sim --table",
            f"sched sim trace.csv --policy packing-fifo --device cpu:0,cpu:1 {table_arguments}",
            {**jobs, **of_jobs, **machine},
        ),
        reader(
            "sched sim --cluster",
            "sched sim trace.csv --policy fifo,gandiva --cluster cluster.toml --switch-cost 5s",
            {**trace, "cluster.toml": CLUSTER.encode()},
            "cluster.toml",
        ),
        reader("profile list --catalog", "profile list --catalog catalog.toml", {"catalog.toml": CATALOG.encode()}),
        reader("profile compare", "profile compare run run", raw, *tables_of_run),
        reader("profile derive", "profile derive run", raw),
        reader("profile export", "profile export run --out table.csv", raw),
        *(trace_import(name, files) for name, files in tables.TRACES.items()),
    ]  # fmt: skip
    for case in corpus:
        put(scratch / "as it is" / case.name, case.files)
        ran(scratch / "as it is" / case.name, *case.arguments)
    return corpus


def reader(name: str, typed: str, files: dict[str, bytes], *changed: str) -> Reader:
    return Reader(name, files, changed or tuple(files), tuple(typed.split()))


def trace_import(name: str, files: dict[str, str]) -> Reader:
    columns = f" --columns {tables.COLUMNS}" if name == "csv" else ""
    return reader(f"sched trace import {name}", f"sched trace import --format {name} {' '.join(files)}{columns}", text(files))


def text(files: dict[str, str]) -> dict[str, bytes]:
    return {name: content.encode() for name, content in files.items()}


def folder_of(folder: Path, name: str) -> dict[str, bytes]:
    """The files of a folder and of folders that it links to, below `name`."""
    files = {}
    for path in sorted(folder.iterdir()):
        below = f"{name}/{path.name}"
        if path.is_dir():
            files.update(folder_of(path, below))
        else:
            files[below] = path.read_bytes()
    return files


def of_one_workload(run: dict[str, bytes], workload: bytes) -> dict[str, bytes]:
    """The run with eight rows of the workload in each table, as a fit to all rows takes seconds."""

    def few(name: str) -> bytes:
        lines = run[name].splitlines(keepends=True)
        rows = [line for line in lines[1:] if b"," + workload + b"," in line]
        return b"".join([lines[0], *rows[:: len(rows) // 8][:8]])

    return {**run, **{name: few(name) for name in ("run/measurements.csv", "run/summary.csv")}}


def durations() -> bytes:
    """A trace of 60 jobs that can be fitted by their durations."""
    rows = [f"a{job},{job * 10},any,{100 + job * 37 % 900},50000000,u{job % 5}" for job in range(60)]
    return "\n".join(["name,submit_s,job,steps,step_ns,user", *rows, ""]).encode()


def raw_run(scratch: Path) -> dict[str, bytes]:
    """A run of two launches with its raw files."""
    put(scratch, {"catalog.toml": CATALOG.encode()})
    ran(scratch, "profile", *"single short --catalog catalog.toml --device cpu:0 --steps 30 --repeats 2 --out run".split())
    return folder_of(scratch / "run", "run")


def fitted(scratch: Path, runs: dict[str, bytes]) -> dict[str, bytes]:
    """A model of a run."""
    put(scratch, runs)
    ran(scratch, "sched", "fit", "run", "--out", "model.json")
    return {"model.json": (scratch / "model.json").read_bytes()}


def ran(folder: Path, name: str, *arguments: str) -> None:
    """Runs a command on files as they are, which is no trial: it must read them."""
    done = subprocess.run([program(name), *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode > 1:
        raise SystemExit(f"campaign: {name} {' '.join(arguments)}: {done.stderr}")


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
