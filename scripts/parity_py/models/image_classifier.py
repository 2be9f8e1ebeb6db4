"""What the networks that classify images share."""

import torch
from torch.nn import functional as F

from .reference import Reference


class ImageClassifier(Reference):
    """Images to logits of classes; a subclass has `forward`."""

    def loss(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(images), classes)
