"""Writes what transformers' GPT-2 gives, for tests/models/gpt2.rs of torch-worker.

    pip install torch==2.11.0 transformers==5.23.0 safetensors
    python3 scripts/reference_py/gpt2.py

makes workloads/torch/tests/reference/gpt2.safetensors: weights of a small model, a batch, the loss and all gradients.
Matrices are transposed, as the worker stores them the way torch.nn.Linear does, and dropout is off, as it is there.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

OUT = Path(__file__).resolve().parents[2] / "workloads/torch/tests/reference/gpt2.safetensors"


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    config = GPT2Config(
        vocab_size=64,
        n_positions=16,
        n_embd=32,
        n_layer=2,
        n_head=4,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config).train()
    # Scales and biases begin at one and zero, and all else so small that attention is nearly even: a mistake would not
    # show.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    inputs, targets = torch.randint(64, (2, 16)), torch.randint(64, (2, 16))
    loss = torch.nn.functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())
    loss.backward()
    transposed = {
        f"{name}.weight" for name, module in model.transformer.named_modules() if isinstance(module, Conv1D)
    }
    tensors = {"inputs": inputs, "targets": targets, "loss": loss.detach()}
    # The output layer shares its weight with the token embedding, and so stands there.
    for name, parameter in model.transformer.named_parameters():
        weight, gradient = parameter.detach(), parameter.grad
        if name in transposed:
            weight, gradient = weight.T, gradient.T
        tensors[f"weights.{name}"] = weight
        tensors[f"gradients.{name}"] = gradient
    OUT.parent.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, OUT)
    print(f"{OUT.name}: {OUT.stat().st_size} bytes, loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
