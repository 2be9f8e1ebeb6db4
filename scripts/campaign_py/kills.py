"""Kills commands at random moments, continues them, and counts what is left, lost or done twice."""

import csv
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from corpus import CATALOG, put, raw_run
from programs import is_built, program
from tables import RUBICK_TIMES

MARK = "TANDEM_CAMPAIGN"
"""A variable that all processes of a trial inherit, with the trial's folder."""

LIMIT_S = 120
"""A process of a killed command that lives longer is an orphan, and a command that runs longer hangs."""

JOBS = {"long": 300, "second": 200, "both": 60, "quick": 40, "last": 80}
TRACE = """\
name,submit_s,job,steps,step_ns
long,0,short,300,2000000
second,0.1,short,200,2000000
both,0.3,short@dp2,60,2000000
quick,0.5,short,40,2000000
last,0.8,short@ga2,80,2000000
"""

FAULTS = ("orphans", "rows lost", "done twice", "differs", "leftovers", "fails")


@dataclass(frozen=True)
class Scenario:
    """A command, how it goes on after a kill, and what its files must be at the end."""

    name: str
    begin: str
    go_on: str
    """The command after a kill, once `begun` exists; the first command is repeated before."""
    begun: str
    faults: Callable[[Path], list[tuple[str, str]]]
    """Faults of the files in a folder, once a command has ended well."""
    rows: tuple[str, ...] = ()
    """Tables to which rows are appended: a whole row that a kill leaves must stay."""


def campaign(
    seed: int, times: int, keep: Path | None, progress: Callable[[], None], only: Collection[str] = ()
) -> tuple[list[dict], list[str]]:
    """Kills commands `times` times, those of `only` if it names some. Returns a row for each command with its counts, and a text for
    each fault."""
    chance = random.Random(seed)
    texts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
        inputs = {"catalog.toml": CATALOG.encode(), "trace.csv": TRACE.encode(), "bert.csv": RUBICK_TIMES.encode(), **raw_run(Path(scratch) / "raw")}
        scenarios = [case for case in all_scenarios(inputs, Path(scratch)) if not only or case.name in only]
        durations = {scenario.name: undisturbed_s(scenario, inputs, Path(scratch)) for scenario in scenarios}
        rows = {
            scenario.name: dict.fromkeys(("command", "ends", "kills", *FAULTS, "seconds"), 0) for scenario in scenarios
        }
        left = times
        for number, scenario in enumerate(itertools.cycle(scenarios)):
            if left == 0:
                break
            folder, row = Path(scratch) / f"trial-{number}", rows[scenario.name]
            begin_s = time.monotonic()
            kills = min(chance.randint(1, 4), left)
            faults = trial(scenario, inputs, folder, chance, kills, durations[scenario.name], progress)
            left -= kills
            row["ends"] += 1
            row["kills"] += kills
            row["seconds"] = round(row["seconds"] + time.monotonic() - begin_s, 1)
            for kind, text in faults:
                row[kind] += 1
                texts.append(f"{number} {scenario.name}: {kind}: {text}")
            if faults and keep:
                shutil.rmtree(keep / str(number), ignore_errors=True)
                shutil.copytree(folder, keep / str(number), symlinks=True)
            shutil.rmtree(folder)
    return [{**row, "command": name} for name, row in rows.items()], texts


def all_scenarios(inputs: dict[str, bytes], scratch: Path) -> list[Scenario]:
    single = "single short --plan dp1,ga2 --catalog catalog.toml --device cpu:0 --steps 30"
    run = "run trace.csv --policy srtf --switch-cost 50ms --checkpoint-every 100ms --catalog catalog.toml --device cpu:0,cpu:1 --out r"
    scenarios = [
        resumed("profile single", f"{single} --repeats 2 --out r", "single --resume r", derived_alike(4)),
        resumed(
            "profile colocate",
            "colocate short@b8 short@b4 --catalog catalog.toml --device cpu:0 --steps 30 --repeats 1 --out r",
            "colocate --resume r",
            derived_alike(2, of_groups=True),
        ),
        Scenario("sched run", f"sched {run}", "sched run --resume r --yes", "r/manifest.toml", once_each),
    ]
    if is_built("torch-worker"):
        torch = "single lstm@b4 --device cpu:0 --threads 1 --steps 8 --repeats 2 --out r"
        scenarios.append(resumed("profile single (torch)", torch, "single --resume r", derived_alike(2)))
    for name, typed, made in (
        ("sched fit", "sched fit --csv bert.csv --out model.json", "model.json"),
        ("sched trace make", "sched trace make any --jobs 30000 --every 20s --length exponential:500 --step-time 1s --out t.csv", "t.csv"),
        ("profile export", "profile export run --out table.csv", "table.csv"),
        ("report", "report run --out page", "page"),
    ):  # fmt: skip
        scenarios.append(repeated(name, typed, made, inputs, scratch))
    return scenarios


def resumed(name: str, begin: str, go_on: str, faults: Callable[[Path], list[tuple[str, str]]]) -> Scenario:
    return Scenario(name, f"profile {begin}", f"profile {go_on} --yes", "r/manifest.toml", faults, ("r/measurements.csv",))


def repeated(name: str, typed: str, made: str, inputs: dict[str, bytes], scratch: Path) -> Scenario:
    """A command that is repeated after a kill. Its files must then equal those of a command that was not killed."""
    reference = scratch / f"alone {name}"
    put(reference, inputs)
    subprocess.run(words(typed), cwd=reference, capture_output=True, check=True)
    expected = content(reference / made)

    def faults(folder: Path) -> list[tuple[str, str]]:
        found = [] if content(folder / made) == expected else [("differs", made)]
        others = {path.name for path in folder.iterdir()} - {path.name for path in reference.iterdir()}
        return found + [("leftovers", name) for name in sorted(others)]

    return Scenario(name, typed, typed, made, faults)


