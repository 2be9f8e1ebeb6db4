"""Residual networks (He et al., CVPR 2016) and ResNeXts (Xie et al., CVPR 2017), as in torchvision.

Not torchvision's own: scripts/gpu_py/parts.py compares ResNet-50 on machines that have PyTorch alone.
"""

from torch import nn
from torch.nn import functional as F

from .image_classifier import ImageClassifier


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size at stride 1, and the batch norm behind it."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """Convolutions beside a shortcut: two of 3x3, or 1x1, 3x3 and 1x1 (He et al., figure 5).

    The stride of the second kind is that of its 3x3 convolution, as in torchvision.
    """

    def __init__(self, block: str, inputs: int, inner: int, width: int, stride: int, groups: int):
        super().__init__()
        if block == "basic":
            self.outputs = width
            self.conv1, self.bn1 = conv_norm(inputs, width, 3, stride)
            self.conv2, self.bn2 = conv_norm(width, width, 3)
        else:
            self.outputs = 4 * width
            self.conv1, self.bn1 = conv_norm(inputs, inner, 1)
            self.conv2, self.bn2 = conv_norm(inner, inner, 3, stride, groups)
            self.conv3, self.bn3 = conv_norm(inner, self.outputs, 1)
        self.bottleneck = block == "bottleneck"
        self.downsample = None
        if stride != 1 or inputs != self.outputs:
            self.downsample = conv_norm(inputs, self.outputs, 1, stride)

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.bn2(self.conv2(x))
        if self.bottleneck:
            x = self.bn3(self.conv3(F.relu(x, inplace=True)))
        return F.relu(x.add_(shortcut), inplace=True)


class Model(ImageClassifier):
    """The stem is one 3x3 convolution for 32x32 images, else a 7x7 convolution with stride 2 and a pooling."""

    def __init__(
        self,
        block: str,
        layers: list[int],
        stem: str,
        classes: int,
        image: int,
        width: int = 64,
        groups: int = 1,
        width_per_group: int | None = None,
    ):
        super().__init__()
        kernel, stride, self.pools = {"cifar": (3, 1, False), "imagenet": (7, 2, True)}[stem]
        self.conv1, self.bn1 = conv_norm(3, width, kernel, stride)
        inner = width if width_per_group is None else groups * width_per_group
        channels = width
        for index, depth in enumerate(layers):
            blocks = []
            for position in range(depth):
                stride = 2 if index > 0 and position == 0 else 1
                blocks.append(Residual(block, channels, inner << index, width << index, stride, groups))
                channels = blocks[-1].outputs
            self.add_module(f"layer{index + 1}", nn.Sequential(*blocks))
        self.stages = len(layers)
        self.fc = nn.Linear(channels, classes)

    def forward(self, images):
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
        if self.pools:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        for index in range(self.stages):
            x = self.get_submodule(f"layer{index + 1}")(x)
        return self.fc(x.mean((2, 3)))
