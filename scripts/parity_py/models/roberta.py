"""RoBERTa (Liu et al., 2019): BERT's encoder on masked tokens alone, named as Hugging Face's `RobertaForMaskedLM`."""

import torch
from torch import nn
from torch.nn import functional as F

from .post_norm import Body, Embeddings
from .reference import Reference

EPSILON = 1e-5
FIRST_POSITION = 2
"""Positions start after the number of the padding token, which is 1."""


class Predictions(nn.Module):
    """Logits of every token, also of those that were not masked; the weight is the embedding's."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.layer_norm = nn.LayerNorm(width, eps=EPSILON)
        self.bias = nn.Parameter(torch.empty(vocabulary))

    def forward(self, hidden, weight):
        return F.linear(self.layer_norm(F.gelu(self.dense(hidden))), weight, self.bias)


class Model(Reference):
    def __init__(
        self, vocabulary: int, positions: int, context: int, layers: int, width: int, heads: int, dropout: float
    ):
        super().__init__()
        rows = positions + FIRST_POSITION
        embeddings = Embeddings(vocabulary, rows, FIRST_POSITION, 1, width, EPSILON, dropout)
        self.roberta = Body(embeddings, layers, width, heads, EPSILON, dropout)
        self.lm_head = Predictions(vocabulary, width)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.lm_head(self.roberta(tokens), self.roberta.embeddings.word_embeddings.weight)
        # A target of -100 is no masked token.
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
