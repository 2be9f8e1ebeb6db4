"""Prints a table of the runs of several traces, by trace, policy and class of jobs, as CSV.

python3 summary.py SCHED TRUTH.json RUNS

RUNS has a folder for each trace, and in it one for each policy, with the files of `sched sim --out`. A guarantee is violated if a
guaranteed job runs slower than under the plan and on the GPUs that it asks for: if its time on devices, without switches, is more than
1 % longer than its steps times the true time of such a step. It is late if its JCT is longer than that time. The last columns have
what true times stand on, as shares of the time that jobs of this class have GPUs.
"""

import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys

PER_NODE = 8
COLUMNS = [
    "trace",
    "policy",
    "class",
    "jobs",
    "jct_s_mean",
    "jct_s_median",
    "jct_s_p99",
    "queued_s_mean",
    "makespan_s",
    "restarts",
    "violated",
    "late",
    "did_not_end",
    "measured",
    "formula",
    "extrapolated",
    "published",
]
BASES = COLUMNS[-4:]


def placement(devices: int) -> str:
    """The devices of each node, on as few nodes as can be."""
    whole, rest = divmod(devices, PER_NODE)
    return "+".join([str(PER_NODE)] * whole + [str(rest)] * (rest > 0))


class Truth:
    """True times of a step, and what they stand on."""

    def __init__(self, sched: str, model: str) -> None:
        self.sched, self.model, self.known = sched, model, {}

    def of(self, row: dict, plan: str, devices: int) -> dict:
        key = f"{row['workload']}@b{row['global_batch']}@{plan}", placement(devices)
        if key not in self.known:
            command = [self.sched, "predict", "--model", self.model, key[0], "--devices", key[1], "--json"]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            self.known[key] = json.loads(said)
        return self.known[key]

    def step_s(self, row: dict) -> float:
        return self.of(row, row["plan"], int(row["devices"]))["step_ns"] / 1e9


def device_time(decisions: pathlib.Path, rows: list, truth: Truth) -> dict:
    """The time that each job has GPUs, in seconds times GPUs, by what its true time stands on."""
    used, placed, of_job = {}, {}, {int(row["job"]): row for row in rows}

    def leaves(job: int, at_ns: int) -> None:
        if job in placed:
            since_ns, plan, devices = placed.pop(job)
            basis = truth.of(of_job[job], plan, devices)["basis"]
            used[job, basis] = used.get((job, basis), 0.0) + devices * (at_ns - since_ns) / 1e9

    with decisions.open() as file:
        for turn in map(json.loads, file):
            for action in turn.get("actions", []):
                if stop := action.get("stop"):
                    leaves(stop["job"], turn["at_ns"])
                if start := action.get("start"):
                    plan = start.get("plan") or of_job[start["job"]]["plan"]
                    placed[start["job"]] = turn["at_ns"], plan, len(start["devices"])
    for job in list(placed):
        leaves(job, int(of_job[job]["end_ns"]))
    return used


def p99(values: list) -> float:
    """The 99th percentile, by the nearest rank."""
    return sorted(values)[max(math.ceil(0.99 * len(values)), 1) - 1]


def line(trace: str, policy: str, name: str, rows: list, truth: Truth, used: dict) -> dict:
    done = [row for row in rows if row["jct_ns"]]
    seconds = lambda row, column: int(row[column]) / 1e9
    jct = [seconds(row, "jct_ns") for row in done]
    violated = late = 0
    for row in done:
        if row["class"] == "guaranteed":
            promised = int(row["steps_asked"]) * truth.step_s(row)
            violated += seconds(row, "running_ns") > 1.01 * promised
            late += seconds(row, "jct_ns") > 1.01 * promised
    numbers = [
        len(rows),
        statistics.mean(jct),
        statistics.median(jct),
        p99(jct),
        statistics.mean(seconds(row, "queued_ns") for row in done),
        max(seconds(row, "end_ns") for row in done) - min(seconds(row, "submit_ns") for row in rows),
    ]
    numbers = [round(number, 1) for number in numbers]
    restarts = sum(max(int(row["starts"]) - 1, 0) for row in rows)
    jobs = {int(row["job"]) for row in rows}
    by_basis = [sum(time for (job, of), time in used.items() if of == basis and job in jobs) for basis in BASES]
    shares = [round(time / sum(by_basis), 3) for time in by_basis]
    values = [trace, policy, name, *numbers, restarts, violated, late, len(rows) - len(done), *shares]
    return dict(zip(COLUMNS, values))


def main() -> None:
    truth, runs = Truth(sys.argv[1], sys.argv[2]), pathlib.Path(sys.argv[3])
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for outcomes in sorted(runs.glob("*/*/outcomes.csv")):
        trace, policy = outcomes.parts[-3], outcomes.parts[-2]
        with outcomes.open() as file:
            rows = list(csv.DictReader(file))
        used = device_time(outcomes.with_name("decisions.jsonl"), rows, truth)
        for name in ["all", "guaranteed", "best-effort"]:
            of_class = [row for row in rows if name in ("all", row["class"])]
            if any(row["jct_ns"] for row in of_class):
                writer.writerow(line(trace, policy, name, of_class, truth, used))


if __name__ == "__main__":
    main()
