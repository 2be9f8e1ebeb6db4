"""EfficientNet (Tan and Le, ICML 2019), as in torchvision."""

import torch
from torch import nn

from .image_layers import ImageClassifier, SqueezeExcitation, conv_norm


def silu() -> nn.Module:
    return nn.SiLU(inplace=True)


class InvertedResidual(nn.Module):
    """`stochastic_depth` is the share of samples that take only the shortcut (Huang et al., ECCV 2016)."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int, stochastic_depth: float):
        super().__init__()
        inner = inputs * expansion
        layers = [conv_norm(inputs, inner, 1, activation=silu())] if expansion != 1 else []
        layers.append(conv_norm(inner, inner, kernel, stride, groups=inner, activation=silu()))
        layers.append(SqueezeExcitation(inner, max(1, inputs // 4), silu(), nn.Sigmoid()))
        layers.append(conv_norm(inner, outputs, 1))
        self.block = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and inputs == outputs
        self.stochastic_depth = stochastic_depth

    def forward(self, x):
        output = self.block(x)
        if not self.has_shortcut:
            return output
        if self.stochastic_depth > 0.0:
            kept_share = 1.0 - self.stochastic_depth
            kept = torch.empty(x.shape[0], 1, 1, 1, dtype=x.dtype, device=x.device).bernoulli_(kept_share)
            output = output * kept.div_(kept_share)
        return output.add_(x)


class Model(ImageClassifier):
    def __init__(
        self,
        stem: int,
        stem_stride: int,
        blocks: list[dict],
        head: int,
        dropout: float,
        stochastic_depth: float,
        classes: int,
        image: int,
    ):
        super().__init__()
        features, channels = [conv_norm(3, stem, 3, stem_stride, activation=silu())], stem
        residuals, made = sum(row["count"] for row in blocks), 0
        for row in blocks:
            stage = []
            for index in range(row["count"]):
                stride = row["stride"] if index == 0 else 1
                share = stochastic_depth * made / residuals
                shape = row["channels"], row["expansion"], row["kernel"], stride
                stage.append(InvertedResidual(channels, *shape, share))
                channels, made = row["channels"], made + 1
            features.append(nn.Sequential(*stage))
        self.features = nn.Sequential(*features, conv_norm(channels, head, 1, activation=silu()))
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(head, classes))

    def forward(self, images):
        return self.classifier(self.features(images).mean((2, 3)))
