"""DCGAN (Radford et al., ICLR 2016), as in pytorch/examples: a step is one update of each network."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference, Update


def generator(latent: int, width: int, channels: int, halvings: int) -> nn.Sequential:
    layers, inputs = [], latent
    for index in range(halvings):
        outputs = width << (halvings - 1 - index)
        stride, padding = (1, 0) if index == 0 else (2, 1)
        layers.append(nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False))
        layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        inputs = outputs
    return nn.Sequential(*layers, nn.ConvTranspose2d(inputs, channels, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(width: int, channels: int, halvings: int) -> nn.Sequential:
    layers, inputs = [], channels
    for index in range(halvings):
        outputs = width << index
        layers.append(nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False))
        layers += [nn.BatchNorm2d(outputs)] if index > 0 else []
        layers.append(nn.LeakyReLU(0.2, inplace=True))
        inputs = outputs
    return nn.Sequential(*layers, nn.Conv2d(inputs, 1, 4, bias=False))


class Model(Reference):
    def __init__(self, latent: int, generator_width: int, discriminator_width: int, channels: int, image: int):
        super().__init__()
        halvings = image.bit_length() - 3
        main = generator(latent, generator_width, channels, halvings)
        self.generator = nn.Sequential(OrderedDict(main=main))
        main = discriminator(discriminator_width, channels, halvings)
        self.discriminator = nn.Sequential(OrderedDict(main=main))
        self.fakes: torch.Tensor | None = None

    def updates(self) -> list[Update]:
        return [
            Update(self.discriminator, self.discriminator_loss),
            Update(self.generator, self.generator_loss),
        ]

    def discriminator_loss(self, noise: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        self.fakes = self.generator(noise)
        return self.judge(images, 1.0) + self.judge(self.fakes.detach(), 0.0)

    def generator_loss(self, noise: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        """Of the images that the discriminator has just learned from, as in the example."""
        fakes, self.fakes = self.fakes, None
        return self.judge(fakes, 1.0)

    def judge(self, images: torch.Tensor, truth: float) -> torch.Tensor:
        logits = self.discriminator(images).float()
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, truth))
