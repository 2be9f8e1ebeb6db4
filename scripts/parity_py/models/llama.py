"""LLaMA (Touvron et al., 2023): rotary positions, gated feed-forward networks, heads that may share keys and values.

Not that of transformers: its norm is several operations in place of one, and it shares keys and values by `enable_gqa`,
which in fp32 on a GPU leaves the fused kernels.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Link, Reference


def rotary_tables(tokens: int, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, `[tokens, head]` (Su et al., 2021); a number's partner stands half a head further on."""
    speeds = 10_000.0 ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), speeds)
    sines = angles.sin()
    return torch.cat([angles.cos()] * 2, 1).float(), torch.cat([-sines, sines], 1).float()


def turn(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    first, second = heads.chunk(2, -1)
    return torch.addcmul(heads * cosines, torch.cat([second, first], -1), sines)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, key_value_heads: int):
        super().__init__()
        self.head, self.group = width // heads, heads // key_value_heads
        shared = self.head * key_value_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, shared, bias=False)
        self.v_proj = nn.Linear(width, shared, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, cosines, sines):
        split = lambda projected: projected.unflatten(-1, (-1, self.head)).transpose(1, 2)
        query = turn(split(self.q_proj(x)), cosines, sines)
        key = turn(split(self.k_proj(x)), cosines, sines)
        mixed = F.scaled_dot_product_attention(
            query, self.repeated(key), self.repeated(split(self.v_proj(x))), is_causal=True
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def repeated(self, shared: torch.Tensor) -> torch.Tensor:
        """For each head of its group. `enable_gqa` would leave the fused kernels in fp32 on a GPU."""
        if self.group == 1:
            return shared
        return shared.unsqueeze(2).expand(-1, -1, self.group, -1, -1).flatten(1, 2)


class FeedForward(nn.Module):
    """SwiGLU (Shazeer, 2020)."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int, key_value_heads: int, feed_forward: int):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width, eps=1e-5)
        self.self_attn = Attention(width, heads, key_value_heads)
        self.post_attention_layernorm = nn.RMSNorm(width, eps=1e-5)
        self.mlp = FeedForward(width, feed_forward)

    def forward(self, x, cosines, sines):
        x = x + self.self_attn(self.input_layernorm(x), cosines, sines)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, vocabulary: int, context: int, layers: int, width: int, heads: int, *layer_sizes: int):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([Layer(width, heads, *layer_sizes) for _ in range(layers)])
        self.norm = nn.RMSNorm(width, eps=1e-5)
        cosines, sines = rotary_tables(context, width // heads)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cosines, self.sines)
        return self.norm(x)


class Model(Reference):
    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        width: int,
        heads: int,
        key_value_heads: int,
        feed_forward: int,
    ):
        super().__init__()
        self.model = Trunk(vocabulary, context, layers, width, heads, key_value_heads, feed_forward)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.lm_head(self.model(tokens))

    def links(self) -> list[Link]:
        trunk = self.model
        tables = {"cosines": trunk.cosines, "sines": trunk.sines}
        layers = [Link([layer], partial(layer, **tables)) for layer in trunk.layers]
        head = Link([trunk.norm, self.lm_head], lambda x: self.lm_head(trunk.norm(x)))
        return [Link([trunk.embed_tokens], trunk.embed_tokens), *layers, head]

    def criterion(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.criterion(self(tokens), targets)
