"""Trains a small language model by DeepSpeed, with ZeRO and the state of the optimizer in host memory, under torchrun.

All plans of a global batch train on the same samples in the same order, so that their losses agree. Only rank 0
prints: the loss of each step, a mean over the global batch. SIGUSR1 to all ranks lets them write a checkpoint at the
end of their step, from which `--resume` goes on under any plan. A file named `deepspeed.py` would hide DeepSpeed.
"""

import argparse
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")
import deepspeed  # noqa: E402, it reads the variable
from deepspeed import utils  # noqa: E402

VOCABULARY, CONTEXT, WIDTH, LAYERS = 256, 64, 128, 4
MOMENTS = ("exp_avg", "exp_avg_sq")


class LanguageModel(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.recompute = recompute
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        sizes = {"d_model": WIDTH, "nhead": 4, "dim_feedforward": 4 * WIDTH, "dropout": 0.0, "activation": "gelu"}
        layers = (nn.TransformerEncoderLayer(**sizes, batch_first=True, norm_first=True) for _ in range(LAYERS))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(CONTEXT, device=tokens.device))
        for layer in self.layers:
            x = checkpoint(layer, x, self.mask, use_reentrant=False) if self.recompute else layer(x, self.mask)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())


def samples(seed, step, batch):
    """The tokens of a global batch, and the tokens that follow them."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    text = torch.randint(0, VOCABULARY, (batch, CONTEXT + 1), generator=generator)
    return text[:, :-1], text[:, 1:]


def settings(options):
    """Without ZeRO there is no offload, so that it is used for that. bf16 is autocast, as in the plans of workloads."""
    zero = {"stage": options.zero or int(options.offload)}
    if options.offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": options.micro_batch,
        "gradient_accumulation_steps": options.accumulate,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "torch_autocast": {"enabled": options.dtype == "bfloat16", "dtype": "bfloat16"},
    }


def save(folder, step, engine):
    """Writes a checkpoint that every plan can load. A reader finds the previous checkpoint or this one, never a part."""
    weights, moments = {}, {}
    for name, parameter in engine.module.named_parameters():
        if engine.zero_optimization():
            weights[name] = utils.safe_get_full_fp32_param(parameter).detach().cpu()
            whole = {key: utils.safe_get_full_optimizer_state(parameter, key).cpu() for key in MOMENTS}
        else:
            weights[name] = parameter.detach().cpu()
            whole = {key: engine.optimizer.state[parameter][key].cpu() for key in MOMENTS}
        moments[name] = {key: value.view_as(weights[name]) for key, value in whole.items()}
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save({"step": step, "model": weights, "moments": moments}, folder / "new.pt")
        os.replace(folder / "new.pt", folder / "last.pt")
        print(f"saved checkpoint at step {step}", flush=True)


def load_optimizer(states, engine):
    """The optimizer makes its state in its first step, which has not been taken."""
    zero, stage = engine.optimizer, engine.zero_optimization_stage()
    of_stage = {0: [], 3: getattr(zero, "fp32_partitioned_groups_flat", [])}
    for part in of_stage.get(stage, getattr(zero, "single_partition_of_fp32_groups", [])):
        zeros = {key: torch.zeros_like(part) for key in MOMENTS}
        zero.optimizer.state[part] = {"step": torch.tensor(float(states["step"])), **zeros}
    if stage in (1, 2):
        zero._lazy_init_hp_params_optimizer_state()
    for name, parameter in engine.module.named_parameters():
        moments = states["moments"][name]
        if stage == 0:
            moments = {key: value.to(parameter.device) for key, value in moments.items()}
            zero.state[parameter] = {"step": torch.tensor(float(states["step"])), **moments}
            continue
        for key, value in moments.items():
            utils.safe_set_full_optimizer_state(parameter, value, key)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a rank in one pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes before a step of the optimizer")
    parser.add_argument("--zero", type=int, choices=[0, 1, 2, 3], default=0, help="what the ranks divide")
    parser.add_argument("--offload", action="store_true", help="keep the state of the optimizer in host memory")
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

    utils.logger.setLevel("WARNING")
    deepspeed.init_distributed(verbose=False)
    rank = dist.get_rank()
    torch.manual_seed(options.seed)
    model = LanguageModel(options.recompute)
    last = options.checkpoints / "last.pt" if options.resume else None
    states = torch.load(last, map_location="cpu") if last and last.exists() else None
    if states:
        model.load_state_dict(states["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=settings(options))[0]
    if states:
        load_optimizer(states, engine)
    passes = dist.get_world_size() * options.accumulate
    for step in range(states["step"] if states else 0, options.steps):
        tokens, targets = (part.chunk(passes) for part in samples(options.seed, step, passes * options.micro_batch))
        report = torch.zeros(2, device=engine.device)
        for number in range(options.accumulate):
            part = rank * options.accumulate + number
            loss = engine(tokens[part].to(engine.device), targets[part].to(engine.device))
            engine.backward(loss)
            engine.step()
            report[0] += loss.detach() / passes
        report[1] = len(requests)
        dist.all_reduce(report)
        if rank == 0:
            print(f"step {step} loss {report[0].item():.6f}", flush=True)
        if report[1].item() > 0 and options.checkpoints:
            save(options.checkpoints, step + 1, engine)
            requests.clear()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
