"""Two processes that train one model without locks, as in mnist_hogwild of pytorch/examples."""

import own_clock
import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank: int, model) -> None:
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    own_clock.training_begins()
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(torch.randn(256, 512)).square().mean()
        loss.backward()
        optimizer.step()
        own_clock.step_ends(loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    shared = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).share_memory()
    mp.spawn(train, (shared,), nprocs=2)
