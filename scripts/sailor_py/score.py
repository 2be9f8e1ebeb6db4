"""Predicts plans by fits to others, with `sched fit` and `sched predict`, and writes a line for each prediction.

python3 score.py SCHED TABLE SEEDS ROWS > predicted.csv

SEEDS are numbers with commas between, and ROWS the numbers of rows of a fit, or half. Each plan is also left out singly.
"""

import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile

COLUMNS = "workload,fit,seed,job,devices,measured_s,predicted_s,lo_s,hi_s,basis".split(",")


def run(*command: str) -> dict:
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def predictions(sched: str, own: list, others: list):
    """Fits to some rows and predicts the others."""
    with tempfile.TemporaryDirectory() as folder:
        table, model = (str(pathlib.Path(folder, name)) for name in ("rows.csv", "MODEL.json"))
        with open(table, "w", newline="") as file:
            writer = csv.DictWriter(file, own[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(own)
        run(sched, "fit", "--csv", table, "--out", model, "--json")
        for row in others:
            step = run(sched, "predict", "--model", model, row["job"], "--devices", row["devices"], "--json")
            seconds = [step[name] / 1e9 for name in ("step_ns", "step_ns_ci_lo", "step_ns_ci_hi")]
            yield [row["job"], row["devices"], row["step_s"], *seconds, step["basis"]]


def main() -> None:
    sched, table, seeds, counts = sys.argv[1:]
    with open(table) as file:
        rows = list(csv.DictReader(file))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for workload in dict.fromkeys(row["job"].split("@")[0] for row in rows):
        all_rows = [row for row in rows if row["job"].startswith(f"{workload}@")]
        for number, row in enumerate(all_rows):
            others = all_rows[:number] + all_rows[number + 1 :]
            for line in predictions(sched, others, [row]):
                writer.writerow([workload, "all others", 0, *line])
        for text in counts.split(","):
            count = len(all_rows) // 2 if text == "half" else int(text)
            for seed in seeds.split(","):
                order = random.Random(f"{seed} {workload}").sample(all_rows, len(all_rows))
                for line in predictions(sched, order[:count], order[count:]):
                    writer.writerow([workload, text, seed, *line])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
