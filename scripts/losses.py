"""Compares the losses of the jobs of runs of `sched run`, such as one that reconfigures jobs with one that leaves them alone.

    python3 scripts/losses.py RUN ALONE [OTHER_SEED] [--csv FILE]

The losses of a job are those of its launches one after another, each the mean over its ranks, and in means over 25 steps. For each job of
RUN that ended, the table has the launches with their plans, and how far the losses are from those of the same job in ALONE and, if the
run is given, how far those of ALONE are from those in OTHER_SEED, which has another seed: the mean and the largest difference in percent.
FILE gets all means, by job and first step. Steps that were lost and done again would be counted twice, so that such a job is left out.
"""

import argparse
import csv
import json
import pathlib
import statistics
import sys

STEPS = 25


class Launch:
    """What a launch was to do, and the losses that its ranks reported."""

    def __init__(self, request: pathlib.Path) -> None:
        asked = json.loads(request.read_text())
        self.job, self.plan, self.losses = asked["cell"], asked["program"]["training"]["plan"], []
        of_steps = {}
        for events in sorted((request.parent.parent / "events").glob(f"{asked['launch']}.*.jsonl")):
            for line in events.read_text().splitlines():
                step = json.loads(line)["event"].get("step")
                if step and step.get("loss") is not None:
                    of_steps.setdefault(step["index"], []).append(step["loss"])
        self.losses = [statistics.mean(of_steps[index]) for index in sorted(of_steps)]


def is_training(request: pathlib.Path) -> bool:
    return not request.name.endswith(".end.json") and "training" in json.loads(request.read_text())["program"]


def of_run(run: pathlib.Path) -> dict:
    """The launches of each job, in order."""
    jobs = {}
    for request in sorted(filter(is_training, (run / "jobs").glob("*.json"))):
        launch = Launch(request)
        jobs.setdefault(launch.job, []).append(launch)
    with (run / "outcomes.csv").open() as file:
        done = {row["name"]: int(row["steps"]) for row in csv.DictReader(file) if row["status"] == "ok"}
    steps = lambda launches: sum(len(launch.losses) for launch in launches)
    return {job: launches for job, launches in jobs.items() if steps(launches) == done.get(job)}


def means(launches: list) -> list:
    """Means over 25 steps, the last over fewer."""
    losses = [loss for launch in launches for loss in launch.losses]
    return [statistics.mean(losses[first : first + STEPS]) for first in range(0, len(losses), STEPS)]


def difference(one: list, other: list) -> tuple:
    """The mean and the largest difference of means, in percent."""
    percents = [100 * abs(a / b - 1) for a, b in zip(one, other, strict=True)]
    return statistics.mean(percents), max(percents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=pathlib.Path)
    parser.add_argument("--csv", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    if len(arguments.runs) not in (2, 3):
        parser.error("give two runs, or three")
    runs = [of_run(run) for run in arguments.runs]
    rows = []
    print("job,steps,plans,mean_percent,max_percent,other_seed_mean_percent,other_seed_max_percent")
    for job in runs[0]:
        if all(job in run for run in runs):
            found = [means(run[job]) for run in runs]
            pairs = [difference(found[0], found[1])] + [difference(found[1], other) for other in found[2:]]
            plans = " ".join(f"{len(launch.losses)}x{launch.plan}" for launch in runs[0][job])
            percents = [f"{percent:.3f}" for pair in pairs for percent in pair]
            steps = sum(len(launch.losses) for launch in runs[0][job])
            print(",".join([job, str(steps), plans, *percents, *[""] * (4 - len(percents))]))
            rows += [[job, STEPS * number, *losses] for number, losses in enumerate(zip(*found, strict=True))]
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["job", "first_step", "loss", "loss_alone", "loss_other_seed"][: 2 + len(runs)])
            writer.writerows([job, first, *(f"{loss:.6g}" for loss in losses)] for job, first, *losses in rows)


if __name__ == "__main__":
    sys.exit(main())
