"""What the exporters of reference models share."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parents[2] / "workloads/torch/tests/reference"


def write(name, model, inputs, targets, loss):
    """Writes weights, a batch, its loss and the gradients to a file that torch-worker's tests read.

    `inputs` and `targets` are packed as a batch of torch-worker is. A weight that is shared has its first name alone.
    """
    loss.backward()
    tensors = {"inputs": inputs, "targets": targets, "loss": loss.detach()}
    for parameter_name, parameter in model.named_parameters():
        tensors[f"weight.{parameter_name}"] = parameter.detach().contiguous()
        tensors[f"gradient.{parameter_name}"] = parameter.grad.contiguous()
    path = FOLDER / f"{name}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)
    count = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"file": path.name, "bytes": path.stat().st_size, "parameters": count, "loss": loss.item()}))


def scatter(model, seed=1):
    """Moves every parameter off its initial value, where a mistake in a bias or a scale would not show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
