"""The reference models as users of PyTorch write them, with parameters under the names that torch-worker exports.

Each is built from the `model` table of its workload in the catalog, as a launch's spec holds it.
"""

import torch
from torch import nn
from torch.nn import functional as F


def build(model: dict) -> nn.Module:
    """`{"gpt2": {"layers": 4, ...}}` to a model with PyTorch's own initial weights."""
    ((family, shape),) = model.items()
    families = {"resnet": ResNetCifar, "gpt2": Gpt2, "lstm-lm": LstmLanguageModel}
    if family not in families:
        raise SystemExit(f"there is no reference model for the family '{family}'; there are {', '.join(families)}")
    return families[family](**shape)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al., CVPR 2016, figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)).add_(shortcut), inplace=True)


class ResNetCifar(nn.Module):
    """A residual network with the stem for 32x32 images: one 3x3 convolution and no pooling."""

    def __init__(self, block: str, layers: list[int], stem: str, classes: int, image: int):
        super().__init__()
        if (block, stem) != ("basic", "cifar"):
            raise SystemExit(f"the reference ResNet has basic blocks and the cifar stem, not {block} and {stem}")
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        width = 64
        for index, depth in enumerate(layers):
            outputs = 64 << index
            first = BasicBlock(width, outputs, stride=1 if index == 0 else 2)
            rest = [BasicBlock(outputs, outputs, stride=1) for _ in range(depth - 1)]
            self.add_module(f"layer{index + 1}", nn.Sequential(first, *rest))
            width = outputs
        self.stages = len(layers)
        self.fc = nn.Linear(width, classes)

    def forward(self, images):
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
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
