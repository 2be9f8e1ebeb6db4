"""A custom training loop under Lightning Fabric."""

import own_clock
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fabric.launch()
    fabric.seed_everything(0, verbose=False)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters()))
    data = TensorDataset(torch.randn(60 * 128, 512), torch.randint(10, (60 * 128,)))
    own_clock.training_begins()
    for inputs, labels in fabric.setup_dataloaders(DataLoader(data, 128, shuffle=True)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        own_clock.step_ends(loss.item())


if __name__ == "__main__":
    main()
