"""What a reference model is beside its layers: how it is trained."""

from typing import Callable, Iterator, NamedTuple

import torch
from torch import nn

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Batch = tuple[torch.Tensor, torch.Tensor]


class Update(NamedTuple):
    """One of the updates of a step."""

    part: nn.Module
    """Whose parameters it moves."""

    loss: Loss
    """The mean over the samples of a batch, from the batch's inputs and targets."""

    gradient_norm_max: float | None = None
    """Larger gradients, all of them together, are scaled down to it."""

    is_due: Callable[[], bool] = lambda: True
    """Whether it is made in this step."""

    after: Callable[[], None] = lambda: None
    """What follows when it was made."""


class Reference(nn.Module):
    """A model whose step is one update of all parameters, unless `updates` says otherwise."""

    def updates(self) -> list[Update]:
        """In the order in which a step makes them."""
        return [Update(self, self.loss)]

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def experience(self, seed: int, samples: int) -> Iterator[Batch] | None:
        """Batches of so many samples that the model makes by acting; of one that is fed from outside there are none."""
        return None
