"""A causal transformer in the style of nanoGPT: gradient accumulation, clipping, a learning rate schedule, evaluations."""

import argparse
import math
from contextlib import nullcontext

import own_clock
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, TOKENS, WIDTH, HEADS, BATCH = 256, 64, 128, 4, 8
STEPS, MICRO_STEPS, EVALUATE_EVERY, EVALUATIONS, WARM_UP = 60, 2, 20, 5, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        heads = (part.view(BATCH, TOKENS, HEADS, -1).transpose(1, 2) for part in self.attention(self.norm_1(x)).chunk(3, 2))
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, x, y):
        logits = self.head(self.blocks(self.tokens(x) + self.positions(torch.arange(TOKENS))))
        return F.cross_entropy(logits.view(-1, VOCABULARY), y.reshape(-1))


def get_batch(text):
    begins = torch.randint(len(text) - TOKENS, (BATCH,))
    return tuple(torch.stack([text[i + shift : i + shift + TOKENS] for i in begins.tolist()]) for shift in (0, 1))


@torch.no_grad()
def estimate_loss(model, text) -> float:
    model.eval()
    losses = [model(*get_batch(text)).item() for _ in range(EVALUATIONS)]
    model.train()
    return sum(losses) / EVALUATIONS


def learning_rate(step: int) -> float:
    if step < WARM_UP:
        return 1e-3 * (step + 1) / WARM_UP
    return 1e-4 + 4.5e-4 * (1 + math.cos(math.pi * (step - WARM_UP) / (STEPS - WARM_UP)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    arguments = parser.parse_args()

    torch.manual_seed(1337)
    text = torch.randint(VOCABULARY, (10_000,))
    model = GPT()
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    context = torch.autocast("cpu", torch.bfloat16) if arguments.bf16 else nullcontext()
    if arguments.compile:
        model = torch.compile(model)

    own_clock.training_begins()
    x, y = get_batch(text)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        if step % EVALUATE_EVERY == 0:
            print(f"step {step}: validation loss {estimate_loss(model, text):.4f}")
        for _ in range(MICRO_STEPS):
            with context:
                loss = model(x, y) / MICRO_STEPS
            x, y = get_batch(text)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        own_clock.step_ends(loss.item() * MICRO_STEPS)


if __name__ == "__main__":
    main()
