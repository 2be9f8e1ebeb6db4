"""MobileNetV3 (Howard et al., ICCV 2019) of torchvision."""

from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

from .image_classifier import ImageClassifier

ACTIVATIONS = {"relu": "RE", "hardswish": "HS"}


class Model(ImageClassifier, MobileNetV3):
    def __init__(
        self, stem: int, blocks: list[dict], head: int, hidden: int, dropout: float, classes: int, image: int
    ):
        rows, channels = [], stem
        for row in blocks:
            sizes = channels, row["kernel"], row["expanded"], row["channels"], row["squeeze"]
            rows.append(InvertedResidualConfig(*sizes, ACTIVATIONS[row["activation"]], row["stride"], 1, 1.0))
            channels = row["channels"]
        super().__init__(rows, hidden, classes, dropout=dropout)
