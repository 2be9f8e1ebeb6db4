"""The synthetic workloads of the jobs, and the rules by which jobs get one.

python3 workloads.py independent|leaky SEED TRACE..

Replaces the workload of the jobs of each trace, in place.

`independent`: a recurring job has one workload for all its instances. Each workload is as likely, whatever the duration.
`leaky`: the workload of a job is drawn by its true duration, as the models in the artifact of Lucid were: of the class `light` below 3 hours,
`middle` below 10 hours, and `heavy` from there on. A policy that knows the workload then knows the class of the duration.
"""

import csv
import random
import sys
from collections import namedtuple

# What a workload does alone on one GPU. The numbers are made up, to cover the range of utilisations; 24 GiB hold any two.
Workload = namedtuple("Workload", "name utilisation_percent dram_percent memory_mib")
WORKLOADS = [
    Workload("light-1", 9, 3, 1_400),
    Workload("light-2", 16, 7, 1_800),
    Workload("light-3", 24, 9, 2_100),
    Workload("light-4", 33, 15, 2_600),
    Workload("light-5", 42, 16, 3_200),
    Workload("middle-1", 38, 22, 4_200),
    Workload("middle-2", 52, 24, 5_100),
    Workload("middle-3", 64, 35, 6_000),
    Workload("middle-4", 76, 41, 6_800),
    Workload("heavy-1", 70, 45, 8_200),
    Workload("heavy-2", 86, 52, 10_400),
    Workload("heavy-3", 97, 66, 13_500),
]
# Samples of a step on each GPU.
BATCH = 32
HOUR_S = 3600.0


def of_class(name: str) -> list:
    return [workload for workload in WORKLOADS if workload.name.startswith(name)]


def chosen(rule: str, seed: int, row: dict) -> str:
    """The name of the workload of a job."""
    if rule == "independent":
        return random.Random(f"{seed} {row['recurring_job'] or row['name']}").choice(WORKLOADS).name
    duration_s = int(row["steps"]) * int(row["step_ns"]) / 1e9
    name = "light" if duration_s < 3 * HOUR_S else "middle" if duration_s < 10 * HOUR_S else "heavy"
    return random.Random(f"{seed} {row['name']}").choice(of_class(name)).name


def spelled(workload: str, devices: int) -> str:
    return f"{workload}@b{BATCH * devices}@dp{devices}"


def rewrite(rule: str, seed: int, path: str) -> None:
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    for row in rows:
        devices = int(row["job"].rpartition("@dp")[2])
        row["job"] = spelled(chosen(rule, seed, row), devices)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    if len(sys.argv) < 4 or sys.argv[1] not in ("independent", "leaky"):
        sys.exit(__doc__)
    for path in sys.argv[3:]:
        rewrite(sys.argv[1], int(sys.argv[2]), path)


if __name__ == "__main__":
    main()
