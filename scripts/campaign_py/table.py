"""A table of rows that have the same columns."""

import csv
from pathlib import Path


def print_table(rows: list[dict]) -> None:
    """Prints the rows and their sums below aligned headings."""
    first, *others = rows[0]
    sums = {first: "all", **{name: sum(row[name] for row in rows) for name in others}}
    lines = [list(rows[0]), *([shown(value) for value in row.values()] for row in [*rows, sums])]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    for line in lines:
        cells = (text.ljust(width) if at == 0 else text.rjust(width) for at, (text, width) in enumerate(zip(line, widths)))
        print("  ".join(cells).rstrip())


def shown(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def write_table(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
