"""What a reference model is beside its layers: how it is trained."""

from typing import Callable, NamedTuple

import torch
from torch import nn

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Update(NamedTuple):
    """One of the updates of a step."""

    part: nn.Module
    """Whose parameters it moves."""

    loss: Loss
    """The mean over the samples of a batch, from the batch's inputs and targets."""


class Reference(nn.Module):
    """A model whose step is one update of all parameters, unless `updates` says otherwise."""

    def updates(self) -> list[Update]:
        """In the order in which a step makes them."""
        return [Update(self, self.loss)]

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError
