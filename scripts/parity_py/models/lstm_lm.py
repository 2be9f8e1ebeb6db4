"""LSTM layers between an embedding and an output layer (Zaremba et al., 2014)."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class Model(Reference):
    def __init__(self, vocabulary: int, context: int, layers: int, width: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(dropout)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.dropout(self.embedding(tokens)))
        logits = self.decoder(self.dropout(states))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
