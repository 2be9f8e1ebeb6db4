"""A policy that asks the model of the run which jobs may share a device. Jobs start in order of arrival on free devices. If too few are
free, a job of one device starts beside the job with which the speeds of both, each over that alone, add up to the most above 1. Use it
with --policy "exec:python3 pairs.py"."""

import json
import sys

jobs, kept_by, lost, most = {}, {}, {}, 1


def together(turn, job, host, device):
    """The speeds of two jobs on a device, each over that alone, added up. 0 if the model does not know them."""
    pairs = [(job, []), (job, [host]), (host, []), (host, [job])]
    ask = [{"job": one, "devices": [device], "beside": others} for one, others in pairs]
    print(json.dumps({"turn": turn, "ask": ask}), flush=True)
    times = [answer["step_ns"] for answer in json.loads(sys.stdin.readline())["answers"]]
    return 0 if None in times else times[0] / times[1] + times[2] / times[3]


def choose(turn, job):
    """The devices for a job, and a few words for the user."""
    free = [device for device, holders in kept_by.items() if not holders and not lost[device]]
    if job["devices"] <= len(free):
        return free[: job["devices"]], "free devices"
    hosts = [(holders[0], device) for device, holders in kept_by.items() if len(holders) == 1 < most]
    hosts = [(host, device) for host, device in hosts if job["devices"] == jobs[host]["devices"] == 1]
    if not hosts:
        return [], "too few devices are free"
    speeds, host, device = max((together(turn, job["job"], host, device), host, device) for host, device in hosts)
    return [device] if speeds > 1 else [], f"{speeds:.3f} of a device beside {jobs[host]['name']}"


for turn in map(json.loads, sys.stdin):
    most = turn.get("begin", {}).get("jobs_per_device", most)
    jobs.update((job["job"], job) for job in turn["jobs"])
    kept_by.update((device["device"], device["kept_by"]) for device in turn["devices"])
    lost.update((device["device"], device["lost"]) for device in turn["devices"])
    actions, explain = [], {}
    for number, job in sorted((number, job) for number, job in jobs.items() if job["state"] == "waiting"):
        devices, explain[number] = choose(turn["turn"], job)
        if devices:
            actions.append({"start": {"job": number, "devices": devices, "cpus": job["cpus"], "plan": job["plan"]}})
            kept_by.update((device, kept_by[device] + [number]) for device in devices)
    print(json.dumps({"turn": turn["turn"], "actions": actions, "explain": explain}), flush=True)
