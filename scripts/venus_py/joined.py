"""Prints a history and the trace after it as one trace, for `sched fit --duration`.

python3 joined.py HISTORY TRACE
"""

import csv
import sys
from datetime import datetime


def read(path: str) -> list:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def joined(history: list, trace: list) -> list:
    """The rows of both, with names of their own. Arrivals count from the first of the history, by the dates."""
    at = lambda row: datetime.fromisoformat(row["submit_utc"].replace("Z", "+00:00"))
    rows = [{**row, "name": f"h-{row['name']}"} for row in history] + trace
    start = at(rows[0])
    rows = [{**row, "submit_s": (at(row) - start).total_seconds()} for row in rows]
    # Those that arrive in one second stay in their order.
    return sorted(rows, key=lambda row: row["submit_s"])


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows = joined(read(sys.argv[1]), read(sys.argv[2]))
    writer = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
