"""GPT-2 (Radford et al., 2019) with learned positions and an output layer tied to the embedding.

Not that of transformers: scripts/gpu_py/parts.py compares GPT-2 on machines that have PyTorch alone.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Link, Reference


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a layer norm and beside a residual."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.head = width // heads
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        heads = self.attn["c_attn"](self.ln_1(x)).unflatten(-1, (3, -1, self.head))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).flatten(2))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class Model(Reference):
    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList([Layer(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.register_buffer("positions", torch.arange(context), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.h:
            x = layer(x)
        return self.logits(x)

    def embed(self, tokens):
        return self.wte(tokens) + self.wpe(self.positions)

    def logits(self, x):
        return F.linear(self.ln_f(x), self.wte.weight)

    def links(self) -> list[Link]:
        layers = [Link([layer], layer) for layer in self.h]
        return [Link([self.wte, self.wpe], self.embed), *layers, Link([self.ln_f, self.wte], self.logits)]

    def criterion(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.criterion(self(tokens), targets)
