"""Trains a small language model by PyTorch's DistributedDataParallel: the reference for programs that a catalog defines.

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
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

VOCABULARY, CONTEXT, WIDTH, LAYERS = 256, 64, 128, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.rest = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, x):
        normal = self.attention_norm(x)
        x = x + self.attention(normal, normal, normal, attn_mask=self.mask, need_weights=False)[0]
        return x + self.rest(self.norm(x))


class LanguageModel(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)


def samples(seed, step, batch):
    """The tokens of a global batch, and the tokens that follow them."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    text = torch.randint(0, VOCABULARY, (batch, CONTEXT + 1), generator=generator)
    return text[:, :-1], text[:, 1:]


def save(folder, step, model, optimizer):
    """Writes a checkpoint that every plan can load. A reader finds the previous checkpoint or this one, never a part."""
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer.consolidate_state_dict()
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        states = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({"step": step, **states}, folder / "new.pt")
        os.replace(folder / "new.pt", folder / "last.pt")
        print(f"saved checkpoint at step {step}", flush=True)


def load(file, model, optimizer):
    """Returns the number of steps that the checkpoint holds."""
    states = torch.load(file, map_location="cpu")
    model.module.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    return states["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a rank in one pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes before a step of the optimizer")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--recompute", action="store_true", help="compute activations again in the backward pass")
    parser.add_argument("--zero", type=int, choices=[0, 1], default=0, help="divide the state of the optimizer")
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
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(options.seed)
    model = DistributedDataParallel(LanguageModel(options.recompute).to(device))
    if options.zero:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    last = options.checkpoints / "last.pt" if options.resume else None
    first = load(last, model, optimizer) if last and last.exists() else 0
    passes = ranks * options.accumulate
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=options.dtype == "bfloat16")
    for step in range(first, options.steps):
        tokens, targets = (part.chunk(passes) for part in samples(options.seed, step, passes * options.micro_batch))
        report = torch.zeros(2, device=device)
        for number in range(options.accumulate):
            part = rank * options.accumulate + number
            model.require_backward_grad_sync = number + 1 == options.accumulate
            with autocast:
                logits = model(tokens[part].to(device))
                loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets[part].to(device).flatten())
            (loss / options.accumulate).backward()
            report[0] += loss.detach() / passes
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
