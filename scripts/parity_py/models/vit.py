"""Vision transformers (Dosovitskiy et al., ICLR 2021), as in torchvision.

Not torchvision's own: its `nn.MultiheadAttention` copies queries, keys and values, for about a tenth of the step of `vit-mini`.
"""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class SelfAttention(nn.Module):
    """As `nn.MultiheadAttention`, with its names but without its overhead of case distinctions."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        samples, tokens, width = x.shape
        heads = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        query, key, value = heads.view(samples, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.out_proj(mixed.transpose(1, 2).reshape(samples, tokens, width))


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a layer norm and beside a shortcut."""

    def __init__(self, width: int, heads: int, feed_forward: int):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = SelfAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        # Numbered as in torchvision, where a dropout stands between.
        layers = {"0": nn.Linear(width, feed_forward), "1": nn.GELU(), "3": nn.Linear(feed_forward, width)}
        self.mlp = nn.Sequential(OrderedDict(layers))

    def forward(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens: int, layers: int, width: int, heads: int, feed_forward: int):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.empty(1, tokens, width))
        names = (f"encoder_layer_{index}" for index in range(layers))
        self.layers = nn.Sequential(OrderedDict((name, Layer(width, heads, feed_forward)) for name in names))
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class Model(Reference):
    def __init__(
        self, image: int, patch: int, classes: int, layers: int, width: int, heads: int, feed_forward: int
    ):
        super().__init__()
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.encoder = Encoder(1 + (image // patch) ** 2, layers, width, heads, feed_forward)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(width, classes)))

    def forward(self, images):
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(patches.shape[0], -1, -1)
        return self.heads(self.encoder(torch.cat([class_token, patches], 1))[:, 0])

    def loss(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(images), classes)
