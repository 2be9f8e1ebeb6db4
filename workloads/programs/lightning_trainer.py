"""Trains a small language model by the `Trainer` of Lightning with its strategy `ddp`, under torchrun.

All plans of a global batch train on the same samples in the same order, so that their losses agree. Only rank 0
prints: the loss of each step, a mean over the global batch. SIGTERM to all ranks lets them write a checkpoint at the
end of their step and end; `--resume` goes on from it under any plan. A file named `lightning.py` would hide Lightning.
"""

import argparse
import os
import signal
from pathlib import Path

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, CONTEXT, WIDTH, LAYERS = 256, 64, 128, 4


class Text(Dataset):
    """Random tokens, which are drawn when they are needed."""

    def __init__(self, seed):
        self.seed = seed

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        return torch.randint(0, VOCABULARY, (CONTEXT + 1,), generator=generator)


class LanguageModel(lightning.LightningModule):
    def __init__(self, options):
        super().__init__()
        self.options, self.first_step = options, 0
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        sizes = {"d_model": WIDTH, "nhead": 4, "dim_feedforward": 4 * WIDTH, "dropout": 0.0, "activation": "gelu"}
        layers = (nn.TransformerEncoderLayer(**sizes, batch_first=True, norm_first=True) for _ in range(LAYERS))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def training_step(self, text, index):
        x = self.tokens(text[:, :-1]) + self.places.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), text[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def train_dataloader(self):
        """The samples of this rank from the first step on: each rank has its share of each global batch."""
        ranks, micro_batch = self.trainer.world_size, self.options.micro_batch
        batch = ranks * micro_batch * self.options.accumulate
        samples = range(self.first_step * batch + self.global_rank, self.options.steps * batch, ranks)
        return DataLoader(Text(self.options.seed), micro_batch, sampler=samples)

    def on_load_checkpoint(self, checkpoint):
        """The loader begins with the step of the checkpoint, so that the training begins an epoch there."""
        self.first_step = checkpoint["global_step"]
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        for counts in (progress["total"], progress["current"]):
            counts.update(dict.fromkeys(counts, 0))


class Progress(lightning.Callback):
    """Prints the loss of each step. After SIGTERM, it writes a checkpoint and ends the training."""

    def __init__(self, folder):
        self.folder, self.is_ending, self.losses = folder, False, []

    def on_train_start(self, trainer, model):
        # Lightning's own handler begins a broadcast wherever its rank is, also between two parts of another collective.
        signal.signal(signal.SIGTERM, self.on_signal)
        self.step = trainer.global_step

    def on_signal(self, number, frame):
        self.is_ending = True

    def on_train_batch_end(self, trainer, model, outputs, batch, index):
        self.losses.append(outputs["loss"].detach())
        if trainer.global_step == self.step:
            return
        self.step = trainer.global_step
        loss = torch.stack(self.losses).sum() / trainer.world_size
        self.losses.clear()
        both = torch.stack([loss, torch.full_like(loss, self.is_ending)])
        loss, endings = trainer.strategy.reduce(both, reduce_op="sum").tolist()
        if trainer.is_global_zero:
            print(f"step {self.step - 1} loss {loss:.6f}", flush=True)
        if endings > 0:
            trainer.should_stop = True
            if self.folder is not None:
                self.save(trainer)

    def save(self, trainer):
        trainer.save_checkpoint(self.folder / "new.pt")
        if trainer.is_global_zero:
            os.replace(self.folder / "new.pt", self.folder / "last.pt")
            print(f"saved checkpoint at step {self.step}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a rank in one pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes before a step of the optimizer")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--checkpoints", metavar="DIR", type=Path, help="the folder of the checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.resume and options.checkpoints is None:
        parser.error("--resume needs --checkpoints")

    torch.manual_seed(options.seed)
    trainer = lightning.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        precision="bf16-mixed" if options.dtype == "bfloat16" else "32-true",
        accumulate_grad_batches=options.accumulate,
        max_steps=options.steps,
        max_epochs=-1,
        use_distributed_sampler=False,
        callbacks=[Progress(options.checkpoints)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = options.checkpoints / "last.pt" if options.resume else None
    trainer.fit(LanguageModel(options), ckpt_path=last if last and last.exists() else None)


if __name__ == "__main__":
    main()
