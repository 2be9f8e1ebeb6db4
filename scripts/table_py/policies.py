"""The policies of `sched`, and why some of them are not asked on a trace."""

import json
import subprocess

# What a policy needs of a trace to decide otherwise than a simpler one does. Policies that are not named here need nothing.
NEEDS = {
    "elastic-fifo": "elastic",
    "optimus": "elastic",
    "sia": "elastic",
    "pollux-fixed-batch": "elastic",
    "rubick": "elastic",
    "horus-stand-in": "utilisations",
    "packing-fifo": "intervals",
    "lucid": "together",
    "antman": "classes",
    "synergy": "cores",
}
REASONS = {
    "elastic": "no job of this trace is elastic",
    "together": "the times of its jobs on the same device are not known",
    "utilisations": "the utilisations of its jobs are not known",
    "intervals": "the times of its jobs on the same device are not known with intervals, so that no gain is sure",
    "classes": "no job of this trace is best-effort",
    "cores": "no time of its jobs depends on cores",
}
# Policies that decide by reports of progress.
BY_REPORTS = {"antman", "gandiva", "lucid"}


def of_program(sched: str) -> list:
    """The names of all policies, in the order of the program."""
    said = subprocess.run([sched, "policies", "--json"], check=True, capture_output=True, text=True)
    return [row["name"] for row in json.loads(said.stdout)]


def kind(policy: str) -> str:
    return policy.partition(":")[0]


def refusal(policy: str, has: set) -> str:
    """The reason why a policy is not asked on a trace that has these. Empty if it is."""
    if kind(policy) == "exec":
        return "it is a program of the user's"
    need = NEEDS.get(kind(policy))
    return REASONS[need] if need and need not in has else ""
