"""Summarises simulations beside the paper of Gandiva.

python3 results.py header                                     prints the columns of results.csv
python3 results.py rows SETUP CASE SEED POLICY RUN TOTALS.json PLACE
                                                              prints the rows of a run; PLACE is 0 for the baseline, and 1 for Gandiva
python3 results.py table RESULTS.csv                          prints the results beside the paper's, in Markdown

RUN is the folder that `sched sim --out` made in a folder of the set-up, and TOTALS.json what it printed with --json.
"""

import csv
import json
import pathlib
import statistics
import sys

import facts

COLUMNS = ["setup", "case", "seed", "policy", "metric", "value", "paper"]
MINUTE_NS = 60e9


def of_kind(happened, kind: str):
    """What an event or an action of the journal holds, if it is of this kind."""
    return happened.get(kind) if isinstance(happened, dict) else None


def minutes_to(turns, reaches: dict):
    """The minutes from the start of the run until the first of some jobs had done its number of steps, interpolated between reports. `None`
    if none ever had."""
    last, found = {job: (0, 0) for job in reaches}, []
    for turn in turns:
        for event in turn["events"]:
            for kind in ("settled", "progress", "finished"):
                report = of_kind(event, kind)
                if not report or report["job"] not in last:
                    continue
                job, at_ns, done = report["job"], turn["at_ns"], report["steps"]
                before_ns, before = last[job]
                if done >= reaches[job]:
                    part = (reaches[job] - before) / (done - before) if done > before else 1
                    found.append((before_ns + part * (at_ns - before_ns)) / MINUTE_NS)
                    del last[job]
                else:
                    last[job] = (at_ns, done)
    return min(found, default=None)


def utilisation_percent(turns, busy: list, devices: int, window_minutes: tuple) -> float:
    """The mean over devices and a window of time of the sum of the utilisations alone of the jobs that run on a device, at most 100."""
    begin_ns, end_ns = (minutes * MINUTE_NS for minutes in window_minutes)
    on, running, sums, last_ns, busy_ns = {}, set(), [0.0] * devices, 0.0, 0.0
    level = 0.0

    def change(job: int, sign: int) -> None:
        nonlocal level
        for device in on.get(job, []):
            level -= min(sums[device], 100.0)
            sums[device] += sign * busy[job]
            level += min(sums[device], 100.0)

    def ends(job: int) -> None:
        if job in running:
            running.discard(job)
            change(job, -1)

    for turn in turns:
        at_ns = turn["at_ns"]
        busy_ns += level * max(0.0, min(at_ns, end_ns) - max(last_ns, begin_ns))
        last_ns = at_ns
        for event in turn["events"]:
            settled = of_kind(event, "settled")
            if settled and settled["now"] == "running":
                running.add(settled["job"])
                change(settled["job"], 1)
            for kind in ("finished", "failed"):
                if ended := of_kind(event, kind):
                    ends(ended["job"])
        for action in turn.get("actions", []):
            if start := of_kind(action, "start"):
                on[start["job"]] = start["devices"]
            for kind in ("stop", "pause", "end"):
                if left := of_kind(action, kind):
                    ends(left["job"])
    return busy_ns / (end_ns - begin_ns) / devices


def journal(run: pathlib.Path):
    with (run / "decisions.jsonl").open() as file:
        yield from map(json.loads, file)


def of_totals(totals: dict) -> dict:
    """The numbers of a run that are the same for all set-ups, by metric."""
    seconds = lambda key: None if totals.get(key) is None else totals[key] / 1e9
    return {
        "jct_minutes": None if totals["jct_ns_mean"] is None else totals["jct_ns_mean"] / MINUTE_NS,
        "makespan_minutes": None if totals["makespan_ns"] is None else totals["makespan_ns"] / MINUTE_NS,
        "first_100_s": seconds("first_100_ns_mean"),
        "first_100_s_median": seconds("first_100_ns_median"),
        "preemptions": totals.get("preemptions"),
        "migrations": totals.get("migrations"),
        "decision_us": (totals.get("decision_times") or {}).get("mean_us"),
        "not_ended": totals["failed"] + totals["unsupported"],
    }


