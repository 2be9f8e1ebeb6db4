"""MobileNetV2 (Sandler et al., CVPR 2018), as in torchvision."""

from torch import nn

from .image_layers import ImageClassifier, conv_norm


def relu6() -> nn.Module:
    return nn.ReLU6(inplace=True)


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int):
        super().__init__()
        inner = inputs * expansion
        layers = [conv_norm(inputs, inner, 1, activation=relu6())] if expansion != 1 else []
        layers.append(conv_norm(inner, inner, kernel, stride, groups=inner, activation=relu6()))
        self.conv = nn.Sequential(*layers, *conv_norm(inner, outputs, 1))
        self.has_shortcut = stride == 1 and inputs == outputs

    def forward(self, x):
        return self.conv(x).add_(x) if self.has_shortcut else self.conv(x)


class Model(ImageClassifier):
    def __init__(
        self, stem: int, stem_stride: int, blocks: list[dict], head: int, dropout: float, classes: int, image: int
    ):
        super().__init__()
        features, channels = [conv_norm(3, stem, 3, stem_stride, activation=relu6())], stem
        for row in blocks:
            for index in range(row["count"]):
                stride = row["stride"] if index == 0 else 1
                residual = InvertedResidual(channels, row["channels"], row["expansion"], row["kernel"], stride)
                features.append(residual)
                channels = row["channels"]
        self.features = nn.Sequential(*features, conv_norm(channels, head, 1, activation=relu6()))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(head, classes))

    def forward(self, images):
        return self.classifier(self.features(images).mean((2, 3)))
