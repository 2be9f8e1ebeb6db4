"""A policy that ends members of searches by their losses: successive halving (Jamieson and Talwalkar, AISTATS 2016).

    sched run trace.csv --policy "exec:python3 halving.py 100 2" --progress-every 10s ...

Rungs are at 100 steps, twice as many, and so on. When all members of a search that are left have reached a rung, the half of them with the
lowest loss goes on, and the others are ended. A member that waits at a rung makes room for others. Jobs start in order of arrival, on any
devices."""

import json
import sys

FIRST_RUNG, ETA = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2
jobs, devices, searches, out = {}, {}, {}, set()


def is_over(job):
    return job["state"] in ("ending", "ended")


def has_failed(job):
    return is_over(job) and job["steps_done"] < job["steps"]


def decide(name, search):
    """Decides the rungs that all contenders have reached. The reasons for which members are out."""
    while len(search["contenders"]) > 1:
        contenders = [jobs[number] for number in search["contenders"]]
        if not all(is_over(job) or job["steps_done"] >= search["rung"] for job in contenders):
            return
        if all(map(is_over, contenders)):
            return
        contenders.sort(key=lambda job: (has_failed(job), job["loss"] is None, job["loss"] or 0, job["job"]))
        kept = max(1, len(contenders) // ETA)
        for job in contenders[kept:]:
            if not is_over(job):
                out.add(job["job"])
                loss = "no reported loss" if job["loss"] is None else f"a loss of {job['loss']}"
                yield f"{job['name']} of search {name} is out at {search['rung']} steps with {loss}"
        search["contenders"] = [job["job"] for job in contenders[:kept] if not has_failed(job)]
        search["rung"] *= ETA


for turn in map(json.loads, sys.stdin):
    devices.update((device["device"], device) for device in turn["devices"])
    for job in turn["jobs"]:
        if job["search"] is not None and job["job"] not in jobs:
            search = searches.setdefault(job["search"], {"contenders": [], "rung": FIRST_RUNG})
            search["contenders"].append(job["job"])
        jobs[job["job"]] = job
    reasons = [reason for name, search in searches.items() for reason in decide(name, search)]
    actions = [{"end": {"job": number}} for number in sorted(out) if not is_over(jobs[number])]
    free = [number for number, device in devices.items() if not device["kept_by"] and not device["lost"]]
    for number, job in sorted(jobs.items()):
        search = searches.get(job["search"], {"contenders": []})
        waits = number in search["contenders"] and len(search["contenders"]) > 1 and job["steps_done"] >= search["rung"]
        if number in out:
            continue
        if waits and job["state"] == "running":
            actions.append({"stop": {"job": number, "checkpoint": True}})
        elif not waits and job["state"] == "waiting" and job["devices"] <= len(free):
            taken, free = free[: job["devices"]], free[job["devices"] :]
            actions.append({"start": {"job": number, "devices": taken, "cpus": job["cpus"], "plan": job["plan"]}})
    print(json.dumps({"turn": turn["turn"], "actions": actions, "reason": "; ".join(reasons)}), flush=True)
