"""Trains one reference model in Python PyTorch and prints one JSON line per step: index, dur_ns, loss.

    python train.py --spec LAUNCH.json --weights FILE --data FILE --steps N --device cpu|cuda
                    [--rank R --ranks N --rendezvous FILE]

Uses the settings that PyTorch documents as fastest for eager training, and the models of torchvision and transformers as
they are, where models/ takes them from there. On one thread of a CPU:

- channels-last memory format for images and the weights of convolutions (tutorial "Channels Last Memory Format in
  PyTorch"); it has no effect on models without images;
- one call for attention, a stack of recurrent layers, and each norm: `scaled_dot_product_attention`, `nn.LSTM`,
  `nn.RMSNorm`; activations in place where the backward pass allows it;
- a fused optimizer, except where convolutions hold more than a million weights: the fused kernel copies those that are
  in channels-last format, so that the plain loop is faster there;
- gradients set to none and not to zero, subnormal numbers flushed to zero, one thread within and between operations
  ("Performance Tuning Guide").

On a GPU besides ("Performance Tuning Guide", "CUDA semantics"): cuDNN's benchmark mode, a fused optimizer for all,
batches that are on the device beforehand, and no wait for the device in the loop: the duration of a step comes
from timing events that are read after the loop, and so do the losses. TF32 is as PyTorch has it by default: in
convolutions, not in matrix products. The plan bf16 runs the forward pass under torch.autocast.

The C library keeps freed memory on both sides, the purpose for which the guide recommends another malloc ("Switch Memory
allocator"). For Python the setting is in `GLIBC_TUNABLES` (launches.py).

With several ranks, each trains on its own data under DistributedDataParallel on Gloo, with buckets of its default sizes:
gradients are views of the buckets and the graph is declared static ("DistributedDataParallel", its note on
`static_graph` and `gradient_as_bucket_view`), and buffers, which torch-worker leaves to each rank, are not broadcast.
On both sides, Gloo's threads must not preempt a computing thread when they wake up: a rank has one core,
and Gloo's event loop would otherwise delay its own sender.

Not used: torch.compile, which would compare a compiler with eager execution; and another malloc, which would help both sides.

Models that learn by acting also act here, in environments with the same equations and the same random numbers, and
the cost of acting is part of a step on both sides.

Dropout and random samples are on. They come from torch's generator, seeded as in torch-worker before its first step,
and both sides draw in the same order, so that they draw the same numbers and the losses can be compared.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from models import build
from models.reference import Update
from safetensors_file import read
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

FUSED_COPIES_MAX = 1_000_000
"""Weights in channels-last format up to which the fused optimizer is the faster one on a CPU, or as fast."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rendezvous", type=Path, help="a file that was not used before")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = True

    spec = json.loads(arguments.spec.read_text())
    training = spec["program"]["training"]
    workload, device = training["workload"], torch.device(arguments.device)

    model = build(workload["model"])
    load_weights(model, read(arguments.weights))
    model = model.to(device=device, memory_format=torch.channels_last).train()
    updates = [(update, build_optimizer(update.part, workload["optimizer"])) for update in model.updates()]
    if arguments.ranks > 1:
        store = distributed.FileStore(str(arguments.rendezvous), arguments.ranks)
        # Threads of Gloo that wake up wait for the core, as in torch-worker (see shim/collective.cpp).
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        distributed.init_process_group("gloo", store=store, rank=arguments.rank, world_size=arguments.ranks)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        updates = [(shared(update), optimizer) for update, optimizer in updates]
    batches = read_batches(arguments.data, device)
    experience = model.experience(spec["seed"], training["global_batch"])
    torch.manual_seed((spec["seed"] + 1 + arguments.rank) % 2**64)

    def step(index: int) -> torch.Tensor:
        """The loss of the first update, which for a GAN is the discriminator's."""
        inputs, targets = batches[index % len(batches)] if experience is None else next(experience)
        losses = []
        for update, optimizer in updates:
            if not update.is_due():
                continue
            with torch.autocast(device.type, torch.bfloat16, enabled=training["plan"].endswith("bf16")):
                loss = update.loss(inputs, targets)
            # With several updates, each differentiates only its own part. With one, naming the part would cost time.
            loss.backward(inputs=list(update.part.parameters()) if len(updates) > 1 else None)
            if update.gradient_norm_max is not None:
                torch.nn.utils.clip_grad_norm_(update.part.parameters(), update.gradient_norm_max)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            update.after()
            losses.append(loss.detach())
        return losses[0]

    timed = steps_on_gpu if device.type == "cuda" else steps_on_cpu
    for index, (dur_ns, loss) in enumerate(timed(step, arguments.steps)):
        print(json.dumps({"index": index, "dur_ns": dur_ns, "loss": loss}))
    if arguments.ranks > 1:
        distributed.destroy_process_group()


