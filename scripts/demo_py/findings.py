"""Says in sentences what `scripts/demo` has found, from the files of its runs.

    python3 scripts/demo_py/findings.py device FOLDER      # the device of the jobs alone
    python3 scripts/demo_py/findings.py plan FOLDER        # the plan that the model chose
    python3 scripts/demo_py/findings.py sentences FOLDER
"""

import csv
import json
import pathlib
import statistics
import subprocess
import sys
from typing import Dict, Iterator, List

SECOND = 1e9


def table(path: pathlib.Path) -> List[Dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def time(ns: float) -> str:
    """A time with three digits: `23.1 ms`."""
    for unit, size in (("s", SECOND), ("ms", 1e6), ("us", 1e3)):
        rounded = float(f"{ns / size:.3g}")
        if rounded >= 1:
            decimals = 2 if rounded < 10 else 1 if rounded < 100 else 0
            return f"{ns / size:.{decimals}f} {unit}"
    return f"{ns:.0f} ns"


def between(low: float, high: float) -> str:
    return f"{time(low)} to {time(high)}"


def chosen_plan(folder: pathlib.Path) -> Dict:
    return json.loads((folder / "plan.json").read_text())[0]


def sentences(folder: pathlib.Path, verdicts: Dict[str, str]) -> Iterator[str]:
    """One sentence for each part of the demonstration, in their order, and one for each run that is not to be quoted."""
    yield of_simulation(folder)
    yield of_alone(folder)
    yield of_plan(folder)
    yield of_pair(folder)
    yield of_trace(folder)
    for run, verdict in sorted(verdicts.items()):
        if verdict.startswith("do not quote"):
            yield f"The numbers of {run} are of no use here: {verdict}. Try again on a quiet machine."


def of_simulation(folder: pathlib.Path) -> str:
    average = {}
    for outcomes in (folder / "simulated").glob("*/outcomes.csv"):
        jct = [float(row["jct_ns"]) for row in table(outcomes) if row["jct_ns"]]
        if jct:
            average[outcomes.parent.name] = statistics.mean(jct)
    if not average:
        return "In the simulation, no job has ended."
    best, *others = sorted(average, key=average.get)
    rest = ", ".join(f"{time(average[policy])} under {policy}" for policy in others)
    return f"In the simulation, jobs take {time(average[best])} on average under {best}, {rest}."


def of_alone(folder: pathlib.Path) -> str:
    measured = [row for row in table(folder / "plans" / "summary.csv") if row["status"] == "ok" and row["samples_per_s"]]
    if not measured:
        return "No job was measured alone: see the errors above."
    row = max(measured, key=lambda row: float(row["samples_per_s"]))
    step, low, high = (row[f"step_ns_median{end}"] for end in ("", "_ci_lo", "_ci_hi"))
    interval = f"with a 95 % interval of {between(float(low), float(high))}" if low and high else "without an interval"
    return (
        f"Alone, {row['job']} trains the most samples a second of {len(measured)} measured jobs: {float(row['samples_per_s']):.0f}. "
        f"A step takes {time(float(step))}, {interval}."
    )


def of_plan(folder: pathlib.Path) -> str:
    plan = chosen_plan(folder)
    low, high = plan["step_ns_ci_lo"], plan["step_ns_ci_hi"]
    said = (
        f"For a batch of {plan['global_batch']}, which was not measured, the model chose the plan {plan['plan']} and predicted "
        f"{time(plan['step_ns'])} a step ({between(low, high)})"
    )
    steps = [float(row["step_ns_mean"]) for row in table(folder / "chosen" / "summary.csv") if row["step_ns_mean"]]
    if not steps:
        return f"{said}; it could not be measured."
    is_inside = low <= steps[0] <= high
    return f"{said}; measured then: {time(steps[0])}, {'inside' if is_inside else 'outside'} the interval."


def of_pair(folder: pathlib.Path) -> str:
    said = []
    for row in table(folder / "pair" / "interference.csv"):
        job, low, high = row["job"].split("@")[0], row["slowdown_ci_lo"], row["slowdown_ci_hi"]
        if not row["slowdown"]:
            said.append(f"{job} could not be measured")
        elif low and high and float(low) <= 1 <= float(high):
            said.append(f"for {job} this cannot be told from no slowdown ({float(low):.2f} to {float(high):.2f})")
        else:
            interval = f" ({float(low):.2f} to {float(high):.2f})" if low and high else ""
            said.append(f"a step of {job} takes {float(row['slowdown']):.2f} times as long{interval}")
    return f"Side by side on one device: {'; '.join(said)}."


def of_trace(folder: pathlib.Path) -> str:
    fidelity = json.loads((folder / "fidelity.json").read_text())
    jct, drawn = fidelity["average_jct"], (fidelity["intervals"] or {}).get("drawn")
    interval = f" ({between(drawn['jct_ns_mean']['ci_lo_ns'], drawn['jct_ns_mean']['ci_hi_ns'])})" if drawn else ""
    return (
        f"The run of {fidelity['jobs']} jobs was predicted to take {time(jct['predicted_ns'])} a job on average{interval}, "
        f"and took {time(jct['measured_ns'])}: the prediction was {jct['error_percent']:+.1f} % off."
    )


def verdicts(folder: pathlib.Path) -> Dict[str, str]:
    listed = subprocess.run(["bin/profile", "runs", str(folder), "--json"], check=True, stdout=subprocess.PIPE)
    return {row["run"]: row["verdict"] for row in json.loads(listed.stdout) if row["verdict"]}


def main() -> None:
    what, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if what == "device":
        print(table(folder / "plans" / "summary.csv")[0]["device"])
    elif what == "plan":
        print(chosen_plan(folder)["plan"])
    else:
        for number, sentence in enumerate(sentences(folder, verdicts(folder)), 1):
            print(f"{number}. {sentence}")


if __name__ == "__main__":
    main()
