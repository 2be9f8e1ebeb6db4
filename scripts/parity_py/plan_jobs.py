"""The jobs of `scripts/parity --plans`."""

import re

PLANS = ("dp2-zero3", "dp2-zero1", "pp2-ga4", "tp2")
WORKLOADS = ("gpt2-mini", "llama-mini")

FAMILIES = ("gpt2", "llama")
"""Those whose reference models are divided under these plans (models/reference.py, tensor_parallel.py)."""


def names_a_plan(job: str) -> bool:
    """Whether the job has more parts than `WORKLOAD[@bN][@on=DEVICE]`."""
    return any(not re.fullmatch(r"b\d+|on=.*", part) for part in job.split("@")[1:])


def under_all_plans(job: str) -> list[str]:
    """The job itself, if it names a plan; or the job under each of `PLANS`."""
    if names_a_plan(job):
        return [job]
    name, on, device = job.partition("@on=")
    return [f"{name}@{plan}{on}{device}" for plan in PLANS]


def first_stage_links(shape: dict, cut: int | None) -> int:
    """The links of the first of two stages of a model with these sizes: `cut`, or by default half of the layers with the
    embeddings."""
    links = links_of(shape)
    if cut is not None and not 1 <= cut < links:
        raise ValueError(f"--cut {cut}: the model has {links} links, so use 1 to {links - 1}")
    return 1 + (shape["layers"] + 1) // 2 if cut is None else cut


def links_of(shape: dict) -> int:
    """Embeddings, each layer, head."""
    return shape["layers"] + 2
