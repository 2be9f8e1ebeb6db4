"""Simulates policies on made traces and summarises their outcomes.

python3 policies.py header                                  prints the columns of policies.csv
python3 policies.py run SCHED POLICY OUT ARGUMENT..        simulates, and prints a row of policies.csv
python3 policies.py table POLICIES.csv                     prints the means over seeds, with the least and the most, in Markdown

`run` runs `SCHED sim ARGUMENT.. --policy POLICY --out OUT` and measures its wall time. The seed is the name of the folder above OUT.
"""

import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

COLUMNS = [
    "seed",
    "policy",
    "jobs",
    "jct_s_mean",
    "queue_s_mean",
    "jct_s_median",
    "queue_s_p99.9",
    "makespan_s",
    "jct_s_mean_large",
    "jct_s_mean_small",
    "preemptions",
    "joins",
    "did_not_end",
    "wall_s",
]
# Jobs of more GPUs than one node has.
LARGE = 8


def rank(values: list, share: float) -> float:
    """A quantile, by the nearest rank."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def joins(turns) -> int:
    """How often a job was started on a device that another job held."""
    holders, on, count = {}, {}, 0

    def leave(job: int) -> None:
        for device in on.pop(job, []):
            holders[device].discard(job)

    for turn in turns:
        for event in turn["events"]:
            for name in ("finished", "failed"):
                if ended := event.get(name) if isinstance(event, dict) else None:
                    leave(ended["job"])
        for action in turn.get("actions", []):
            if start := action.get("start"):
                count += any(holders.get(device) for device in start["devices"])
                on[start["job"]] = start["devices"]
                for device in start["devices"]:
                    holders.setdefault(device, set()).add(start["job"])
            for name in ("stop", "end"):
                if left := action.get(name):
                    leave(left["job"])
    return count


def summary(outcomes: list, turns) -> dict:
    """The numbers of a run. `turns` are the lines of its journal, which are read if a job was packed."""
    done = [row for row in outcomes if row["jct_ns"]]
    seconds = lambda row, column: int(row[column]) / 1e9
    jct = lambda rows: round(statistics.mean(seconds(row, "jct_ns") for row in rows), 1) if rows else ""
    queue = [seconds(row, "queued_ns") for row in done]
    return {
        "jobs": len(outcomes),
        "jct_s_mean": jct(done),
        "queue_s_mean": round(statistics.mean(queue), 1),
        "jct_s_median": round(statistics.median(seconds(row, "jct_ns") for row in done), 1),
        "queue_s_p99.9": round(rank(queue, 0.999), 1),
        "makespan_s": round(max(seconds(row, "end_ns") for row in done) - min(seconds(row, "submit_ns") for row in outcomes), 1),
        "jct_s_mean_large": jct([row for row in done if int(row["devices"]) > LARGE]),
        "jct_s_mean_small": jct([row for row in done if int(row["devices"]) <= LARGE]),
        "preemptions": sum(max(int(row["starts"]) - 1, 0) for row in outcomes),
        "joins": joins(turns) if any(int(row["packed_ns"] or 0) for row in outcomes) else 0,
        "did_not_end": len(outcomes) - len(done),
    }


def run(sched: str, policy: str, out: pathlib.Path, arguments: list) -> None:
    begin = time.perf_counter()
    command = [sched, "sim", *arguments, "--policy", policy, "--out", str(out)]
    said = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall_s = time.perf_counter() - begin
    # 1 means that some jobs did not end, which is a number of the table.
    if said.returncode not in (0, 1):
        sys.exit(f"{said.stderr}policies: {policy} ended with {said.returncode}")
    with (out / "outcomes.csv").open(newline="") as file:
        outcomes = list(csv.DictReader(file))
    with (out / "decisions.jsonl").open() as file:
        numbers = summary(outcomes, map(json.loads, file))
    line = {"seed": out.parent.name, "policy": policy, **numbers, "wall_s": round(wall_s, 2)}
    csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n").writerow(line)


def shown(rows: list, column: str) -> str:
    """The mean over seeds, and the range if it is one."""
    values = [float(row[column]) for row in rows if row[column] != ""]
    digits = 2 if column == "wall_s" else 0
    text = lambda value: f"{value:,.{digits}f}"
    if not values:
        return "-"
    if len(values) == 1 or text(min(values)) == text(max(values)):
        return text(statistics.mean(values))
    return f"{text(statistics.mean(values))} ({text(min(values))} to {text(max(values))})"


def table(rows: list) -> list:
    titles = {
        "jct_s_mean": "average JCT",
        "queue_s_mean": "average queue",
        "jct_s_median": "median JCT",
        "queue_s_p99.9": "p99.9 queue",
        "jct_s_mean_large": "JCT, > 8 GPUs",
        "jct_s_mean_small": "JCT, <= 8 GPUs",
        "makespan_s": "makespan",
        "preemptions": "preemptions",
        "joins": "joins",
        "wall_s": "wall time",
    }
    lines = ["| policy | " + " | ".join(titles.values()) + " |", "| --- |" + " --- |" * len(titles)]
    for policy in dict.fromkeys(row["policy"] for row in rows):
        of_policy = [row for row in rows if row["policy"] == policy]
        lines.append(f"| `{policy}` | " + " | ".join(shown(of_policy, column) for column in titles) + " |")
    return lines


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"] and len(arguments) > 4:
        run(arguments[1], arguments[2], pathlib.Path(arguments[3]), arguments[4:])
    elif arguments[:1] == ["table"] and len(arguments) == 2:
        with open(arguments[1], newline="") as file:
            print("\n".join(table(list(csv.DictReader(file)))))
    elif arguments == ["header"]:
        print(",".join(COLUMNS))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
