"""The traces of the table: what is simulated, and how each seed makes its own."""

import csv
import gzip
import pathlib
import random
import subprocess
from typing import Callable, NamedTuple

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
RECORD = SCRIPTS.parent / "reports" / "record"
LUCID, RUBICK = RECORD / "20261125-epyc-lucid", RECORD / "20261125-epyc-rubick"


class Settings(NamedTuple):
    """The programs and folders of a table, and the sizes of its samples."""

    sched: str
    out: pathlib.Path
    reference: pathlib.Path
    philly_jobs: int
    venus_jobs: int


class Trace(NamedTuple):
    name: str
    # What differs between seeds.
    chance: str
    # What policies may need: the keys of `policies.REASONS`.
    has: set
    # The settings of policies on this trace, where they are not the default ones.
    settings: dict
    # The interval of reports for policies that decide by them.
    report: str
    # Makes the files of a seed in a folder, and returns the arguments of `sched sim`, by policy.
    make: Callable
    # The first file without which it cannot be made.
    needs: Callable
    # Whether its runs are small enough to be drawn.
    has_pictures: bool = False


def run(*command, text: str = None) -> str:
    said = subprocess.run([str(part) for part in command], input=text, capture_output=True, text=True)
    if said.returncode != 0:
        raise SystemExit(f"policy-table: {' '.join(map(str, command))} ended with {said.returncode}:\n{said.stderr}")
    return said.stdout


