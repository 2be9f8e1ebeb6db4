"""Gives the jobs of `nine-days` exponential durations with the same work in all.

    python3 exponential.py GANDIVA/nine-days > exponential.csv

Reads all-1.csv and the times alone in runs/all-1-fifo/outcomes.csv. Seed 1.
"""

import csv
import pathlib
import random
import sys

folder = pathlib.Path(sys.argv[1])
with (folder / "runs" / "all-1-fifo" / "outcomes.csv").open() as file:
    alone_ns = {row["name"]: float(row["alone_ns"]) for row in csv.DictReader(file)}
with (folder / "all-1.csv").open() as file:
    rows = list(csv.DictReader(file))
dice = random.Random(1)
lengths = [dice.expovariate(1) for _ in rows]
work_ns = sum(alone_ns[row["name"]] * int(row["devices"]) for row in rows)
unit_ns = work_ns / sum(length * int(row["devices"]) for length, row in zip(lengths, rows))
writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
writer.writeheader()
for length, row in zip(lengths, rows):
    steps = int(row["steps"]) * length * unit_ns / alone_ns[row["name"]]
    writer.writerow({**row, "steps": max(1, round(steps))})
