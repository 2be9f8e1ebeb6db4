"""Shows how the jobs of a run of `sched run` or `sched sim` shared their devices, up to the end of the first of them.

    python3 scripts/shares.py RUN [RUN ..]

A job holds its devices from the time at which it runs until it is paused or stopped, so that the steps that it still does when it is to
leave are its own. The share is its part of the time for which the jobs of its first device held it. The steps of a job are those of its last
report before the end of the first job, as a part of all of its steps; jobs of equal length with equal shares have equal parts.
"""

import argparse
import csv
import json
import pathlib


def held(turns: list) -> tuple:
    """The first device of each job, the time for which it held its devices, and its steps, up to the first end of a job."""
    device, time, steps, since = {}, {}, {}, {}
    for turn in turns:
        at, over = turn["at_ns"], False
        for event in turn["events"]:
            if not isinstance(event, dict):
                continue
            [(kind, of)] = event.items()
            job = of.get("job")
            if "steps" in of:
                steps[job] = of["steps"]
            runs = kind == "settled" and of["now"] == "running"
            if runs:
                since[job] = at
            elif kind in ("settled", "finished", "failed") and job in since:
                time[job] = time.get(job, 0) + at - since.pop(job)
            over |= kind in ("finished", "failed")
        if over:
            for job, began in since.items():
                time[job] = time.get(job, 0) + at - began
            break
        for action in turn.get("actions", []):
            if "start" in action:
                device.setdefault(action["start"]["job"], action["start"]["devices"][0])
    return device, time, steps


def rows(run: pathlib.Path) -> list:
    """For each job: its name, device, seconds, share and part of its steps."""
    turns = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines() if line]
    device, time, steps = held(turns)
    with (run / "outcomes.csv").open() as file:
        jobs = list(csv.DictReader(file))
    found = []
    for number, job in enumerate(jobs):
        if number not in device:
            continue
        beside = sum(time.get(other, 0) for other, on in device.items() if on == device[number])
        share = time.get(number, 0) / beside if beside else 0.0
        part = steps.get(number, 0) / int(job["steps_asked"]) if job["steps_asked"] else None
        found.append((job["name"], device[number], time.get(number, 0) / 1e9, share, part))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=pathlib.Path)
    for run in parser.parse_args().runs:
        print(f"{run.name}: job, first device, time held, share of the device, part of its steps")
        for name, device, seconds, share, part in rows(run):
            print(f"{name:24} {device:3} {seconds:8.2f} s {share:7.1%} {'-' if part is None else f'{part:.1%}':>7}")


if __name__ == "__main__":
    main()
