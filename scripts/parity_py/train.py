"""Trains one reference model in Python PyTorch and prints one JSON line per step: index, dur_ns, loss.

    python train.py --spec LAUNCH.json --weights FILE --data FILE --steps N --device cpu|cuda
                    [--rank R --ranks N --rendezvous FILE] [--cut LINKS]

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
Other plans of several ranks are those of PyTorch's own libraries: `dpN-zero1` and `dpN-zero3` of optimizers.py and
data_parallel.py, `pp2-gaN` of pipeline.py, `tpN` of tensor_parallel.py.
On both sides, Gloo's threads must not preempt a computing thread when they wake up: a rank has one core,
and Gloo's event loop would otherwise delay its own sender.

Not used: torch.compile, which would compare a compiler with eager execution; and another malloc, which would help both sides.

Models that learn by acting also act here, in environments with the same equations and the same random numbers, and
the cost of acting is part of a step on both sides.

Dropout and random samples are on. They come from torch's generator, seeded as in torch-worker before its first step,
and both sides draw in the same order, so that they draw the same numbers and the losses can be compared.
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

import torch
from data_parallel import fully_sharded, shared
from models import build
from models.reference import Gradients, Update
from optimizers import build_divided_optimizer, build_optimizer
from plan import Plan
from safetensors_file import read
from torch import distributed
from wyrand import training_seed


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
    parser.add_argument("--cut", type=int, help="links of the first stage of a pipeline of two")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = True

    if arguments.ranks > 1:
        store = distributed.FileStore(str(arguments.rendezvous), arguments.ranks)
        # Threads of Gloo that wake up wait for the core, as in torch-worker (see shim/collective.cpp).
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        distributed.init_process_group("gloo", store=store, rank=arguments.rank, world_size=arguments.ranks)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    for line in train(arguments):
        print(json.dumps(line))
    if arguments.ranks > 1:
        # Optimizers and models hold the group. Threads of Gloo that live on when Python ends would abort it.
        gc.collect()
        distributed.destroy_process_group()


def train(arguments: argparse.Namespace) -> list[dict]:
    """The lines of all steps."""
    spec = json.loads(arguments.spec.read_text())
    training = spec["program"]["training"]
    workload, device = training["workload"], torch.device(arguments.device)

    model = build(workload["model"])
    load_weights(model, read(arguments.weights))
    model = model.to(device=device, memory_format=torch.channels_last).train()
    plan = Plan.parse(training["plan"])
    alone = len(model.updates()) == 1
    execution = Execution(plan, arguments.rank, arguments.cut, workload["optimizer"], alone)
    updates = [execution.of(update) for update in model.updates()]
    batches = read_batches(arguments.data, device)
    experience = model.experience(spec["seed"], training["global_batch"])
    torch.manual_seed(training_seed(spec["seed"], plan.data_rank(arguments.rank)))

    def step(index: int) -> torch.Tensor | None:
        """The loss of the first update, which for a GAN is the discriminator's, if this rank has it."""
        inputs, targets = batches[index % len(batches)] if experience is None else next(experience)
        losses = []
        for update, gradients, optimizer in updates:
            if not update.is_due():
                continue
            losses.append(gradients(inputs, targets))
            if update.gradient_norm_max is not None:
                torch.nn.utils.clip_grad_norm_(update.part.parameters(), update.gradient_norm_max)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            update.after()
        return losses[0]

    timed = steps_on_gpu if device.type == "cuda" else steps_on_cpu
    # As torch-worker: a rank without a loss is one whose samples another rank counts.
    return [
        {"index": index, "dur_ns": dur_ns, **({"samples": 0} if loss is None else {"loss": loss})}
        for index, (dur_ns, loss) in enumerate(timed(step, arguments.steps))
    ]


class Execution(NamedTuple):
    """How this rank makes an update."""

    plan: Plan
    rank: int
    cut: int | None
    """Links of the first stage of a pipeline."""

    optimizer: dict
    alone: bool
    """A step has no other update."""

    def of(self, update: Update) -> tuple[Update, Gradients, torch.optim.Optimizer]:
        """The update with what this rank has of it, its gradients, and the optimizer of this rank's parameters."""
        plan = self.plan
        if plan.pp > 1:
            from pipeline import pipelined

            update, gradients = pipelined(update, plan.ga, self.cut, self.rank)
            return update, gradients, build_optimizer([list(update.part.parameters())], self.optimizer)
        if plan.tp > 1:
            from tensor_parallel import divided, groups

            gradients = divided(update, self.gradients(update))
            return update, gradients, build_optimizer(groups(update.part), self.optimizer)
        if plan.zero == 3:
            update = fully_sharded(update)
        elif plan.dp > 1:
            update = shared(update)
        # Asked for only now, because ZeRO-3 has put parts of the parameters in their place.
        parameters = list(update.part.parameters())
        if plan.zero == 1:
            return update, self.gradients(update), build_divided_optimizer(parameters, self.optimizer)
        return update, self.gradients(update), build_optimizer([parameters], self.optimizer)

    def gradients(self, update: Update) -> Gradients:
        """Those of the loss as a whole, in one pass forward and one backward."""

        def gradients(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.plan.bf16):
                loss = update.loss(inputs, targets)
            # With several updates, each differentiates only its own part. With one, naming the part would cost time.
            loss.backward(inputs=None if self.alone else list(update.part.parameters()))
            return loss.detach()

        return gradients


def steps_on_cpu(step, count: int) -> list[tuple[int, float | None]]:
    """The duration and the loss of each step."""
    made = []
    for index in range(count):
        begin_ns = time.perf_counter_ns()
        loss = step(index)
        loss = None if loss is None else loss.item()
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
