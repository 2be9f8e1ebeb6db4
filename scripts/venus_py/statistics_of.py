"""Compares the statistics of made traces with the facts, as a table in Markdown.

python3 statistics_of.py TRACE..
"""

import csv
import statistics
import sys
from collections import Counter

import facts


def read(path: str) -> list:
    """The jobs of a trace as (arrival and duration in seconds, GPUs, virtual cluster)."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    devices = lambda row: int(row["job"].rpartition("@dp")[2])
    duration_s = lambda row: int(row["steps"]) * int(row["step_ns"]) / 1e9
    return [(float(row["submit_s"]), duration_s(row), devices(row), row["vc"]) for row in rows]


def share(jobs: list, is_counted) -> float:
    return sum(map(is_counted, jobs)) / len(jobs)


def loads(jobs: list) -> dict:
    """The GPU time of the jobs of each virtual cluster over what it has in the days of the trace."""
    has = {name: nodes * facts.DEVICES_PER_NODE * facts.DAYS * 86_400 for name, nodes in facts.clusters().items()}
    used = Counter()
    for _, duration_s, devices, name in jobs:
        used[name] += duration_s * devices
    return {name: used[name] / has[name] for name in has}


def of_trace(jobs: list) -> dict:
    is_short = lambda job: job[1] <= facts.SHORT_S
    durations = [duration_s for _, duration_s, _, _ in jobs]
    by_devices = Counter(devices for _, _, devices, _ in jobs)
    small, large = ([job for job in jobs if (job[2] > 8) == is_large] for is_large in (False, True))
    numbers = {
        "jobs": len(jobs),
        "days from the first arrival to the last": (jobs[-1][0] - jobs[0][0]) / 86_400,
        "GPU hours": sum(duration_s * devices for _, duration_s, devices, _ in jobs) / 3600,
        "median duration (s)": statistics.median(durations),
        "mean duration (s)": statistics.mean(durations),
        "longest (s)": max(durations),
        "last at most 200 s (%)": 100 * share(jobs, is_short),
        "of jobs of <= 8 GPUs (%)": 100 * share(small, is_short),
        "of jobs of > 8 GPUs (%)": 100 * share(large, is_short),
    }
    numbers.update({f"jobs of {devices} GPUs": by_devices[devices] for devices in facts.BY_DEVICES})
    of_clusters = loads(jobs).values()
    numbers["load of the least and of the most loaded virtual cluster (%)"] = (100 * min(of_clusters), 100 * max(of_clusters))
    return numbers


# What is known of Venus, by the names of `of_trace`.
KNOWN = {
    "jobs": facts.JOBS,
    "days from the first arrival to the last": facts.DAYS,
    "GPU hours": facts.GPU_HOURS,
    "median duration (s)": facts.MEDIAN_S,
    "mean duration (s)": facts.MEAN_S,
    "longest (s)": facts.LONGEST_S,
    "last at most 200 s (%)": 100 * facts.SHORT_SHARE,
    "of jobs of <= 8 GPUs (%)": 100 * facts.SHORT_SHARES["<= 8"],
    "of jobs of > 8 GPUs (%)": 100 * facts.SHORT_SHARES["> 8"],
    **{f"jobs of {devices} GPUs": jobs for devices, jobs in facts.BY_DEVICES.items()},
}


def shown(value) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return " and ".join(map(shown, value))
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.1f}"


def table(traces: dict) -> list:
    """The lines of the table; `traces` has the statistics of each trace by its name."""
    lines = ["| | Venus | " + " | ".join(traces) + " |", "| --- |" + " --- |" * (len(traces) + 1)]
    for name in next(iter(traces.values())):
        cells = [shown(KNOWN.get(name)), *(shown(numbers[name]) for numbers in traces.values())]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    traces = {f"seed {number}" if len(sys.argv) > 2 else "this trace": path for number, path in enumerate(sys.argv[1:], 1)}
    print("\n".join(table({name: of_trace(read(path)) for name, path in traces.items()})))


if __name__ == "__main__":
    main()
