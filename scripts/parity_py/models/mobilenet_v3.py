"""MobileNetV3 (Howard et al., ICCV 2019), as in torchvision."""

from functools import partial

from torch import nn

from .image_layers import ImageClassifier, SqueezeExcitation, conv_norm

conv_norm = partial(conv_norm, eps=1e-3, momentum=0.01)

ACTIVATIONS = {"relu": nn.ReLU, "hardswish": nn.Hardswish}


def squeezed_channels(channels: int) -> int:
    """A quarter, rounded to a multiple of 8, but not to less than nine tenths of it (`_make_divisible`)."""
    quarter = channels // 4
    rounded = max(8, (quarter + 4) // 8 * 8)
    return rounded + 8 if 10 * rounded < 9 * quarter else rounded


class InvertedResidual(nn.Module):
    def __init__(
        self, inputs: int, kernel: int, expanded: int, channels: int, squeeze: bool, activation: str, stride: int
    ):
        super().__init__()
        activate = partial(ACTIVATIONS[activation], inplace=True)
        layers = [conv_norm(inputs, expanded, 1, activation=activate())] if expanded != inputs else []
        layers.append(conv_norm(expanded, expanded, kernel, stride, groups=expanded, activation=activate()))
        if squeeze:
            parts = nn.ReLU(inplace=True), nn.Hardsigmoid()
            layers.append(SqueezeExcitation(expanded, squeezed_channels(expanded), *parts))
        layers.append(conv_norm(expanded, channels, 1))
        self.block = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and inputs == channels

    def forward(self, x):
        return self.block(x).add_(x) if self.has_shortcut else self.block(x)


class Model(ImageClassifier):
    def __init__(
        self, stem: int, blocks: list[dict], head: int, hidden: int, dropout: float, classes: int, image: int
    ):
        super().__init__()
        features, channels = [conv_norm(3, stem, 3, 2, activation=nn.Hardswish(inplace=True))], stem
        for block in blocks:
            features.append(InvertedResidual(channels, **block))
            channels = block["channels"]
        self.features = nn.Sequential(*features, conv_norm(channels, head, 1, activation=nn.Hardswish(inplace=True)))
        self.classifier = nn.Sequential(
            nn.Linear(head, hidden), nn.Hardswish(inplace=True), nn.Dropout(dropout), nn.Linear(hidden, classes)
        )

    def forward(self, images):
        return self.classifier(self.features(images).mean((2, 3)))
