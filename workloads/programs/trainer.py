"""Trains a small GPT-2 by the `Trainer` of Hugging Face's transformers, under torchrun.

All plans of a global batch train on the same samples in the same order, so that their losses agree. Only rank 0
prints: the loss of each step, a mean over the global batch. SIGUSR1 to all ranks lets them write a checkpoint at the
end of their step, from which `--resume` goes on under any plan.
"""

import argparse
import shutil
import signal
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments

VOCABULARY, CONTEXT, WIDTH, LAYERS = 256, 64, 128, 4


class Text(Dataset):
    """Random tokens, which are drawn when they are needed."""

    def __init__(self, seed, samples):
        self.seed, self.samples = seed, samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        tokens = torch.randint(0, VOCABULARY, (CONTEXT,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


class Progress(TrainerCallback):
    """Prints the loss of each step, and asks for a checkpoint when a rank has received SIGUSR1."""

    def __init__(self, folder):
        self.folder, self.requests = folder, []
        signal.signal(signal.SIGUSR1, lambda *_: self.requests.append(True))

    def on_step_end(self, args, state, control, **_):
        requests = torch.tensor(len(self.requests), device=args.device)
        if dist.is_initialized():
            dist.all_reduce(requests)
        control.should_save = requests.item() > 0 and self.folder is not None

    def on_log(self, args, state, control, logs, **_):
        # A checkpoint would hold the losses of all steps.
        state.log_history.clear()
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step - 1} loss {logs['loss']:.6f}", flush=True)

    def on_save(self, args, state, control, **_):
        if dist.is_initialized():
            dist.barrier()
        if state.is_world_process_zero:
            put_in_place(Path(args.output_dir) / f"checkpoint-{state.global_step}", self.folder)
            print(f"saved checkpoint at step {state.global_step}", flush=True)
        self.requests.clear()


def put_in_place(checkpoint, folder):
    """A folder cannot replace another one at once, so that `previous` is the last checkpoint for a moment."""
    shutil.rmtree(folder / "previous", ignore_errors=True)
    if (folder / "last").exists():
        (folder / "last").rename(folder / "previous")
    checkpoint.rename(folder / "last")
    shutil.rmtree(folder / "previous", ignore_errors=True)


def last_checkpoint(folder):
    return next((str(folder / name) for name in ("last", "previous") if (folder / name).exists()), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16, help="samples of all ranks in one step")
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a rank in one pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes before a step of the optimizer")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--recompute", action="store_true", help="compute activations again in the backward pass")
    parser.add_argument("--checkpoints", metavar="DIR", type=Path, help="the folder of the checkpoint")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.resume and options.checkpoints is None:
        parser.error("--resume needs --checkpoints")

    progress = Progress(options.checkpoints)
    on_gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(options.checkpoints / "new" if options.checkpoints else tempfile.gettempdir()),
        per_device_train_batch_size=options.micro_batch,
        gradient_accumulation_steps=options.accumulate,
        bf16=options.dtype == "bfloat16",
        gradient_checkpointing=options.recompute,
        max_steps=options.steps,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        train_sampling_strategy="sequential",
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not on_gpu,
        ddp_backend="nccl" if on_gpu else "gloo",
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=on_gpu,
        seed=options.seed,
    )
    torch.manual_seed(options.seed)
    sizes = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 4}
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
    text = Text(options.seed, options.steps * options.batch)
    trainer = Trainer(model, arguments, train_dataset=text, callbacks=[progress])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=last_checkpoint(options.checkpoints) if options.resume else None)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
