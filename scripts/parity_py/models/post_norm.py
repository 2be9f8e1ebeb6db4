"""The encoder that BERT and RoBERTa share: a norm behind each shortcut, named as in Hugging Face's `BertModel`."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F


class Embeddings(nn.Module):
    """Sums those of tokens, positions and segments."""

    def __init__(
        self, vocabulary: int, positions: int, first_position: int, segments: int, width: int, eps: float, dropout: float
    ):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(segments, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.dropout = nn.Dropout(dropout)
        self.first_position = first_position

    def forward(self, tokens, segments=None):
        """Without segments all tokens are of the first one."""
        of_segments = self.token_type_embeddings.weight[:1] if segments is None else self.token_type_embeddings(segments)
        positions = self.position_embeddings.weight.narrow(0, self.first_position, tokens.shape[1])
        return self.dropout(self.LayerNorm(self.word_embeddings(tokens) + of_segments + positions))


class Layer(nn.Module):
    """Attention and a feed-forward network, each with a shortcut and a norm behind it."""

    def __init__(self, width: int, heads: int, eps: float, dropout: float):
        super().__init__()
        self.heads, self.share, self.dropout = heads, dropout, nn.Dropout(dropout)

        def output(inputs: int) -> nn.ModuleDict:
            return nn.ModuleDict({"dense": nn.Linear(inputs, width), "LayerNorm": nn.LayerNorm(width, eps=eps)})

        projections = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": projections, "output": output(width)})
        self.intermediate = nn.Sequential(OrderedDict(dense=nn.Linear(width, 4 * width)))
        self.output = output(4 * width)

    def forward(self, x):
        projections = self.attention["self"]
        query, key, value = (
            projections[name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=self.share)
        x = self.behind(self.attention["output"], mixed.transpose(1, 2).flatten(2), x)
        return self.behind(self.output, F.gelu(self.intermediate(x)), x)

    def behind(self, output: nn.ModuleDict, x: torch.Tensor, shortcut: torch.Tensor) -> torch.Tensor:
        return output["LayerNorm"](self.dropout(output["dense"](x)) + shortcut)


class Body(nn.Module):
    def __init__(self, embeddings: Embeddings, layers: int, width: int, heads: int, eps: float, dropout: float):
        super().__init__()
        self.embeddings = embeddings
        layer = nn.Sequential(*(Layer(width, heads, eps, dropout) for _ in range(layers)))
        self.encoder = nn.Sequential(OrderedDict(layer=layer))

    def forward(self, *tokens_and_segments):
        return self.encoder(self.embeddings(*tokens_and_segments))
