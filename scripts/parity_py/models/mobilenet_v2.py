"""MobileNetV2 (Sandler et al., CVPR 2018) of torchvision."""

from torch import nn
from torchvision.models.mobilenetv2 import MobileNetV2
from torchvision.ops import Conv2dNormActivation

from .image_classifier import ImageClassifier


class Model(ImageClassifier, MobileNetV2):
    def __init__(
        self, stem: int, stem_stride: int, blocks: list[dict], head: int, dropout: float, classes: int, image: int
    ):
        # The constructor takes the width of the stem as a multiple of 32, by which it also multiplies those of the rows.
        share = stem / 32
        rows = [[row["expansion"], row["channels"] / share, row["count"], row["stride"]] for row in blocks]
        super().__init__(classes, share, rows, dropout=dropout)
        self.features[0][0].stride = (stem_stride, stem_stride)
        # It has no argument for a head below 1280.
        self.features[-1] = Conv2dNormActivation(
            blocks[-1]["channels"], head, 1, norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU6
        )
        self.classifier[1] = nn.Linear(head, classes)
