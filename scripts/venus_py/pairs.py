"""A table of pairs in the form of `profile export`, made of published means. Nothing in it was measured here.

python3 pairs.py OUT.csv

A study of the artifact of Lucid (Hu et al., ASPLOS 2023) gives the mean speed of jobs in a pair over their speed alone, by the sum of the
utilisations of both alone, over 1,388 pairs on an RTX 3090 (SPEEDS). It also found that the utilisation of a job says more of what its
partner loses (correlation -0.84) than of what it loses itself (-0.57). The two losses of a pair are therefore divided here in proportion to
the utilisation of the partner. Jobs of a pair need the memory that both need alone. The workloads are those of workloads.py, which are made
up. The rows are exact, without the noise of measurements, and those of several GPUs repeat those of one, as the simulator of Lucid does.
"""

import csv
import sys
from itertools import combinations_with_replacement

from workloads import BATCH, WORKLOADS, spelled

# The mean speed of both jobs over that alone, for a sum of utilisations up to a percentage.
SPEEDS = [(100, 0.99), (125, 0.93), (150, 0.84), (175, 0.75), (float("inf"), 0.70)]
STEP_NS = 10**9
DEVICES = (1, 2, 4, 8)
# The columns that are not empty.
COLUMNS = """run launch repeat part job workload plan device threads sharing group seat global_batch steps_total steps_used step_ns_mean
peak_memory_bytes device_memory_bytes device_util_percent_mean dram_util_percent warnings status split_key split program group_size
co_runners co_runner_workloads co_runners_on_device sharing_mode step_ns_alone blocks slowdown valid started_utc version seed device_name
device_capacity_bytes""".split()


def mean_speed(sum_percent: float) -> float:
    return next(speed for most, speed in SPEEDS if sum_percent < most)


def slowdowns(one, other) -> tuple:
    """The slowdowns of both jobs of a pair."""
    both = one.utilisation_percent + other.utilisation_percent
    losses = 2 * (1 - mean_speed(both))
    slowdown = lambda partner: 1 / (1 - losses * partner.utilisation_percent / both)
    return slowdown(other), slowdown(one)


def row(workload, devices: int, **more) -> dict:
    memory = workload.memory_mib << 20
    return {
        "run": "venus-pairs",
        "launch": "",
        "repeat": 0,
        "part": 0,
        "job": spelled(workload.name, devices),
        "workload": workload.name,
        "plan": f"dp{devices}",
        "device": ",".join(f"cuda:{number}" for number in range(devices)),
        "threads": 1,
        "global_batch": BATCH * devices,
        "steps_total": 100,
        "steps_used": 100,
        "peak_memory_bytes": memory,
        "device_memory_bytes": memory,
        "status": "ok",
        "split_key": 0,
        "split": "train",
        "program": "training",
        "step_ns_alone": STEP_NS,
        "valid": "true",
        "started_utc": "2020-09-01T00:00:00Z",
        "version": "0",
        "seed": 0,
        "device_name": "NVIDIA GeForce RTX 3090",
        "device_capacity_bytes": 24 << 30,
        **more,
    }


def alone(workload, devices: int) -> dict:
    return row(
        workload,
        devices,
        sharing="alone",
        sharing_mode="alone",
        group_size=1,
        step_ns_mean=STEP_NS,
        device_util_percent_mean=workload.utilisation_percent,
        dram_util_percent=workload.dram_percent,
    )


def pair(one, other, devices: int) -> list:
    """The rows of both members."""
    jobs = [spelled(of.name, devices) for of in (one, other)]
    members = zip((one, other), (other, one), slowdowns(one, other))
    return [
        row(
            own,
            devices,
            sharing="time-slice",
            sharing_mode="time-slice",
            group="+".join(jobs),
            seat=seat,
            group_size=2,
            co_runners=jobs[1 - seat],
            co_runner_workloads=partner.name,
            co_runners_on_device=1,
            step_ns_mean=round(STEP_NS * slowdown),
            slowdown=round(slowdown, 6),
            blocks=1,
        )
        for seat, (own, partner, slowdown) in enumerate(members)
    ]


def rows() -> list:
    made = [alone(workload, devices) for devices in DEVICES for workload in WORKLOADS]
    for devices in DEVICES:
        for one, other in combinations_with_replacement(WORKLOADS, 2):
            made += pair(one, other, devices)
    return made


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows())


if __name__ == "__main__":
    main()
