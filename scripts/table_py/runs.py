"""One simulation of the table: a policy on the trace of a seed, kept as a file so that a table can be continued."""

import json
import pathlib
import re
import subprocess
import time

import policies


def file_name(policy: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", policy).strip("-") + ".json"


def first_error(text: str) -> str:
    """The line of the error, or the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1] if lines else "")


def simulate(command: list, limit_s: float) -> dict:
    """The totals of a simulation, or the reason why it has none."""
    begin = time.perf_counter()
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"reason": f"it took longer than {limit_s:g} s", "wall_s": limit_s}
    wall_s = round(time.perf_counter() - begin, 3)
    # 1 means that some jobs did not end well, which is a number of the table.
    if said.returncode not in (0, 1):
        return {"reason": first_error(said.stderr), "wall_s": wall_s}
    [totals] = json.loads(said.stdout)
    if totals["ok"] == 0:
        return {"reason": first_error(said.stderr) or "no job ended well", "wall_s": wall_s}
    return {"totals": totals, "wall_s": wall_s}


def is_too_slow(found: dict, limit_s: float) -> bool:
    """Whether a run has reached the limit. One that was kept under a higher limit has totals and is not too slow."""
    return "totals" not in found and found["wall_s"] >= limit_s


def command(sched: str, trace, policy: str, arguments: list) -> list:
    typed = [sched, "sim", *map(str, arguments), "--policy", policy, "--json"]
    if policies.kind(policy) in policies.BY_REPORTS and "--progress-every" not in typed:
        typed += ["--progress-every", trace.report]
    return typed


def run(sched: str, trace, policy: str, arguments: list, folder: pathlib.Path, limit_s: float) -> dict:
    """The result of a run, which is read if it is there."""
    path = folder / file_name(policy)
    if path.is_file():
        return json.loads(path.read_text())
    found = {"policy": policy, **simulate(command(sched, trace, policy, arguments), limit_s)}
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part-{path.name}")
    part.write_text(json.dumps(found, indent=1) + "\n")
    part.rename(path)
    return found
