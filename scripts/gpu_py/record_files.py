"""Files that parts of a check add to its record."""

import csv
import shutil

from workplace import Failed, Workplace, read_csv


def keep(place: Workplace, run: str, name: str, named: str | None = None) -> None:
    """Copies a file of a run into the record, if the run has it."""
    path = place.record.parent / run / name
    if path.exists():
        shutil.copyfile(path, place.record / (named or name))


def write_csv(place: Workplace, name: str, rows: list[dict]) -> None:
    """Writes absent values as empty cells, as in every table of a run."""
    if not rows:
        raise Failed("its time was up before the first row" if place.torn else "there are no rows")
    with open(place.record / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        words = {True: "true", False: "false"}
        for row in rows:
            writer.writerow({key: words[value] if isinstance(value, bool) else value for key, value in row.items()})


def add_to_csv(place: Workplace, name: str, rows: list[dict]) -> None:
    """Adds rows to a table of the record, which the first of them begin."""
    if rows:
        write_csv(place, name, read_csv(place.record / f"{name}.csv") + rows)
