"""An exponential moving average of the weights beside the model, by torch.optim.swa_utils."""

import own_clock
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 10))
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    own_clock.training_begins()
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(torch.randn(256, 512)), torch.randint(10, (256,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model)
        own_clock.step_ends(loss.item())


if __name__ == "__main__":
    main()
