"""Trains a small BERT with the Trainer of Hugging Face's transformers, and prints a JSON line per step: its duration.

    python3 bert_transformers.py [--steps 100] [--batch 4] [--accumulate 2] [--tokens 64] [--cpu]

Needs torch, transformers and accelerate. A step accumulates the gradients of its micro-batches. The
program is independent of Tandem, whose measurements are compared with its output.
"""

import argparse
import json
import tempfile
import time

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments


class Sentences(Dataset):
    """Random tokens, for any index."""

    def __init__(self, count: int, tokens: int, vocabulary: int):
        self.tokens = torch.randint(vocabulary, (count, tokens), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


class StepTimes(TrainerCallback):
    """Times every step. The first one begins with the training."""

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self.begin_ns = now_ns(args.device)

    def on_step_end(self, args, state, control, **kwargs) -> None:
        end_ns = now_ns(args.device)
        print(json.dumps({"step": state.global_step - 1, "ns": end_ns - self.begin_ns}), flush=True)
        self.begin_ns = end_ns


def now_ns(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter_ns()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches of a step")
    parser.add_argument("--tokens", type=int, default=64, help="of a sentence")
    parser.add_argument("--cpu", action="store_true", help="where there is a GPU, too")
    arguments = parser.parse_args()

    config = BertConfig(
        vocab_size=8192,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=max(64, arguments.tokens),
    )
    sentences = Sentences(arguments.steps * arguments.batch * arguments.accumulate, arguments.tokens, config.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=arguments.steps,
            per_device_train_batch_size=arguments.batch,
            gradient_accumulation_steps=arguments.accumulate,
            use_cpu=arguments.cpu,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        Trainer(BertForMaskedLM(config), settings, train_dataset=sentences, callbacks=[StepTimes()]).train()


if __name__ == "__main__":
    main()