def once(path: pathlib.Path, make: Callable) -> pathlib.Path:
    """Makes a file that is not there. It is made under another name first, so that one that is there is complete."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"part-{path.name}")
        make(part)
        part.rename(path)
    return path


PHILLY_NODES, PHILLY_DEVICES_PER_NODE, PHILLY_LOAD = 16, 8, 0.9
# Larger jobs would need most of this small cluster at once.
PHILLY_LARGEST = 32


def philly_window(reference: pathlib.Path, jobs: int, seed: int) -> list:
    """The header, and this number of consecutive jobs of the published trace from a place that the seed draws."""
    with gzip.open(reference / "philly" / "philly.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    at, devices = header.index("timestamp"), header.index("num_gpus")
    rows = sorted((row for row in rows if row and int(row[devices]) <= PHILLY_LARGEST), key=lambda row: row[at])
    if jobs >= len(rows):
        raise SystemExit(f"policy-table: --philly-jobs {jobs}: the published trace has {len(rows)} jobs of at most {PHILLY_LARGEST} GPUs; write fewer")
    begin = random.Random(f"philly {seed}").randrange(len(rows) - jobs)
    return [header] + rows[begin : begin + jobs]


def make_philly(of: Settings, folder: pathlib.Path, seed: int) -> Callable:
    def write(path: pathlib.Path) -> None:
        lines = philly_window(of.reference, of.philly_jobs, seed)
        text = "".join(",".join(line) + "\n" for line in lines)
        there = str(PHILLY_NODES * PHILLY_DEVICES_PER_NODE)
        run(of.sched, "trace", "import", "--format", "philly", "-", "--load", PHILLY_LOAD, "--devices", there, "--out", path, text=text)

    trace = once(folder / "trace.csv", write)
    cluster = f"{PHILLY_NODES}x{PHILLY_DEVICES_PER_NODE}"
    return lambda policy: [trace, "--cluster", cluster, "--switch-cost", "62s", "--resume-cost", "1s", "--seed", seed]


def make_venus(of: Settings, folder: pathlib.Path, seed: int) -> Callable:
    whole = of.out / "venus-whole" / str(seed)

    def write_whole(path: pathlib.Path) -> None:
        run(SCRIPTS / "venus-trace", "--out", path.absolute(), "--seeds", seed, "--only-traces")

    once(whole, write_whole)

    def write(path: pathlib.Path) -> None:
        lines = (whole / str(seed) / "trace.csv").read_text().splitlines(keepends=True)
        path.write_text("".join(lines[: of.venus_jobs + 1]))

    trace = once(folder / "trace.csv", write)
    pairs = once(of.out / "venus-whole" / "pairs.csv", lambda path: run("python3", "-B", SCRIPTS / "venus_py" / "pairs.py", path))
    fit = lambda path: run(of.sched, "fit", "--interference", pairs, "--out", path)
    fitted = once(of.out / "venus-whole" / "interference.json", fit)
    facts = ["python3", "-B", SCRIPTS / "venus_py" / "facts.py", "cluster"]
    stage = once(of.out / "venus-whole" / "cluster-profiling.toml", lambda path: path.write_text(run(*facts, "--profiling")))

    def arguments(policy: str) -> list:
        cluster = stage if policy.startswith("lucid") else whole / "cluster.toml"
        sources = ["--truth", f"trace,{fitted}", "--model", f"trace,{fitted}"]
        history = ["--history", whole / str(seed) / "history.csv"]
        return [trace, "--cluster", cluster, "--switch-cost", "40s,9:60s", "--resume-cost", "1s", "--seed", seed, *history, *sources]

    return arguments


def make_mt(of: Settings, folder: pathlib.Path, seed: int) -> Callable:
    published, shared = of.reference / "rubick-a800", of.out / "rubick-mt"
    iterations = sorted((published / "iterations").glob("*.csv"))
    like = ["--published", published / "published-parameters.csv", "--forward-like", "bert-large"]
    truth = once(shared / "truth.json", lambda path: run(of.sched, "fit", "--csv", *iterations, *like, "--out", path))
    few = once(folder / "few", lambda path: run("python3", "-B", SCRIPTS / "rubick_py" / "sample.py", seed, path, *iterations))
    rows = sorted(few.glob("*.csv"))
    belief = once(folder / "few.json", lambda path: run(of.sched, "fit", "--csv", *rows, *like, "--out", path))
    workload = published / "workloads" / "workload-mt.csv"
    trace = once(shared / "trace.csv", lambda path: run(of.sched, "trace", "import", "--format", "rubick", workload, "--out", path))
    cluster = SCRIPTS / "rubick_py" / "a800.toml"
    sources = ["--truth", truth, "--model", belief]
    return lambda policy: [trace, "--cluster", cluster, "--switch-cost", "78s", "--resume-cost", "1s", "--progress-every", "60s", "--seed", seed, *sources]


# What policies believe on the traces of the testbed is wrong by this standard deviation on the log scale.
TESTBED_ERROR = "0.1"


def make_testbed(of: Settings, folder: pathlib.Path, seed: int) -> Callable:
    # The model of the recorded run says how groups that were not measured slow each other down.
    sources = f"tables,{LUCID / 'lucid' / 'inputs' / 'model-0.json'}"
    wrong = ["--belief-error", TESTBED_ERROR, "--seed", seed]
    known = ["--table", LUCID / "fresh", "--machine", LUCID / "machine.toml", "--history", LUCID / "history.csv"]
    return lambda policy: [LUCID / "trace.csv", "--cluster", "1x2", *known, "--truth", sources, "--model", sources, *wrong]


def make_testbed_elastic(of: Settings, folder: pathlib.Path, seed: int) -> Callable:
    fit = lambda path: run(of.sched, "fit", RUBICK / "fresh", "--seed", "1", "--within-rows", "--out", path)
    model = once(of.out / "testbed-elastic" / "model.json", fit)
    sources = f"tables,{model}"
    wrong = ["--belief-error", TESTBED_ERROR, "--seed", seed]
    known = ["--table", RUBICK / "fresh", "--machine", RUBICK / "machine.toml", "--progress-every", "500ms"]
    trace = RUBICK / "rubick" / "inputs" / "trace.csv"
    return lambda policy: [trace, "--cluster", "1x2", *known, "--truth", sources, "--model", sources, *wrong]


# Jobs of the testbed take a minute, so that rounds of minutes would only let them wait.
SHORT = {
    "tiresias": "tiresias:15s",
    "rubick": "rubick:restarts=20%:every=5s",
    "optimus": "optimus:every=5s",
    "sia": "sia:every=5s",
    "pollux-fixed-batch": "pollux-fixed-batch:every=5s",
    "synergy": "synergy:every=5s",
    "las": "las:every=5s",
    "gittins": "gittins:every=5s",
    "themis": "themis:every=5s",
    "gavel": "gavel:every=5s",
    "lucid": "lucid:load-bin=20s:busy=1",
    "gandiva": "gandiva:quantum=5s",
}

TRACES = [
    Trace("philly", "the window of the published trace", set(), {}, "60s", make_philly, lambda of: of.reference / "philly" / "philly.csv.gz"),
    Trace(
        "venus",
        "the trace, which is made",
        {"together", "utilisations"},
        {"tiresias": "tiresias:18000s"},
        "300s",
        make_venus,
        lambda of: SCRIPTS / "venus-trace",
    ),
    Trace(
        "rubick-mt",
        "the seven rows of each model that policies believe",
        {"elastic", "classes", "cores"},
        {},
        "60s",
        make_mt,
        lambda of: of.reference / "rubick-a800" / "workloads" / "workload-mt.csv",
    ),
    Trace(
        "testbed",
        "the error of what policies believe, and the costs of switches",
        {"together", "utilisations", "intervals"},
        SHORT,
        "500ms",
        make_testbed,
        lambda of: LUCID / "trace.csv",
        has_pictures=True,
    ),
    Trace(
        "testbed-elastic",
        "the error of what policies believe, and the costs of switches",
        {"elastic", "classes", "cores"},
        SHORT,
        "500ms",
        make_testbed_elastic,
        lambda of: RUBICK / "rubick" / "inputs" / "trace.csv",
        has_pictures=True,
    ),
]
