"""A policy that shares the devices equally among jobs: an elastic job shrinks and grows with the load, and runs under the
plan whose predicted step time is shortest on its share. All devices are of one type. Use it with --policy "exec:python3 reshape.py"."""

import json
import sys

jobs, devices = {}, {}


def best(job, most):
    """The plan with the shortest step on at most this number of devices. None if no plan fits."""
    plans = [plan for plan in job["plans"] if plan["devices"] <= most and plan["step_ns"] is not None]
    if plans:
        return min(plans, key=lambda plan: (plan["step_ns"], plan["devices"]))
    return {"plan": job["plan"], "devices": job["devices"]} if job["devices"] <= most else None


for turn in map(json.loads, sys.stdin):
    jobs.update((job["job"], job) for job in turn["jobs"])
    devices.update((device["device"], device) for device in turn["devices"])
    usable = [number for number, device in devices.items() if not device["lost"]]
    free = [number for number in usable if not devices[number]["kept_by"]]
    here = sorted((job for job in jobs.values() if job["state"] != "ended"), key=lambda job: job["job"])
    share = max(1, len(usable) // max(1, len(here)))
    actions = []
    for job in here:
        # A job that is not elastic has no plans to choose from, and may take more than its share.
        wanted = best(job, share if job["plans"] else len(usable))
        if wanted is None:
            continue
        number = job["job"]
        if job["state"] == "running" and job["plans"] and wanted["devices"] != len(job["on"]):
            actions.append({"stop": {"job": number, "checkpoint": True}})
        elif job["state"] == "waiting" and wanted["devices"] <= len(free):
            taken, free = free[: wanted["devices"]], free[wanted["devices"] :]
            actions.append({"start": {"job": number, "devices": taken, "plan": wanted["plan"]}})
    reason = f"{share} for each of {len(here)} jobs"
    print(json.dumps({"turn": turn["turn"], "actions": actions, "reason": reason}), flush=True)
