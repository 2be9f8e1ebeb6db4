"""The layers of networks for images, as in torchvision."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: nn.Module | None = None,
    **norm_constants: float,
) -> nn.Sequential:
    """A convolution that keeps the size at stride 1, the batch norm behind it, and what follows."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    layers = [convolution, nn.BatchNorm2d(outputs, **norm_constants)]
    return nn.Sequential(*layers, *([activation] if activation else []))


class SqueezeExcitation(nn.Module):
    """Squeeze-and-excitation: weighs each channel by a function of all channel means (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int, squeezed: int, activation: nn.Module, gate: nn.Module):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)
        self.activation, self.gate = activation, gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = x.mean((2, 3), keepdim=True)
        return self.gate(self.fc2(self.activation(self.fc1(means)))) * x


class ImageClassifier(Reference):
    """Images to logits of classes; a subclass has `forward`."""

    def loss(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(images), classes)
