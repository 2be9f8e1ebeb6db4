"""The inputs of simulations beside a trace: a catalog of its workloads, tables of their times alone, rows of their groups, and clusters."""

import csv
import json
import pathlib

import facts
import table1
from traces import spelled

SUMMARY = """run job workload plan device threads sharing global_batch repeats repeats_failed step_ns_median step_ns_mean peak_memory_bytes
device_util_percent_mean warnings status""".split()
TOGETHER = """run repeat job workload plan global_batch device device_name sharing group seat step_ns_mean peak_memory_bytes
device_util_percent_mean status""".split()


def devices(count: int) -> str:
    return ",".join(f"cuda:{number}" for number in range(count))


def catalog(models: dict) -> str:
    """Workloads without a network, by the seconds of their steps. They can be simulated on several devices."""
    lines = ["# Workloads of simulations beside the paper of Gandiva. Their times are those of the tables beside this file."]
    for name, step_s in models.items():
        lines += [
            "",
            "[[workload]]",
            f'name = "{name}"',
            'about = "stands for a published training, and has its time of a step"',
            'source = "Xiao et al., OSDI 2018"',
            f"global_batch = {facts.BATCH}",
            'axes = ["dp"]',
            f"verify = {{ global_batch = {facts.BATCH}, steps = 5 }}",
            "optimizer.sgd = { learning_rate = 0.1, momentum = 0.0, weight_decay = 0.0 }",
            f"model.synthetic = {{ step_us = {round(step_s * 1e6)}, busy_percent = 0, memory_bytes = {facts.MEMORY_BYTES} }}",
        ]
    return "\n".join(lines) + "\n"


def manifest(device_type: str) -> str:
    """A manifest for a table that no run has measured. It names the devices of the rows."""
    lines = [
        "format = 1",
        'started_utc = "2018-10-08T00:00:00Z"',
        'command = ["scripts/gandiva-traces"]',
        'version = "made"',
        "seed = 1",
        "cells = []",
        "",
        "[settings]",
        "repeats = 1",
        "catalogs = []",
        "",
        "[machine]",
        "",
        "[machine.environment]",
    ]
    for number in range(facts.DEVICES_PER_NODE):
        lines += ["", "[[devices]]", f'device = "cuda:{number}"', f'name = "{device_type}"']
    return "\n".join(lines) + "\n"


def write_table(folder: pathlib.Path, device_type: str, jobs: list) -> None:
    """A table of jobs alone: models, each with a number of GPUs. The time of a step does not depend on it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.toml").write_text(manifest(device_type))
    with (folder / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, SUMMARY, lineterminator="\n")
        writer.writeheader()
        for model, count in jobs:
            step_ns = round(model.step_s * 1e9)
            writer.writerow(
                {
                    "run": folder.name,
                    "job": spelled(model.name, count),
                    "workload": model.name,
                    "plan": f"dp{count}",
                    "device": devices(count),
                    "threads": 1,
                    "sharing": "alone",
                    "global_batch": facts.BATCH * count,
                    "repeats": 1,
                    "repeats_failed": 0,
                    "step_ns_median": step_ns,
                    "step_ns_mean": step_ns,
                    "peak_memory_bytes": facts.MEMORY_BYTES,
                    "device_util_percent_mean": model.utilisation_percent,
                    "status": "ok",
                }
            )


def together_rows(device_type: str, jobs: list, largest: int) -> list:
    """Rows of jobs alone and in groups, as `sched fit --interference` reads them."""

    def row(model, count: int, slowdown: float = 1.0, **more) -> dict:
        return {
            "run": "table-1",
            "repeat": 0,
            "job": spelled(model.name, count),
            "workload": model.name,
            "plan": f"dp{count}",
            "global_batch": facts.BATCH * count,
            "device": devices(count),
            "device_name": device_type,
            "step_ns_mean": round(model.step_s * slowdown * 1e9),
            "peak_memory_bytes": facts.MEMORY_BYTES,
            "device_util_percent_mean": model.utilisation_percent,
            "status": "ok",
            **more,
        }

    rows = [row(model, count, sharing="alone") for model, count in jobs]
    # A fit learns from groups whose members share all of their GPUs.
    alike = [[job for job in jobs if job[1] == count] for count in sorted({count for _, count in jobs})]
    for group in (group for jobs_alike in alike for group in table1.groups(jobs_alike, largest)):
        name = "+".join(spelled(model.name, count) for model, count in group)
        factors = table1.slowdowns([model for model, _ in group])
        for seat, ((model, count), factor) in enumerate(zip(group, factors)):
            rows.append(row(model, count, factor, sharing="time-slice", group=name, seat=seat))
    return rows


def write_together(path: pathlib.Path, rows: list) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, TOGETHER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def cluster(nodes: list) -> str:
    """The file of a cluster: nodes of four GPUs, by their type and number."""
    lines = []
    for device_type, count in nodes:
        lines += [
            "[[nodes]]",
            f"count = {count}",
            f"devices = {facts.DEVICES_PER_NODE}",
            f'device_type = "{device_type}"',
            f'device_memory = "{facts.DEVICE_MEMORY[device_type]}"',
            "",
        ]
    return "\n".join(lines)


def write_planted(path: pathlib.Path, planted: dict) -> None:
    """What results.py needs of a set-up."""
    path.write_text(json.dumps(planted, indent=1) + "\n")