class Loss(nn.Module):
    """The loss of an update as a module, as DistributedDataParallel requires."""

    def __init__(self, update: Update):
        super().__init__()
        self.part, self.loss = update.part, update.loss

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return self.loss(inputs, targets)


def shared(update: Update) -> Update:
    """The same update with the mean of all ranks' gradients on each rank."""
    options = {"gradient_as_bucket_view": True, "static_graph": True, "broadcast_buffers": False}
    return update._replace(loss=DistributedDataParallel(Loss(update), **options))


def steps_on_cpu(step, count: int) -> list[tuple[int, float]]:
    """The duration and the loss of each step."""
    made = []
    for index in range(count):
        begin_ns = time.perf_counter_ns()
        loss = step(index).item()
        made.append((time.perf_counter_ns() - begin_ns, loss))
    return made


def steps_on_gpu(step, count: int) -> list[tuple[int, float]]:
    """The same from events on the device, from the end of one step to the end of the next."""
    boundaries = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    losses = []
    boundaries[0].record()
    for index in range(count):
        losses.append(step(index))
        boundaries[index + 1].record()
    torch.cuda.synchronize()
    lengths_ms = (begin.elapsed_time(end) for begin, end in zip(boundaries, boundaries[1:]))
    return [(round(length * 1e6), loss.item()) for length, loss in zip(lengths_ms, losses)]


def load_weights(model: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Sets every parameter and buffer, one that is shared by its first name.

    Only the count of batches, which training does not read, may be missing.
    """
    missing, unexpected = model.load_state_dict(weights, strict=False)
    first_names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    missing = [name for name in missing if name in first_names and not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise SystemExit(f"the exported weights lack {missing} and have {unexpected}, which the reference model does not")


def build_optimizer(part: torch.nn.Module, settings: dict) -> torch.optim.Optimizer:
    """`{"sgd": {"learning_rate": 0.1, ...}}` to the optimizer of that name."""
    ((name, constants),) = settings.items()
    copied = sum(weight.numel() for weight in part.parameters() if weight.is_cpu and not weight.is_contiguous())
    fused = copied <= FUSED_COPIES_MAX
    common = {"lr": constants["learning_rate"], "weight_decay": constants["weight_decay"], "fused": fused}
    if name == "sgd":
        return torch.optim.SGD(part.parameters(), momentum=constants["momentum"], **common)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    betas = (constants["beta1"], constants["beta2"])
    return kinds[name](part.parameters(), betas=betas, eps=constants["epsilon"], **common)


def read_batches(path: Path, device: torch.device) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The exported batches in order, on the device. They are made ready beforehand, which favours this side a little."""
    tensors = read(path)

    def ready(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        # Copied on a CPU as well, because pages of the file would distort the timing.
        return tensor.to(device, copy=True)

    return [(ready(tensors[f"inputs.{i}"]), ready(tensors[f"targets.{i}"])) for i in range(len(tensors) // 2)]


if __name__ == "__main__":
    main()
