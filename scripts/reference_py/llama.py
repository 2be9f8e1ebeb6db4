"""Writes what transformers' LLaMA gives, for tests/models/llama.rs of torch-worker.

    pip install torch==2.11.0 transformers==5.23.0 safetensors
    python3 scripts/reference_py/llama.py

makes workloads/torch/tests/reference/llama.safetensors: weights of a small model, a batch, the loss and all gradients.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = Path(__file__).resolve().parents[2] / "workloads/torch/tests/reference/llama.safetensors"


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        rms_norm_eps=1e-5,
    )
    model = LlamaForCausalLM(config).train()
    # Scales begin at one, and all else so small that attention is nearly even: a mistake would not show.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    inputs, targets = torch.randint(64, (2, 16)), torch.randint(64, (2, 16))
    loss = torch.nn.functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())
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
