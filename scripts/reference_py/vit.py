"""Writes what torchvision's vision transformer gives, for tests/models/vit.rs of torch-worker.

    pip install torch==2.11.0 torchvision==0.26.0 safetensors
    python3 scripts/reference_py/vit.py

makes workloads/torch/tests/reference/vit.safetensors: weights of a small model, a batch, the loss and all gradients.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torchvision.models import VisionTransformer

OUT = Path(__file__).resolve().parents[2] / "workloads/torch/tests/reference/vit.safetensors"


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = VisionTransformer(
        image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=5
    )
    # Much begins at zero or one, where a mistake would not show.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    inputs, targets = torch.randn(4, 3, 16, 16), torch.tensor([0, 3, 4, 1])
    loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    tensors = {"inputs": inputs, "targets": targets, "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        tensors[f"weights.{name}"] = parameter.detach()
        tensors[f"gradients.{name}"] = parameter.grad
    OUT.parent.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, OUT)
    print(f"{OUT.name}: {OUT.stat().st_size} bytes, loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
