"""Hugging Face's accelerate, with gradients accumulated over four micro-batches."""

import own_clock
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, MICRO_BATCHES, BATCH = 60, 4, 64


def main() -> None:
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=MICRO_BATCHES)
    data = TensorDataset(torch.randn(STEPS * MICRO_BATCHES * BATCH, 512), torch.randint(10, (STEPS * MICRO_BATCHES * BATCH,)))
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    prepared = accelerator.prepare(model, optimizer, DataLoader(data, BATCH, shuffle=True), scheduler)
    model, optimizer, loader, scheduler = prepared
    own_clock.training_begins()
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            own_clock.step_ends(loss.item())


if __name__ == "__main__":
    main()
