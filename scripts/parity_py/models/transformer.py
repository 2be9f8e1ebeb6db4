"""The Transformer (Vaswani et al., NeurIPS 2017), as in jadore801120/attention-is-all-you-need-pytorch."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference

EPSILON = 1e-6


def position_table(tokens: int, width: int) -> torch.Tensor:
    """Section 3.5 of the paper: a sine and a cosine in turns."""
    speeds = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), speeds)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()


class Attention(nn.Module):
    """With a shortcut and a norm behind it."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.w_qs = nn.Linear(width, width, bias=False)
        self.w_ks = nn.Linear(width, width, bias=False)
        self.w_vs = nn.Linear(width, width, bias=False)
        self.fc = nn.Linear(width, width, bias=False)
        self.layer_norm = nn.LayerNorm(width, eps=EPSILON)
        self.heads, self.share, self.dropout = heads, dropout, nn.Dropout(dropout)

    def forward(self, x, memory, causal=False):
        split = lambda projected: projected.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        heads = split(self.w_qs(x)), split(self.w_ks(memory)), split(self.w_vs(memory))
        mixed = F.scaled_dot_product_attention(*heads, dropout_p=self.share, is_causal=causal)
        return self.layer_norm(self.dropout(self.fc(mixed.transpose(1, 2).flatten(2))) + x)


class FeedForward(nn.Module):
    """Two layers on each token alone, with a shortcut and a norm behind them."""

    def __init__(self, width: int, inner: int, dropout: float):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.layer_norm = nn.LayerNorm(width, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.layer_norm(self.dropout(self.w_2(F.relu(self.w_1(x), inplace=True))) + x)


class Layer(nn.Module):
    def __init__(self, decodes: bool, *, width: int, heads: int, feed_forward: int, dropout: float):
        super().__init__()
        self.slf_attn = Attention(width, heads, dropout)
        self.enc_attn = Attention(width, heads, dropout) if decodes else None
        self.pos_ffn = FeedForward(width, feed_forward, dropout)

    def forward(self, x, memory):
        x = self.slf_attn(x, x, causal=self.enc_attn is not None)
        return self.pos_ffn(x if self.enc_attn is None else self.enc_attn(x, memory))


class Stack(nn.Module):
    def __init__(self, decodes: bool, layers: int, **sizes):
        super().__init__()
        self.layer_stack = nn.ModuleList([Layer(decodes, **sizes) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(sizes["width"], eps=EPSILON)
        self.dropout = nn.Dropout(sizes["dropout"])

    def forward(self, embedded, memory=None):
        x = self.layer_norm(self.dropout(embedded))
        for layer in self.layer_stack:
            x = layer(x, memory)
        return x


class Model(Reference):
    def __init__(self, vocabulary: int, source: int, target: int, **sizes):
        super().__init__()
        self.encoder, self.decoder = Stack(False, **sizes), Stack(True, **sizes)
        # Both sentences and the output share one matrix, under its first name.
        self.encoder.src_word_emb = nn.Embedding(vocabulary, sizes["width"])
        self.register_buffer("positions", position_table(max(source, target), sizes["width"]), persistent=False)
        self.source = source

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The input is the source followed by the target shifted by one token."""
        memory = self.encoder(self.embed(tokens[:, : self.source]))
        hidden = self.decoder(self.embed(tokens[:, self.source :]), memory)
        logits = F.linear(hidden * hidden.shape[-1] ** -0.5, self.encoder.src_word_emb.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.encoder.src_word_emb(tokens) + self.positions[: tokens.shape[1]]
