"""Simulates all policies over all traces of the table, one after the other. scripts/policy-table has its options."""

import argparse
import csv
import hashlib
import json
import pathlib
import subprocess
import sys
import time

import policies
import runs
import table
import traces


def say(*text) -> None:
    print(*text, file=sys.stderr, flush=True)


def seeds(text: str) -> list:
    if not all(seed.isdecimal() for seed in text.split(",")):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of seeds; write numbers, separated by commas")
    return text.split(",")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="policy-table", add_help=False)
    parser.add_argument("reference", type=pathlib.Path)
    parser.add_argument("--sched", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--traces", default=",".join(trace.name for trace in traces.TRACES))
    parser.add_argument("--policies", default="")
    parser.add_argument("--seeds", type=seeds, default="1,2,3,4,5")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--philly-jobs", type=int, default=2_000)
    parser.add_argument("--venus-jobs", type=int, default=6_000)
    parser.add_argument("--report", default="")
    return parser.parse_args()


def check_same(options: argparse.Namespace) -> None:
    """Ends if the folder has results of another program or other samples."""
    program = hashlib.sha256(pathlib.Path(options.sched).read_bytes()).hexdigest()
    now = {"program": program, "philly_jobs": options.philly_jobs, "venus_jobs": options.venus_jobs}
    path = options.out / "settings.json"
    if path.is_file() and (before := json.loads(path.read_text())) != now:
        changed = ", ".join(key for key in now if before.get(key) != now[key])
        sys.exit(f"policy-table: {options.out} has results with another {changed}; name another folder with --out")
    options.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(now, indent=1) + "\n")


def asked(options: argparse.Namespace, trace, known: list) -> list:
    """The policies on a trace, with the settings that they have there."""
    named = [name for name in options.policies.split(",") if name] or [name for name in known if name != "exec"]
    # A policy that was named with settings keeps them.
    return list(dict.fromkeys(trace.settings.get(policy, policy) for policy in named))


def draw(options: argparse.Namespace, trace, tried: list, arguments) -> None:
    """Draws the runs of the first seed. Their folders are made for that alone, because the journals of large traces are large."""
    folder = options.out / "pictures" / trace.name
    made = []
    for policy in tried:
        run = folder / pathlib.Path(runs.file_name(policy)).stem
        if not (run / "end.toml").is_file():
            command = runs.command(options.sched, trace, policy, arguments(policy))
            if subprocess.run([*command, "--out", str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode > 1:
                continue
        made.append(run)
    traces.run(options.report, *made, "--out", folder / "report")
    say(folder / "report" / "index.html")


def main() -> None:
    options = parsed()
    wanted = options.traces.split(",")
    by_name = {trace.name: trace for trace in traces.TRACES}
    if unknown := [name for name in wanted if name not in by_name]:
        sys.exit(f"policy-table: there is no trace '{unknown[0]}'; there are {', '.join(by_name)}")
    check_same(options)
    known = policies.of_program(options.sched)
    of = traces.Settings(options.sched, options.out, options.reference, options.philly_jobs, options.venus_jobs)
    begin, all_lines, text = time.perf_counter(), [], ["# Policies over traces", ""]
    for trace in (by_name[name] for name in wanted):
        say(f"== {trace.name}")
        if not (needed := trace.needs(of)).exists():
            say(f"   left out: {needed} is absent")
            text += [f"## {trace.name}", "", f"Left out: `{needed.name}` is absent.", ""]
            continue
        tried = asked(options, trace, known)
        refused = {policy: why for policy in tried if (why := policies.refusal(policy, trace.has))}
        for policy, why in refused.items():
            all_lines += table.lines(trace.name, policy, "", {"reason": why})
        slow, arguments_of_first = {}, None
        for seed in options.seeds:
            folder = options.out / trace.name / seed
            folder.mkdir(parents=True, exist_ok=True)
            arguments = trace.make(of, folder, int(seed))
            arguments_of_first = arguments_of_first or arguments
            for policy in tried:
                if policy in refused:
                    continue
                if policy in slow:
                    all_lines += table.lines(trace.name, policy, seed, {"reason": f"not tried, because {slow[policy]} with another seed"})
                    continue
                found = runs.run(options.sched, trace, policy, arguments(policy), folder, options.limit)
                jct_ns = found.get("totals", {}).get("jct_ns_mean")
                result = f"average JCT {jct_ns / 1e9:,.1f} s" if jct_ns else found.get("reason", "no job ended well")
                say(f"   seed {seed} {policy}: {result}, in {found['wall_s']:.1f} s ({time.perf_counter() - begin:.0f} s so far)")
                all_lines += table.lines(trace.name, policy, seed, found)
                if runs.is_too_slow(found, options.limit):
                    slow[policy] = found["reason"]
        text += table.of_trace(trace.name, f"By chance: {trace.chance}.", all_lines)
        # After each trace, so that a table that is not complete can be read.
        (options.out / "table.md").write_text("\n".join(text))
        with (options.out / "table.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(table.COLUMNS)
            writer.writerows(all_lines)
        if options.report and trace.has_pictures:
            draw(options, trace, [policy for policy in tried if policy not in refused], arguments_of_first)
    say(options.out / "table.csv")
    say(options.out / "table.md")


if __name__ == "__main__":
    main()
