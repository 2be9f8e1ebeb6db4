"""Cross-validation: a model and an optimizer for each fold. With --keep all of them stay, for an ensemble."""

import argparse

import own_clock
import torch
from torch import nn

FOLDS, STEPS, BATCH, FEATURES = 3, 40, 256, 512


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    inputs, targets = torch.randn(FOLDS, BATCH, FEATURES), torch.randn(FOLDS, BATCH, 1)
    kept = []
    for fold in range(FOLDS):
        model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), nn.Linear(FEATURES, 1))
        optimizer = torch.optim.Adam(model.parameters())
        if arguments.keep:
            kept.append((model, optimizer))
        trained_on = [other for other in range(FOLDS) if other != fold]
        own_clock.training_begins()
        for step in range(STEPS):
            chosen = trained_on[step % len(trained_on)]
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
            loss.backward()
            optimizer.step()
            own_clock.step_ends(loss.item())
        with torch.no_grad():
            print(f"fold {fold}: {nn.functional.mse_loss(model(inputs[fold]), targets[fold]).item():.4f}")


if __name__ == "__main__":
    main()
