"""An optimizer for each parameter that runs in the backward pass, as PyTorch's tutorial of that name does to save memory."""

import own_clock
import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(4)))
    optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}

    def take_step(parameter) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(take_step)
    own_clock.training_begins()
    for _ in range(240):
        loss = model(torch.randn(128, 512)).square().mean()
        loss.backward()
        own_clock.step_ends(loss.item())


if __name__ == "__main__":
    main()
