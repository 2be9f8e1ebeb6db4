"""Super-resolution by sub-pixel convolution (Shi et al., CVPR 2016), as in pytorch/examples."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class Model(Reference):
    def __init__(self, image: int, upscale: int, widths: list[int]):
        super().__init__()
        first, second, third = widths
        self.conv1 = nn.Conv2d(1, first, 5, padding=2)
        self.conv2 = nn.Conv2d(first, second, 3, padding=1)
        self.conv3 = nn.Conv2d(second, third, 3, padding=1)
        self.conv4 = nn.Conv2d(third, upscale**2, 3, padding=1)
        self.upscale = upscale

    def loss(self, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(images), inplace=True)
        x = F.relu(self.conv2(x), inplace=True)
        x = F.relu(self.conv3(x), inplace=True)
        enlarged = F.pixel_shuffle(self.conv4(x), self.upscale)
        return F.mse_loss(enlarged.float(), targets)
