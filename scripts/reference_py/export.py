"""Common code of the exporters of reference models: one training step in a file, which torch-worker's tests repeat.

    python3 -m venv VENV
    VENV/bin/pip install torch==2.11.0 torchvision==0.26.0 transformers==5.23.0 safetensors numpy
    VENV/bin/python scripts/reference_py/NAME.py

writes workloads/torch/tests/reference/<name>.safetensors, which is part of the repository. An exporter runs only to change
a size. Models have no dropout, so that a step is deterministic.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parents[2] / "workloads/torch/tests/reference"

torch.set_num_threads(1)


def export(name, model, inputs, targets, loss_of, transposed=frozenset()):
    """Writes the step of `model` in which `loss_of()` is minimised.

    The file holds parameters and buffers before it (`weights.*`), `inputs` and `targets` packed as a batch of torch-worker
    is, the `loss`, the gradients (`gradients.*`), and the buffers as the forward pass left them (`after.*`). A weight that is
    shared has its first name alone; those named in `transposed` are written as torch.nn.Linear would hold them.
    """

    def laid_out(key, tensor):
        return (tensor.T if key in transposed else tensor).detach().clone().contiguous()

    saved = model.state_dict()
    parameters = dict(model.named_parameters())
    # Nothing reads the counters, and constants such as positions are not saved.
    buffers = {
        key: buffer
        for key, buffer in model.named_buffers()
        if key in saved and not key.endswith("num_batches_tracked")
    }
    tensors = {"inputs": inputs, "targets": targets}
    tensors |= {f"weights.{key}": laid_out(key, tensor) for key, tensor in (parameters | buffers).items()}
    loss = loss_of()
    loss.backward()
    tensors["loss"] = loss.detach()
    tensors |= {f"gradients.{key}": laid_out(key, parameter.grad) for key, parameter in parameters.items()}
    tensors |= {f"after.{key}": laid_out(key, buffer) for key, buffer in buffers.items()}
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.safetensors"
    save_file(tensors, path)
    print(f"{path.name}: {path.stat().st_size} bytes, loss {loss.item():.6f}")


def scatter(model, deviation, generator=None):
    """Moves every parameter off its initial value, where a mistake in a bias or a scale would not show."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(deviation * torch.randn(parameter.shape, generator=generator))
