"""Data parallelism: each rank has samples of its own, and gradients are the mean over ranks."""

import torch
from models.reference import Update
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


class Loss(nn.Module):
    """The loss of an update as a module, as the wrappers of PyTorch require."""

    def __init__(self, update: Update):
        super().__init__()
        self.part, self.loss = update.part, update.loss

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.loss(inputs, targets)


def shared(update: Update) -> Update:
    """The same update with the mean of all ranks' gradients on each rank."""
    options = {"gradient_as_bucket_view": True, "static_graph": True, "broadcast_buffers": False}
    return update._replace(loss=DistributedDataParallel(Loss(update), **options))


def fully_sharded(update: Update) -> Update:
    """The same update with parameters, gradients and the state of the optimizer divided among ranks (ZeRO-3).

    As in the tutorial "Getting Started with Fully Sharded Data Parallel (FSDP2)": each layer is gathered on its own, and
    so is the rest, which, as FSDP2 has it by default, stays gathered until the backward pass has used it.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for layer in (part for link in update.part.links()[1:-1] for part in link.parts):
        fully_shard(layer, mesh=mesh)
    return update._replace(loss=fully_shard(Loss(update), mesh=mesh))
