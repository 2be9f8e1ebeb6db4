"""Writes at most seven rows of each table of iteration times, chosen by a seed: what a policy has measured of a model.

python3 sample.py SEED OUT TABLE..
"""

import csv
import pathlib
import random
import sys

ROWS = 7


def main() -> None:
    seed, out, tables = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    out.mkdir(parents=True, exist_ok=True)
    for table in map(pathlib.Path, tables):
        with table.open() as file:
            reader = csv.DictReader(file)
            # A time of 0 stands for a plan that does not fit.
            rows = [row for row in reader if float(row["iter_time"]) > 0]
        rows = random.Random(f"{seed} {table.name}").sample(rows, min(ROWS, len(rows)))
        with (out / table.name).open("w", newline="") as file:
            writer = csv.DictWriter(file, reader.fieldnames, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


main()