def content(path: Path) -> dict[str, bytes] | bytes | None:
    """The bytes of a file, or of all files below a folder."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    return path.read_bytes() if path.is_file() else None


def words(typed: str) -> list[str]:
    name, *arguments = typed.split()
    return [program(name), *arguments]


def undisturbed_s(scenario: Scenario, inputs: dict[str, bytes], scratch: Path) -> float:
    """Seconds that the command takes if it is not killed. Its files have no fault."""
    folder = scratch / "undisturbed"
    put(folder, inputs)
    begin_s = time.monotonic()
    done = subprocess.run(words(scenario.begin), cwd=folder, capture_output=True, text=True)
    seconds = time.monotonic() - begin_s
    faults = scenario.faults(folder) if done.returncode == 0 else done.stderr
    if faults:
        raise SystemExit(f"campaign: {scenario.begin}: {faults}")
    shutil.rmtree(folder)
    return seconds


def trial(
    scenario: Scenario,
    inputs: dict[str, bytes],
    folder: Path,
    chance: random.Random,
    kills: int,
    duration_s: float,
    progress: Callable[[], None],
) -> list[tuple[str, str]]:
    """Begins a command, kills it `kills` times at moments of its whole duration, and lets it end."""
    put(folder, inputs)
    environment = {**os.environ, MARK: str(folder)}
    faults: list[tuple[str, str]] = []
    rows: dict[str, set[str]] = {table: set() for table in scenario.rows}
    while True:
        begun = folder / scenario.begun
        typed = scenario.go_on if begun.exists() else scenario.begin
        if not begun.exists() and scenario.go_on != scenario.begin:
            # A kill before the manifest leaves a folder without a run, which a new run refuses.
            shutil.rmtree(begun.parent, ignore_errors=True)
        with (folder / "said").open("ab") as said:
            process = subprocess.Popen(words(typed), cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            if kills > 0:
                process.wait(chance.uniform(0, duration_s))
                kills = 0
            code = process.wait(LIMIT_S)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            if kills == 0:
                return [*faults, ("fails", f"{typed}: not ended after {LIMIT_S} s")]
            kills -= 1
            progress()
        faults += [("orphans", line) for line in orphans(folder)]
        for table in scenario.rows:
            rows[table] |= whole_rows(folder / table)
    faults += [("orphans", line) for line in orphans(folder)]
    if code != 0:
        return [*faults, ("fails", f"{typed}: exit code {code}: {last_lines(folder / 'said')}")]
    (folder / "said").unlink()
    for table, before in rows.items():
        faults += [("rows lost", line) for line in sorted(before - whole_rows(folder / table))]
    return faults + scenario.faults(folder)


def orphans(folder: Path) -> list[str]:
    """Processes of the trial that do not end, each with its command; they are ended."""
    mark = f"{MARK}={folder}".encode()
    deadline_s = time.monotonic() + LIMIT_S
    while remaining := [pid for pid in pids() if mark in environment_of(pid)]:
        if time.monotonic() > deadline_s:
            said = [(Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ") for pid in remaining]
            for pid in remaining:
                os.kill(pid, signal.SIGKILL)
            return said
        time.sleep(0.01)
    return []


def pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def whole_rows(table: Path) -> set[str]:
    """The rows of a table whose end of line is written."""
    lines = table.read_text().splitlines(keepends=True)[1:] if table.is_file() else []
    return {line for line in lines if line.endswith("\n")}


def last_lines(path: Path) -> str:
    return " | ".join(path.read_text(errors="replace").splitlines()[-3:])


def derived_alike(launches: int, of_groups: bool = False) -> Callable[[Path], list[tuple[str, str]]]:
    """The run has this number of launches, each cell once in a part, and `profile derive` writes the same bytes again. With `of_groups`, only
    launches beside others are counted, as those alone are repeated around each visit."""

    def faults(folder: Path) -> list[tuple[str, str]]:
        run = folder / "r"
        with (run / "measurements.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["status"] == "ok" and (row["group"] or not of_groups)]
        # A visit is repeated in the next part of the run if the launches alone after it are missing.
        done = Counter((row["job"], row["repeat"], row["group"], row["seat"], row["part"]) for row in rows)
        found = [("done twice", str(cell)) for cell, times in done.items() if times > 1]
        cells = {cell[:-1] for cell in done}
        if len(cells) != launches:
            found.append(("rows lost", f"{len(cells)} of {launches} launches"))
        before = content(run)
        subprocess.run(words("profile derive r"), cwd=folder, capture_output=True, check=True)
        after = content(run)
        return found + [("differs", name) for name in sorted(before) if before[name] != after.get(name)]

    return faults


def once_each(folder: Path) -> list[tuple[str, str]]:
    """Each job of the trace has ended once with all of its steps."""
    with (folder / "r" / "outcomes.csv").open(newline="") as file:
        done = {row["name"]: (row["status"], int(row["steps"])) for row in csv.DictReader(file)}
    found = [("rows lost", name) for name, steps in JOBS.items() if done.get(name) != ("ok", steps)]
    ends: Counter = Counter()
    for line in (folder / "r" / "decisions.jsonl").read_text().splitlines():
        ends.update(event["finished"]["job"] for event in json.loads(line)["events"] if "finished" in event)
    return found + [("done twice", str(job)) for job, times in ends.items() if times > 1]
