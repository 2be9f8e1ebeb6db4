"""EfficientNet (Tan and Le, ICML 2019) of torchvision."""

from torchvision.models.efficientnet import EfficientNet, MBConvConfig

from .image_classifier import ImageClassifier


class Model(ImageClassifier, EfficientNet):
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
        rows, channels = [], stem
        for row in blocks:
            sizes = channels, row["channels"], row["count"]
            rows.append(MBConvConfig(row["expansion"], row["kernel"], row["stride"], *sizes))
            channels = row["channels"]
        super().__init__(rows, dropout, stochastic_depth, classes, last_channel=head)
        self.features[0][0].stride = (stem_stride, stem_stride)
