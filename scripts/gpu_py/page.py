"""The README.md of a record: the machine, the versions, every table, missing parts, and the commands."""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import packing
from workplace import Outcome, Workplace, read_csv

TABLES = {
    "doctor": "What the machine offers",
    "summary": "Jobs alone on the device",
    "packing": "What pairs of jobs get through at once and in turns",
    "interference": "What the jobs of a pair cost each other",
    "testbed": "A trace under policies, beside its prediction",
    "own": "A program of a user's own",
    "parity": "torch-worker beside Python PyTorch",
    "overhead": "What being watched costs",
    "transfers": "Copies between host and device",
    "readings": "What a reading of the device takes",
    "verify": "Small workloads of every family for a few steps",
}

COLUMNS = {
    "summary": (
        "job",
        "repeats",
        "repeats_failed",
        "step_ns_median",
        "step_ns_median_ci_lo",
        "step_ns_median_ci_hi",
        "samples_per_s",
        "peak_memory_bytes",
        "warnings",
        "status",
        "err",
    ),
    "own": (
        "repeat",
        "device",
        "timing",
        "steps_used",
        "step_ns_by_itself",
        "step_ns_mean",
        "step_ns_median",
        "step_ns_p99",
        "startup_ns",
        "device_memory_bytes",
        "sm_util_percent",
        "warnings",
        "status",
        "err",
    ),
    "interference": (
        "group",
        "sharing",
        "seat",
        "job",
        "blocks",
        "step_ns_alone",
        "step_ns_together",
        "slowdown",
        "slowdown_ci_lo",
        "slowdown_ci_hi",
        "slowdown_p99",
        "group_norm_throughput",
        "valid",
        "warnings",
        "status",
        "err",
        "err_detail",
    ),
}
"""Columns of wide tables on the page. The others are in the file."""

PACKING = """Utilisation is `device_util_percent_mean` of the launches alone in `colocate-measurements.csv`: on a GPU the part
of the time in which any kernel ran, which is Gandiva's measure. `norm_throughput` is the sum of what both members get
through, each over what it does alone: all at once (`time-slice`, Gandiva's packing), in turns that end at a step (`step-gate`, its
time-slicing), and on a GPU all at once as clients of NVIDIA's MPS (`mps`). `gain_percent` is the first over the second, less
one."""


def describe(place: Workplace, outcomes: list[Outcome]) -> str:
    manifest = read_manifest(place.record)
    kind = "A quick check, which shows that everything works and not how fast it is" if place.quick else "A record"
    sections = [
        f"# {place.device_name}\n\n{kind}, of `{place.device}`. How to read it: `reports/record/README.md`.",
        section("Machine and versions", machine(manifest, place.bundle)),
        section("Parts", parts(outcomes)),
    ]
    for name, title in TABLES.items():
        path = place.record / f"{name}.csv"
        if path.exists():
            said = about_packing(read_csv(path)) if name == "packing" else ""
            sections.append(section(f"{title} (`{path.name}`)", said + of_csv(path)))
    if (place.record / "probes.json").exists():
        sections.append(section("Probes (`probes.json`)", probes(place.record / "probes.json")))
    typed = "\n".join([as_typed(), *(f"  {line}" for line in place.commands)])
    sections.append(section("Commands", f"The first made this record by means of those below it.\n\n```sh\n{typed}\n```"))
    return "\n\n".join(sections) + "\n"


def about_packing(pairs: list[dict]) -> str:
    said = [packing.law(pairs).text, packing.with_mps(pairs), PACKING]
    return "".join(f"{paragraph}\n\n" for paragraph in said if paragraph)


def as_typed() -> str:
    """The command line of this check, without the folders above those it names."""
    arguments = (re.sub(r"^((?:--\w+=)?)/.*/", r"\1", argument) for argument in sys.argv[1:])
    return shlex.join(["dist/check", *arguments])


def section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}"


def read_manifest(record: Path) -> dict | None:
    path = record / "manifest.toml"
    return tomllib.loads(path.read_text()) if path.exists() else None


def machine(manifest: dict | None, bundle: Path) -> str:
    facts = json.loads((bundle / "manifest.json").read_text())
    lines = [("bundle", f"version {facts['version']}, revision {facts['revision']}")]
    if manifest is None:
        return table(["", ""], lines) + "\n\nThe run of jobs left no manifest; what the machine is stands under `doctor`."
    lines += [("programs", f"version {manifest['version']}, revision {manifest.get('git_revision', 'unknown')}")]
    lines += [("started", manifest["started_utc"]), ("seed", manifest["seed"])]
    lines += [(name, value) for name, value in manifest["machine"].items() if not isinstance(value, dict)]
    lines += list(manifest["machine"].get("environment", {}).items())
    for device in manifest["devices"]:
        lines += [(device["device"], device["name"])]
        if "memory_bytes" in device:
            lines += [(f"{device['device']} memory_bytes", device["memory_bytes"])]
        for group in ("chip", "topology"):
            lines += [(f"{device['device']} {name}", value) for name, value in device.get(group, {}).items()]
    return table(["", ""], lines)


def parts(outcomes: list[Outcome]) -> str:
    rows = [(outcome.part, outcome.state, f"{outcome.seconds:.1f}", outcome.note) for outcome in outcomes]
    return table(["part", "outcome", "seconds", "note"], rows)


def of_csv(path: Path) -> str:
    """Empty columns are left out."""
    rows = read_csv(path)
    if not rows:
        return "It has no rows."
    wanted = COLUMNS.get(path.stem, list(rows[0]))
    columns = [name for name in wanted if any(row.get(name) for row in rows)]
    return table(columns, [[short(row[name]) for name in columns] for row in rows])


def short(cell: str) -> str:
    """Four digits of a fraction are enough for a page; the file has all."""
    try:
        return cell if cell.isdecimal() else f"{float(cell):.4g}"
    except ValueError:
        return cell


def probes(path: Path) -> str:
    answers = json.loads(path.read_text())
    return table(["probe", "question", "answer"], [(a["probe"], a["question"], a["answer"]) for a in answers])


def table(head: list[str], rows: list) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
