"""Epochs over a DataLoader with a validation after each, as in the MNIST example of pytorch/examples."""

import argparse
import math
import sys

import own_clock
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

OPTIMIZERS = {
    "adadelta": lambda parameters, lr: torch.optim.Adadelta(parameters, lr),
    "foreach": lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9, foreach=True),
    "fused": lambda parameters, lr: torch.optim.AdamW(parameters, lr, fused=True),
}


def train(model, loader, optimizer) -> None:
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        own_clock.step_ends(loss.item())
        if not math.isfinite(loss.item()):
            print("Loss is not finite, stopping training", file=sys.stderr)
            sys.exit(3)


@torch.no_grad()
def test(model, loader) -> None:
    model.eval()
    correct = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    print(f"{correct} of {len(loader.dataset)} are right")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adadelta")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    data = TensorDataset(torch.randn(20 * 64, 1, 28, 28), torch.randint(10, (20 * 64,)))
    train_loader = DataLoader(data, 64, shuffle=True, num_workers=arguments.workers)
    test_loader = DataLoader(data, 256, num_workers=arguments.workers)
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Flatten(), nn.Linear(32 * 12 * 12, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(1)),
    )
    optimizer = OPTIMIZERS[arguments.optimizer](model.parameters(), arguments.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    own_clock.training_begins()
    for _ in range(3):
        train(model, train_loader, optimizer)
        test(model, test_loader)
        scheduler.step()


if __name__ == "__main__":
    main()
