"""The reference models as users of PyTorch write them, with parameters under the names that torch-worker exports.

Each is built from the `model` table of its workload in the catalog, as a launch's spec holds it.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


def build(model: dict) -> nn.Module:
    """`{"gpt2": {"layers": 4, ...}}` to a model with PyTorch's own initial weights."""
    ((family, shape),) = model.items()
    families = {"resnet": ResNet, "gpt2": Gpt2, "lstm-lm": LstmLanguageModel}
    if family not in families:
        raise SystemExit(f"there is no reference model for the family '{family}'; there are {', '.join(families)}")
    return families[family](**shape)


class ConvNorm(NamedTuple):
    """A convolution that keeps the size at stride 1, and the batch norm behind it."""

    convolution: nn.Conv2d
    norm: nn.BatchNorm2d

    @classmethod
    def new(cls, inputs: int, outputs: int, kernel: int, stride: int) -> "ConvNorm":
        convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        return cls(convolution, nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    """Convolutions beside a shortcut: two of 3x3, or 1x1, 3x3 and 1x1 (He et al., CVPR 2016, figure 5).

    The stride of the second kind is that of its 3x3 convolution, as in torchvision.
    """

    def __init__(self, block: str, inputs: int, width: int, stride: int):
        super().__init__()
        if block == "basic":
            self.outputs = width
            self.conv1, self.bn1 = ConvNorm.new(inputs, width, 3, stride)
            self.conv2, self.bn2 = ConvNorm.new(width, width, 3, 1)
        else:
            self.outputs = 4 * width
            self.conv1, self.bn1 = ConvNorm.new(inputs, width, 1, 1)
            self.conv2, self.bn2 = ConvNorm.new(width, width, 3, stride)
            self.conv3, self.bn3 = ConvNorm.new(width, self.outputs, 1, 1)
        self.bottleneck = block == "bottleneck"
        self.downsample = None
        if stride != 1 or inputs != self.outputs:
            self.downsample = nn.Sequential(*ConvNorm.new(inputs, self.outputs, 1, stride))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = self.bn2(self.conv2(x))
        if self.bottleneck:
            x = self.bn3(self.conv3(F.relu(x, inplace=True)))
        return F.relu(x.add_(shortcut), inplace=True)


class ResNet(nn.Module):
    """A residual network; its stem is one 3x3 convolution for 32x32 images, else 7x7 with stride 2 and a pooling."""

    def __init__(self, block: str, layers: list[int], stem: str, classes: int, image: int):
        super().__init__()
        kernel, stride, self.pools = {"cifar": (3, 1, False), "imagenet": (7, 2, True)}[stem]
        self.conv1, self.bn1 = ConvNorm.new(3, 64, kernel, stride)
        channels = 64
        for index, depth in enumerate(layers):
            blocks = []
            for position in range(depth):
                stride = 2 if index > 0 and position == 0 else 1
                blocks.append(Residual(block, channels, 64 << index, stride))
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


class Gpt2Block(nn.Module):
    """Attention and a feed-forward network, each behind a layer norm and beside a residual (Radford et al., 2019)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, tokens, width = x.shape
        heads = self.attn["c_attn"](self.ln_1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 with learned positions and an output layer tied to the embedding."""

    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList([Gpt2Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.register_buffer("positions", torch.arange(context), persistent=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class LstmLanguageModel(nn.Module):
    """LSTM layers between an embedding and an output layer (Zaremba et al., 2014)."""

    def __init__(self, vocabulary: int, context: int, layers: int, width: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        states, _ = self.lstm(self.embedding(tokens))
        return self.decoder(states)
