"""The optimizer of a workload, whole or divided among ranks."""

import torch
from torch import nn

FUSED_COPIES_MAX = 1_000_000
"""Weights in channels-last format up to which the fused optimizer is the faster one on a CPU, or as fast."""


def build_optimizer(groups: list[list[nn.Parameter]], settings: dict) -> torch.optim.Optimizer:
    """`{"sgd": {"learning_rate": 0.1, ...}}` to the optimizer of that name. It updates each group in calls of its own."""
    kind, constants = constants_of(sum(groups, []), settings)
    return kind([{"params": group} for group in groups], **constants)


def build_divided_optimizer(parameters: list[nn.Parameter], settings: dict) -> torch.optim.Optimizer:
    """The same with the state of each parameter on one rank, which sends the updated parameter to the others (ZeRO-1).

    Parameters are views of buckets, one for each rank, and each bucket is sent as a whole: the documentation of
    ZeroRedundancyOptimizer names the setting as the faster one. `overlap_with_ddp` would leave out the first updates.
    """
    from torch.distributed.optim import ZeroRedundancyOptimizer

    kind, constants = constants_of(parameters, settings)
    return ZeroRedundancyOptimizer(parameters, kind, parameters_as_bucket_view=True, **constants)


def constants_of(parameters: list[nn.Parameter], settings: dict) -> tuple[type[torch.optim.Optimizer], dict]:
    """The class of the optimizer and its arguments."""
    ((name, constants),) = settings.items()
    copied = sum(weight.numel() for weight in parameters if weight.is_cpu and not weight.is_contiguous())
    fused = copied <= FUSED_COPIES_MAX
    common = {"lr": constants["learning_rate"], "weight_decay": constants["weight_decay"], "fused": fused}
    if name == "sgd":
        return torch.optim.SGD, {"momentum": constants["momentum"], **common}
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    betas = (constants["beta1"], constants["beta2"])
    return kinds[name], {"betas": betas, "eps": constants["epsilon"], **common}
