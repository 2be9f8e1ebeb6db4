"""VGG (Simonyan and Zisserman, ICLR 2015), as in torchvision.

Not torchvision's own: its constructor takes neither the side of the pooling nor the widths of the linear layers.
"""

from torch import nn

from .image_classifier import ImageClassifier


class Model(ImageClassifier):
    def __init__(
        self,
        stages: list[list[int]],
        batch_norm: bool,
        pool: int,
        hidden: list[int],
        dropout: float,
        classes: int,
        image: int,
    ):
        super().__init__()
        features, channels = [], 3
        for stage in stages:
            for outputs in stage:
                features.append(nn.Conv2d(channels, outputs, 3, padding=1))
                features += [nn.BatchNorm2d(outputs)] if batch_norm else []
                features.append(nn.ReLU(inplace=True))
                channels = outputs
            features.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*features)
        self.average = nn.AdaptiveAvgPool2d(pool)
        classifier, width = [], channels * pool**2
        for outputs in hidden:
            classifier += [nn.Linear(width, outputs), nn.ReLU(inplace=True), nn.Dropout(dropout)]
            width = outputs
        self.classifier = nn.Sequential(*classifier, nn.Linear(width, classes))

    def forward(self, images):
        return self.classifier(self.average(self.features(images)).flatten(1))
