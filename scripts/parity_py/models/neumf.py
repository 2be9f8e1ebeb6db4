"""Neural matrix factorisation (He et al., WWW 2017), named as in hexiangnan/neural_collaborative_filtering."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class Model(Reference):
    def __init__(self, users: int, items: int, factors: int, mlp: list[int]):
        super().__init__()
        self.mf_embedding_user = nn.Embedding(users, factors)
        self.mf_embedding_item = nn.Embedding(items, factors)
        self.mlp_embedding_user = nn.Embedding(users, mlp[0] // 2)
        self.mlp_embedding_item = nn.Embedding(items, mlp[0] // 2)
        self.depth = len(mlp) - 1
        for index in range(self.depth):
            self.add_module(f"layer{index + 1}", nn.Linear(mlp[index], mlp[index + 1]))
        self.prediction = nn.Linear(factors + mlp[-1], 1)

    def loss(self, pairs: torch.Tensor, truths: torch.Tensor) -> torch.Tensor:
        user, item = pairs.unbind(1)
        products = self.mf_embedding_user(user) * self.mf_embedding_item(item)
        x = torch.cat([self.mlp_embedding_user(user), self.mlp_embedding_item(item)], 1)
        for index in range(self.depth):
            x = F.relu(self.get_submodule(f"layer{index + 1}")(x), inplace=True)
        logits = self.prediction(torch.cat([products, x], 1)).flatten()
        return F.binary_cross_entropy_with_logits(logits.float(), truths)
