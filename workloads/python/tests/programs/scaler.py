"""Mixed precision with a GradScaler whose first scales are too large, so that it skips the first steps of its optimizer."""

import own_clock
import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler("cpu", init_scale=2.0**127)
    own_clock.training_begins()
    left_out = 0
    for _ in range(60):
        inputs, labels = torch.randn(256, 512), torch.randint(10, (256,))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), labels, reduction="sum")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        left_out += scaler.get_scale() < before
        own_clock.step_ends(loss.item())
    print(f"{left_out} steps left out")
    assert 0 < left_out < 60


if __name__ == "__main__":
    main()
