"""Table of results: table.csv, in long form, and table.md."""

import statistics

COLUMNS = ["trace", "policy", "seed", "metric", "value"]
# The names and the units of what table.md shows, by metric of table.csv: the divisor, and the digits.
SHOWN = {
    "jct_ns_mean": ("average JCT, s", 1e9, 1),
    "jct_ns_median": ("median JCT, s", 1e9, 1),
    "jct_ns_p99": ("p99 JCT, s", 1e9, 0),
    "makespan_ns": ("makespan, s", 1e9, 0),
    "util_percent": ("utilisation, %", 1, 1),
    "preemptions": ("preemptions", 1, 0),
    "migrations": ("migrations", 1, 0),
    "fairness_rho_mean": ("mean rho", 1, 2),
    "fairness_rho_p99": ("p99 rho", 1, 1),
    "fairness_unfair_percent": ("unfair, %", 1, 1),
    "first_100_ns_mean": ("first 100 steps, s", 1e9, 1),
    "decision_times_mean_us": ("a decision, us", 1, 0),
    "decision_times_p99_us": ("p99, us", 1, 0),
    "decision_times_max_us": ("most, us", 1, 0),
    "not_ended": ("not ended", 1, 0),
    "wall_s": ("wall time, s", 1, 1),
}


def numbers(totals: dict, prefix: str = "") -> dict:
    """All numbers of totals, those of objects inside with the name of the object before theirs."""
    found = {}
    for key, value in totals.items():
        if isinstance(value, dict):
            found.update(numbers(value, f"{prefix}{key}_"))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[prefix + key] = value
    return found


def lines(trace: str, policy: str, seed: str, found: dict) -> list:
    """The lines of table.csv for a run. A run without totals has its reason."""
    if "totals" not in found:
        return [[trace, policy, seed, "not-run", found["reason"]]]
    totals = found["totals"]
    all_numbers = {**numbers(totals), "not_ended": totals["failed"] + totals["unsupported"], "wall_s": found["wall_s"]}
    return [[trace, policy, seed, metric, value] for metric, value in all_numbers.items()]


def shown(values: list, digits: int) -> str:
    """The mean over seeds, with the least and the most if they differ."""
    text = lambda value: f"{value:,.{digits}f}"
    if not values:
        return "-"
    if text(min(values)) == text(max(values)):
        return text(statistics.mean(values))
    return f"{text(statistics.mean(values))} ({text(min(values))} to {text(max(values))})"


def of_trace(name: str, title: str, all_lines: list) -> list:
    """The part of table.md about one trace. Policies are in order of their average JCT, and those that were not run are listed."""
    of = [line for line in all_lines if line[0] == name]
    values, reasons = {}, {}
    for _, policy, seed, metric, value in of:
        if metric == "not-run":
            reasons.setdefault(policy, {}).setdefault(str(value), []).append(seed)
        else:
            values.setdefault(policy, {}).setdefault(metric, []).append(float(value))
    known = {metric for metrics in values.values() for metric in metrics}
    columns = [metric for metric in SHOWN if metric in known]
    text = [f"## {name}", "", title, ""]
    text += ["| policy | seeds | " + " | ".join(SHOWN[metric][0] for metric in columns) + " |", "|" + " --- |" * (len(columns) + 2)]
    for policy in sorted(values, key=lambda policy: (statistics.mean(values[policy].get("jct_ns_mean", [float("inf")])), policy)):
        cells = [f"`{policy}`", str(len(values[policy].get("jobs", [])))]
        for metric in columns:
            _, divisor, digits = SHOWN[metric]
            cells.append(shown([value / divisor for value in values[policy].get(metric, [])], digits))
        text.append("| " + " | ".join(cells) + " |")
    if reasons:
        text += ["", "Without a result:", ""]
    for policy, of_policy in reasons.items():
        for reason, seeds in of_policy.items():
            which = f" (seeds {', '.join(seeds)})" if any(seeds) and policy in values else ""
            text.append(f"- `{policy}`: {reason}{which}")
    return text + [""]
