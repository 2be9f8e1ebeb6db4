"""A variational autoencoder (Kingma and Welling, ICLR 2014), as in pytorch/examples."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class Model(Reference):
    def __init__(self, image: int, hidden: int, latent: int):
        super().__init__()
        pixels = image * image
        self.fc1 = nn.Linear(pixels, hidden)
        self.fc21, self.fc22 = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, pixels)

    def loss(self, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.fc1(images.flatten(1)), inplace=True)
        mean, log_variance = self.fc21(hidden), self.fc22(hidden)
        deviation = torch.exp(0.5 * log_variance)
        drawn = mean + torch.randn_like(deviation) * deviation
        logits = self.fc4(F.relu(self.fc3(drawn), inplace=True)).float()
        # With the sigmoid in the loss, where the example has it in the model: fewer operations, and stable.
        entropy = F.binary_cross_entropy_with_logits(logits, targets.flatten(1), reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return (entropy + divergence) / len(images)
