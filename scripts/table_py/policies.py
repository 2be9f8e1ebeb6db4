"""The policies of `sched`, and why some of them are not asked on a trace."""

import re
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


def listed(help_text: str) -> list:
    """The names of policies in the help of `sched sim`, without their settings, in its order."""
    found = re.search(r"--policy <POLICY,\.\.>\s+.*?own:\s+(.*?)\n\s*\n", help_text, re.DOTALL)
    if not found:
        raise SystemExit("policy-table: the help of `sched sim` names no policies")
    # Lines are broken after commas and spaces, and inside of a long list of settings.
    spelled = re.sub(r"\s+", "", found.group(1))
    depth, names, name = 0, [], ""
    for sign in spelled + ",":
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            names.append(re.match(r"[a-z0-9-]+", name).group())
            name = ""
        else:
            name += sign
    return names


def of_program(sched: str) -> list:
    said = subprocess.run([sched, "sim", "--help"], check=True, capture_output=True, text=True)
    return listed(said.stdout)


def kind(policy: str) -> str:
    return policy.partition(":")[0]


def refusal(policy: str, has: set) -> str:
    """The reason why a policy is not asked on a trace that has these. Empty if it is."""
    if kind(policy) == "exec":
        return "it is a program of the user's"
    need = NEEDS.get(kind(policy))
    return REASONS[need] if need and need not in has else ""