def metrics(setup: str, case: str, run: pathlib.Path, totals: dict) -> tuple:
    """The numbers of a run, and the paper's two for some of them."""
    found, paper = of_totals(totals), {}
    folder = run.parent.parent
    if setup == "slicing":
        with (folder / "p40" / "summary.csv").open(newline="") as file:
            of = {row["workload"]: float(row["device_util_percent_mean"]) for row in csv.DictReader(file)}
        with (run / "outcomes.csv").open(newline="") as file:
            busy = [of[row["workload"]] for row in csv.DictReader(file)]
        devices = facts.SLICING_NODES * facts.DEVICES_PER_NODE
        found["utilisation_percent"] = utilisation_percent(journal(run), busy, devices, facts.SLICING_WINDOW_MINUTES)
        paper = facts.SLICING_PUBLISHED
    elif setup == "nine-days":
        paper = facts.NINE_DAYS_PUBLISHED
    else:
        planted = json.loads((folder / "planted.json").read_text())[case]
        reaches = {int(job): steps for job, steps in planted["reaches"].items()}
        found["minutes_to_target"] = minutes_to(journal(run), reaches)
        paper = {"minutes_to_target": planted["paper"]}
    return found, paper


def rows(setup: str, case: str, seed: str, policy: str, run: pathlib.Path, totals: dict, place: int) -> list:
    found, paper = metrics(setup, case, run, totals)
    cell = lambda value: "" if value is None else round(value, 3)
    published = lambda metric: paper[metric][place] if metric in paper else ""
    return [[setup, case, seed, policy, metric, cell(value), published(metric)] for metric, value in found.items()]


def table(lines: list) -> list:
    """The published metrics, as means over seeds, and each policy over the first one of its set-up and case."""
    titles = ["set-up", "case", "metric", "policy", "simulated", "over the first", "paper", "over the first"]
    text = ["| " + " | ".join(titles) + " |", "|" + " --- |" * len(titles)]
    keys = dict.fromkeys((row["setup"], row["case"], row["metric"]) for row in lines if row["paper"] != "")
    for key in keys:
        of_key = [row for row in lines if (row["setup"], row["case"], row["metric"]) == key]
        baseline = None
        for policy in dict.fromkeys(row["policy"] for row in of_key):
            of_policy = [row for row in of_key if row["policy"] == policy]
            values = [float(row["value"]) for row in of_policy if row["value"] != ""]
            mean, paper = statistics.mean(values) if values else None, float(of_policy[0]["paper"])
            baseline = baseline or (mean, paper)
            over = lambda value, first: "-" if value is None or not first else f"{value / first:.3f}"
            shown = "-" if mean is None else f"{mean:,.1f}"
            if values and max(values) - min(values) >= 0.05:
                shown += f" ({min(values):,.1f} to {max(values):,.1f})"
            setup, case, metric = key
            cells = [setup, case, metric, f"`{policy}`", shown, over(mean, baseline[0]), f"{paper:,.1f}", over(paper, baseline[1])]
            text.append("| " + " | ".join(cells) + " |")
    return text


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["header"]:
        print(",".join(COLUMNS))
    elif arguments[:1] == ["rows"] and len(arguments) == 8:
        setup, case, seed, policy, run, totals, place = arguments[1:]
        [of_policy] = json.loads(pathlib.Path(totals).read_text())
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows(rows(setup, case, seed, policy, pathlib.Path(run), of_policy, int(place)))
    elif arguments[:1] == ["table"] and len(arguments) == 2:
        with open(arguments[1], newline="") as file:
            print("\n".join(table(list(csv.DictReader(file)))))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
