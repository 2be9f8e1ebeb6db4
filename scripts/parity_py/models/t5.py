"""T5 1.0 (Raffel et al., JMLR 2020), named as Hugging Face's `T5ForConditionalGeneration`.

Not that of transformers: its norm is several operations in place of one, and each layer makes the same mask again.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference

EPSILON = 1e-6
BUCKETS = 32
FARTHEST = 128


def buckets(tokens: int, causal: bool) -> torch.Tensor:
    """The bucket of each distance from a query to a key: one per small distance, increasingly wide ones for larger."""
    places = torch.arange(tokens)
    distance = places[None, :] - places[:, None]
    if causal:
        count, side, distance = BUCKETS, torch.zeros_like(distance), (-distance).clamp_min(0)
    else:
        count, side, distance = BUCKETS // 2, (distance > 0).long() * (BUCKETS // 2), distance.abs()
    exact = count // 2
    wide = torch.log(distance.float() / exact) / math.log(FARTHEST / exact) * (count - exact)
    wide = (exact + wide.clamp_min(0).long()).clamp_max(count - 1)
    return side + torch.where(distance < exact, distance, wide)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, head_width: int, dropout: float, is_first: bool):
        super().__init__()
        inner = heads * head_width
        self.q = nn.Linear(width, inner, bias=False)
        self.k = nn.Linear(width, inner, bias=False)
        self.v = nn.Linear(width, inner, bias=False)
        self.o = nn.Linear(inner, width, bias=False)
        if is_first:
            self.relative_attention_bias = nn.Embedding(BUCKETS, heads)
        self.heads, self.dropout = heads, dropout

    def forward(self, x, memory, bias):
        split = lambda projected: projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        heads = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        mixed = F.scaled_dot_product_attention(*heads, attn_mask=bias, dropout_p=self.dropout, scale=1.0)
        return self.o(mixed.transpose(1, 2).flatten(2))


class AttentionPart(nn.Module):
    """Attention after a norm, with a shortcut around both; without a memory it attends to its own input."""

    def __init__(self, name: str, *sizes, dropout: float, is_first: bool):
        super().__init__()
        self.add_module(name, Attention(*sizes, dropout, is_first))
        self.layer_norm = nn.RMSNorm(sizes[0], eps=EPSILON)
        self.dropout, self.name = nn.Dropout(dropout), name

    def forward(self, x, memory=None, bias=None):
        normed = self.layer_norm(x)
        return x + self.dropout(self.get_submodule(self.name)(normed, normed if memory is None else memory, bias))


class FeedForwardPart(nn.Module):
    def __init__(self, width: int, inner: int, dropout: float):
        super().__init__()
        layers = {"wi": nn.Linear(width, inner, bias=False), "wo": nn.Linear(inner, width, bias=False)}
        self.DenseReluDense = nn.ModuleDict(layers)
        self.layer_norm = nn.RMSNorm(width, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        inner = F.relu(self.DenseReluDense["wi"](self.layer_norm(x)), inplace=True)
        return x + self.dropout(self.DenseReluDense["wo"](self.dropout(inner)))


class Stack(nn.Module):
    """The encoder, or the decoder, which also attends to a memory."""

    def __init__(
        self,
        tokens: int,
        decodes: bool,
        *,
        layers: int,
        width: int,
        heads: int,
        head_width: int,
        feed_forward: int,
        dropout: float,
    ):
        super().__init__()
        sizes = width, heads, head_width
        self.block = nn.ModuleList()
        for index in range(layers):
            parts = [AttentionPart("SelfAttention", *sizes, dropout=dropout, is_first=index == 0)]
            parts += [AttentionPart("EncDecAttention", *sizes, dropout=dropout, is_first=False)] if decodes else []
            parts.append(FeedForwardPart(width, feed_forward, dropout))
            self.block.append(nn.ModuleDict({"layer": nn.ModuleList(parts)}))
        self.final_layer_norm = nn.RMSNorm(width, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("buckets", buckets(tokens, decodes), persistent=False)
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1) if decodes else None
        self.register_buffer("future", future, persistent=False)

    def forward(self, x, memory=None):
        x, bias = self.dropout(x), self.bias()
        for block in self.block:
            attention, *cross_attention, feed_forward = block["layer"]
            x = attention(x, bias=bias)
            for part in cross_attention:
                x = part(x, memory)
            x = feed_forward(x)
        return self.dropout(self.final_layer_norm(x))

    def bias(self) -> torch.Tensor:
        """The bias that all layers add to their scores, `[1, heads, tokens, tokens]`."""
        table = self.block[0]["layer"][0].SelfAttention.relative_attention_bias
        bias = table(self.buckets).permute(2, 0, 1).unsqueeze(0)
        return (bias if self.future is None else bias.masked_fill(self.future, -torch.inf)).contiguous()


class Model(Reference):
    def __init__(self, vocabulary: int, source: int, target: int, **sizes):
        super().__init__()
        self.shared = nn.Embedding(vocabulary, sizes["width"])
        self.encoder = Stack(source, False, **sizes)
        self.decoder = Stack(target, True, **sizes)
        self.source = source

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The input is the source followed by the target shifted by one token."""
        memory = self.encoder(self.shared(tokens[:, : self.source]))
        hidden = self.decoder(self.shared(tokens[:, self.source :]), memory)
        logits = F.linear(hidden * hidden.shape[-1] ** -0.5, self.shared.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
