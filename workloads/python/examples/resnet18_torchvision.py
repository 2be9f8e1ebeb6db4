"""Trains torchvision's ResNet-18 on made-up images, and prints a JSON line per step: its duration and its loss.

    python3 resnet18_torchvision.py [--steps 100] [--batch 8] [--side 64] [--loaders 1] [--device cpu]

Needs torch and torchvision. It is independent of Tandem, whose measurements are compared with its output.
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import FakeData
from torchvision.models import resnet18
from torchvision.transforms import ToTensor


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=64, help="of an image, in pixels")
    parser.add_argument("--loaders", type=int, default=1, help="processes that make images")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device(arguments.device)
    images = FakeData(arguments.steps * arguments.batch, (3, arguments.side, arguments.side), 1000, ToTensor())
    loader = DataLoader(images, arguments.batch, shuffle=True, num_workers=arguments.loaders)
    model = resnet18().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.steps)

    begin_ns = now_ns(device)
    for step, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(inputs.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
        scheduler.step()
        end_ns = now_ns(device)
        print(json.dumps({"step": step, "ns": end_ns - begin_ns, "loss": loss.item()}), flush=True)
        begin_ns = end_ns


def now_ns(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns()


if __name__ == "__main__":
    main()
