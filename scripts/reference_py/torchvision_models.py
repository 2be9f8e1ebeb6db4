"""Exports small convolutional networks of torchvision."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision.models.efficientnet import EfficientNet, MBConvConfig
from torchvision.models.mobilenetv2 import MobileNetV2
from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.models.vgg import VGG, make_layers

from export import export

CLASSES = 10
IMAGE = 32
SAMPLES = 6
# With it no number of any model lies so close to a corner of ReLU that rounding decides its gradient.
SEED = 3


class NarrowResNet(ResNet):
    """ResNet's own layers and forward pass from a first width below 64, which its constructor does not support."""

    def __init__(self, layers, width, groups, width_per_group):
        nn.Module.__init__(self)
        self._norm_layer = nn.BatchNorm2d
        self.inplanes = width
        self.dilation = 1
        self.groups = groups
        self.base_width = width_per_group
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        for stage, blocks in enumerate(layers):
            stride = 1 if stage == 0 else 2
            setattr(self, f"layer{stage + 1}", self._make_layer(Bottleneck, width << stage, blocks, stride))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(4 * (width << (len(layers) - 1)), CLASSES)


def mobilenet_v3():
    def block(*sizes):
        return InvertedResidualConfig(*sizes, dilation=1, width_mult=1.0)

    rows = [
        block(8, 3, 8, 8, True, "RE", 1),
        block(8, 3, 24, 16, False, "RE", 2),
        block(16, 5, 48, 16, True, "HS", 1),
    ]
    return MobileNetV3(rows, last_channel=24, num_classes=CLASSES, dropout=0.0)


def efficientnet():
    rows = [
        MBConvConfig(1, 3, 1, 8, 8, 1),
        MBConvConfig(6, 3, 2, 8, 16, 2),
        MBConvConfig(6, 5, 1, 16, 24, 1),
    ]
    return EfficientNet(rows, dropout=0.0, stochastic_depth_prob=0.0, num_classes=CLASSES, last_channel=48)


def mobilenet_v2():
    rows = [[1, 8, 1, 1], [6, 16, 2, 2], [4, 24, 1, 2]]
    model = MobileNetV2(CLASSES, inverted_residual_setting=rows, dropout=0.0)
    # The width of the last convolution is an argument of no constructor.
    model.features[-1][0] = nn.Conv2d(24, 48, 1, bias=False)
    model.features[-1][1] = nn.BatchNorm2d(48)
    model.classifier[1] = nn.Linear(48, CLASSES)
    return model


def vgg():
    model = VGG(make_layers([8, "M", 16, 16, "M"]), init_weights=False)
    # Neither are the side of the averaged image and the widths of the linear layers.
    model.avgpool = nn.AdaptiveAvgPool2d((2, 2))
    no_dropout = nn.Dropout(p=0.0)
    model.classifier = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(True), no_dropout, nn.Linear(32, 24), nn.ReLU(True), no_dropout, nn.Linear(24, CLASSES)
    )
    return model


MODELS = {
    "resnet": lambda: NarrowResNet([1, 2, 1, 1], width=3, groups=1, width_per_group=64),
    # int(2 * 32 / 64) = 1 channel for each of the groups of the first stage.
    "resnext": lambda: NarrowResNet([1, 2, 1, 1], width=2, groups=4, width_per_group=32),
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet": efficientnet,
    "vgg": vgg,
}


for name, build in MODELS.items():
    torch.manual_seed(SEED)
    model = build().train()
    with torch.no_grad():
        # Scales and shifts begin at one and zero, where a mistake in them would not show.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    inputs, targets = torch.randn(SAMPLES, 3, IMAGE, IMAGE), torch.arange(SAMPLES) % CLASSES
    export(name, model, inputs, targets, lambda: cross_entropy(model(inputs), targets))
