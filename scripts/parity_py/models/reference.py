"""The training of a reference model."""

from typing import Callable, Iterator, NamedTuple

import torch
from torch import nn

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Gradients = Callable[[torch.Tensor, torch.Tensor], torch.Tensor | None]
"""Makes the gradients of the mean loss of a batch over all ranks; returns the loss, if this rank has it."""

Batch = tuple[torch.Tensor, torch.Tensor]


class Update(NamedTuple):
    """One of the updates of a step."""

    part: nn.Module
    """The module whose parameters it moves."""

    loss: Loss
    """The mean over the samples of a batch, from the batch's inputs and targets."""

    gradient_norm_max: float | None = None
    """The largest norm of all gradients together; larger ones are scaled down to it."""

    is_due: Callable[[], bool] = lambda: True
    """Whether the update is made in this step."""

    after: Callable[[], None] = lambda: None
    """Called after the update."""


class Link(NamedTuple):
    """A part of a model that is not cut, between whose inputs and outputs one tensor passes."""

    parts: list[nn.Module]
    """The modules that hold its parameters."""

    forward: Callable[[torch.Tensor], torch.Tensor]
    """Takes the activation of the link before it and gives its own."""


class Reference(nn.Module):
    """A model whose step is one update of all parameters, unless `updates` says otherwise."""

    def updates(self) -> list[Update]:
        """The updates in the order of a step."""
        return [Update(self, self.loss)]

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def experience(self, seed: int, samples: int) -> Iterator[Batch] | None:
        """Batches of this size that the model makes by acting; None for a model with external samples."""
        return None

    def links(self) -> list[Link]:
        """Embeddings, each layer, head; only of a model that runs under plans that cut it."""
        raise NotImplementedError

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss from the outputs of the last link."""
        raise NotImplementedError
