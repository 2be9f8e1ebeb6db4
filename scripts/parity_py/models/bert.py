"""BERT (Devlin et al., NAACL 2019), named as Hugging Face's `BertForPreTraining` and `BertForQuestionAnswering`."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from .post_norm import Body, Embeddings
from .reference import Reference

EPSILON = 1e-12


class Predictions(nn.Module):
    """Logits of every token, also of those that were not masked; the weight is the embedding's."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        transform = {"dense": nn.Linear(width, width), "gelu": nn.GELU(), "LayerNorm": nn.LayerNorm(width, eps=EPSILON)}
        self.transform = nn.Sequential(OrderedDict(transform))
        self.bias = nn.Parameter(torch.empty(vocabulary))

    def forward(self, hidden, weight):
        return F.linear(self.transform(hidden), weight, self.bias)


class Model(Reference):
    def __init__(
        self,
        vocabulary: int,
        positions: int,
        context: int,
        layers: int,
        width: int,
        heads: int,
        dropout: float,
        task: str,
    ):
        super().__init__()
        embeddings = Embeddings(vocabulary, positions, 0, 2, width, EPSILON, dropout)
        self.bert = Body(embeddings, layers, width, heads, EPSILON, dropout)
        self.pretrains = task == "pretraining"
        if self.pretrains:
            self.bert.pooler = nn.Sequential(OrderedDict(dense=nn.Linear(width, width), tanh=nn.Tanh()))
            heads = {"predictions": Predictions(vocabulary, width), "seq_relationship": nn.Linear(width, 2)}
            self.cls = nn.ModuleDict(heads)
        else:
            self.qa_outputs = nn.Linear(width, 2)

    def loss(self, tokens_and_segments: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(*tokens_and_segments.unbind(1))
        if not self.pretrains:
            return F.cross_entropy(self.qa_outputs(hidden).transpose(1, 2).flatten(0, 1), targets.flatten())
        context = hidden.shape[1]
        logits = self.cls["predictions"](hidden, self.bert.embeddings.word_embeddings.weight)
        # A target of -100 is no masked token; the last one says whether the second sentence followed the first.
        masked = F.cross_entropy(logits.flatten(0, 1), targets[:, :context].flatten())
        follows = self.cls["seq_relationship"](self.bert.pooler(hidden[:, 0]))
        return masked + F.cross_entropy(follows, targets[:, context])
