"""Prints the errors of predictions, and of simulators on the same plans.

python3 summary.py PREDICTED [TABLE SIMULATED]
"""

import csv
import pathlib
import statistics
import sys

FOLDERS = {"opt-350m": "OPT-350", "gpt-neo-2.7b": "GPT-NEO"}


def read(path) -> list:
    with open(path) as file:
        return list(csv.DictReader(file))


def percent(predicted: str, measured: str) -> float:
    return 100.0 * abs(float(predicted) / float(measured) - 1.0)


def line(workload: str, name: str, rows: list) -> str:
    """The errors of predictions of one kind."""
    errors = [percent(row["predicted_s"], row["measured_s"]) for row in rows]
    is_covered = lambda row: float(row["lo_s"]) <= float(row["measured_s"]) <= float(row["hi_s"])
    outside = [row for row in rows if row["basis"] == "extrapolated"]
    share = lambda part, whole: f"{100 * len(part) / len(whole):.0f} %" if whole else "-"
    cells = [
        workload,
        name,
        str(len(rows)),
        f"{statistics.mean(errors):.1f} %",
        f"{statistics.median(errors):.1f} %",
        f"{max(errors):.1f} %",
        share([row for row in rows if is_covered(row)], rows),
        share(outside, rows),
        share([row for row in outside if is_covered(row)], outside),
    ]
    return f"| {' | '.join(cells)} |"


def simulator(workload: str, name: str, table: list, simulated: list) -> str:
    """The errors of a simulator on the plans of the table; it may have no prediction of some of them."""
    known = {(row["job"].split("@")[1], row["step_s"]) for row in table if row["job"].startswith(f"{workload}@")}
    own = [row for row in simulated if (f"b{row['gbs']}", row["real"]) in known]
    errors = [percent(row["estimated"], row["real"]) for row in own]
    cells = [workload, name, f"{len(own)} of {len(known)}", f"{statistics.mean(errors):.1f} %"]
    cells += [f"{statistics.median(errors):.1f} %", f"{max(errors):.1f} %", "-", "-", "-"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    rows = read(sys.argv[1])
    print("| model | fitted to | predictions | mean | median | largest | inside 95 % | extrapolated | of these inside |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for workload in dict.fromkeys(row["workload"] for row in rows):
        for fit in dict.fromkeys(row["fit"] for row in rows if row["workload"] == workload):
            print(line(workload, fit, [row for row in rows if (row["workload"], row["fit"]) == (workload, fit)]))
        if len(sys.argv) > 3:
            for file in sorted(pathlib.Path(sys.argv[3], FOLDERS[workload]).glob("*-time.csv")):
                name = file.name.removesuffix("-time.csv")
                print(simulator(workload, name, read(sys.argv[2]), read(file)))


if __name__ == "__main__":
    main()
