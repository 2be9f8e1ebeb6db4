"""Trains a small language model by PyTorch's FSDP2 (`fully_shard`) and its tensor parallelism, under torchrun.

All plans of a global batch train on the same samples in the same order, so that their losses agree. Only rank 0
prints: the loss of each step, a mean over the global batch. SIGUSR1 to all ranks lets them write a checkpoint at the
end of their step, from which `--resume` goes on under any plan.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

VOCABULARY, CONTEXT, WIDTH, HEAD, LAYERS = 256, 64, 128, 32, 4


class Block(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.attention_norm, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return checkpoint(self.compute, x, use_reentrant=False) if self.recompute else self.compute(x)

    def compute(self, x):
        """Of the heads, and of the width between `up` and `down`, a tensor-parallel rank has its share."""
        normal = self.attention_norm(x)
        heads = (part(normal).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.query, self.key, self.value))
        x = x + self.out(nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class LanguageModel(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(recompute) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def divided(model, options, device_type, dp):
    """The model, with its blocks divided between tensor-parallel ranks, and then as ZeRO divides it.

    Without ZeRO, and so with tensor parallelism, each data-parallel rank has all parameters.
    """
    shape = (1, dp, options.tp) if options.zero else (dp, 1, options.tp)
    mesh = init_device_mesh(device_type, shape, mesh_dim_names=("copies", "shards", "tp"))
    if options.tp > 1:
        columns, rows = dict.fromkeys(("query", "key", "value", "up")), dict.fromkeys(("out", "down"))
        for block in model.blocks:
            styles = {name: ColwiseParallel() for name in columns} | {name: RowwiseParallel() for name in rows}
            parallelize_module(block, mesh["tp"], styles)
    bf16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = bf16 if options.dtype == "bfloat16" else MixedPrecisionPolicy()
    of_ranks = mesh["shards"] if options.zero else mesh["copies", "shards"]
    for part in [*model.blocks, model]:
        fully_shard(part, mesh=of_ranks, mp_policy=policy, reshard_after_forward=options.zero == 3)
    return model


def samples(seed, step, batch):
    """The tokens of a global batch, and the tokens that follow them."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    text = torch.randint(0, VOCABULARY, (batch, CONTEXT + 1), generator=generator)
    return text[:, :-1], text[:, 1:]


def save(folder, step, model, optimizer):
    """Writes a checkpoint that every plan can load. A reader finds the previous checkpoint or this one, never a part."""
    states = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save({"step": step, "model": states[0], "optimizer": states[1]}, folder / "new.pt")
        os.replace(folder / "new.pt", folder / "last.pt")
        print(f"saved checkpoint at step {step}", flush=True)


def load(file, model, optimizer):
    """Returns the number of steps that the checkpoint holds."""
    for parameter in model.parameters():
        # PyTorch would take a step to make the state that it fills, and who counts steps would count it.
        zeros = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.tensor(0.0), **zeros}
    states = torch.load(file, map_location="cpu")
    whole = StateDictOptions(full_state_dict=True)
    parts = {"model_state_dict": states["model"], "optim_state_dict": states["optimizer"]}
    set_state_dict(model, optimizer, **parts, options=whole)
    return states["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a rank in one pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes before a step of the optimizer")
    parser.add_argument("--tp", type=int, default=1, help="ranks that divide each block")
    parser.add_argument("--zero", type=int, choices=[0, 1, 2, 3], default=0, help="what data-parallel ranks divide")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--recompute", action="store_true", help="compute activations again in the backward pass")
    parser.add_argument("--checkpoints", metavar="DIR", type=Path, help="the folder of the checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.resume and options.checkpoints is None:
        parser.error("--resume needs --checkpoints")
    requests = []
    signal.signal(signal.SIGUSR1, lambda *_: requests.append(True))

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, dp = dist.get_rank(), dist.get_world_size() // options.tp
    torch.manual_seed(options.seed)
    model = divided(LanguageModel(options.recompute).to(device), options, device.type, dp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=options.tp == 1)
    last = options.checkpoints / "last.pt" if options.resume else None
    first = load(last, model, optimizer) if last and last.exists() else 0
    passes = dp * options.accumulate
    for step in range(first, options.steps):
        tokens, targets = (part.chunk(passes) for part in samples(options.seed, step, passes * options.micro_batch))
        report = torch.zeros(2, device=device)
        for number in range(options.accumulate):
            part, is_last = rank // options.tp * options.accumulate + number, number + 1 == options.accumulate
            model.set_requires_gradient_sync(is_last or options.zero >= 2)
            model.set_reshard_after_backward(is_last or options.zero == 3)
            logits = model(tokens[part].to(device))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets[part].to(device).flatten())
            (loss / options.accumulate).backward()
            report[0] += loss.detach() / passes / options.tp
        optimizer.step()
        optimizer.zero_grad()
        report[1] = len(requests)
        dist.all_reduce(report)
        if rank == 0:
            print(f"step {step} loss {report[0].item():.6f}", flush=True)
        if report[1].item() > 0 and options.checkpoints:
            save(options.checkpoints, step + 1, model, optimizer)
            requests.clear()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
