"""Pipeline parallelism with PyTorch's `torch.distributed.pipelining`: each rank is a stage, a range of links of the model."""

import torch
from models.reference import Gradients, Link, Update
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class Stage(nn.Module):
    def __init__(self, links: list[Link]):
        super().__init__()
        self.parts = nn.ModuleList(part for link in links for part in link.parts)
        self.forwards = [link.forward for link in links]

    def forward(self, x):
        for forward in self.forwards:
            x = forward(x)
        return x


def pipelined(update: Update, micro_batches: int, cut: int, rank: int) -> tuple[Update, Gradients]:
    """The update of one of two stages, the first of which has `cut` links, and its gradients in the order 1F1B.

    A weight that both stages use, as the tied embedding of GPT-2, is held by both, and its gradients are added up after
    the backward pass. PyTorch leaves that to the user.
    """
    model, links = update.part, update.part.links()
    stages = [Stage(links[:cut]), Stage(links[cut:])]
    first, last = (list(stage.parameters()) for stage in stages)
    tied = [weight for weight in first if any(weight is other for other in last)]
    stage = PipelineStage(stages[rank], rank, len(stages), torch.device("cpu"))
    schedule = Schedule1F1B(stage, micro_batches, loss_fn=model.criterion)

    def gradients(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
        losses = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=losses, return_outputs=False)
        for weight in tied:
            distributed.all_reduce(weight.grad)
        return torch.stack(losses).detach().mean() if losses else None

    return update._replace(part=stages[rank]), gradients
