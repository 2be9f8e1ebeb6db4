"""A small testbed on one device: the trace of its jobs, and what a run of each policy shows beside its prediction."""

import csv
import math
from pathlib import Path
from typing import NamedTuple


class Testbed(NamedTuple):
    policies: dict[str, str]
    """The name of each policy in files, and its spelling."""

    jobs: int
    """The jobs in the trace, of all loads in turn."""

    work_s: float
    """What each job takes alone, without its start."""


POLICIES = {"fifo": "fifo", "gandiva": "gandiva:quantum=2s:pack=off", "packing-fifo": "packing-fifo"}
FULL = Testbed(POLICIES, jobs=4, work_s=6)
QUICK = Testbed({**POLICIES, "gandiva": "gandiva:quantum=300ms:pack=off"}, jobs=2, work_s=0.5)

SUBMITTED_EVERY_S = 0.5


def write_trace(path: Path, testbed: Testbed, alone: dict[str, float]) -> None:
    """`alone` has the step time of each job in nanoseconds, by its spelling."""
    spellings = list(alone)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "submit_s", "job", "steps"])
        for number in range(testbed.jobs):
            job = spellings[number % len(spellings)]
            steps = math.ceil(testbed.work_s * 1e9 / alone[job])
            writer.writerow([f"job-{number}", number * SUBMITTED_EVERY_S, job, steps])


def rows_of(policy: str, fidelity: dict) -> list[dict]:
    """A row for the means of a run, and one for each job, from `sched fidelity --json`."""
    means = [("average JCT", fidelity["average_jct"]), ("makespan", fidelity["makespan"])]
    jobs = [(f"JCT of {job['name']}", job["jct"]) for job in fidelity["per_job"]]
    return [
        {
            "policy": policy,
            "what": what,
            "measured_ns": both["measured_ns"],
            "predicted_ns": both["predicted_ns"],
            "error_percent": round(both["error_percent"], 2),
        }
        for what, both in means + jobs
    ]
