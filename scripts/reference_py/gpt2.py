"""Exports a small GPT2LMHeadModel of Hugging Face's transformers."""

import torch
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from export import export, scatter

torch.manual_seed(1)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=64,
        n_positions=16,
        n_embd=32,
        n_layer=2,
        n_head=4,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
    )
)
model.train()
# So far that attention is not nearly even, either.
scatter(model, 0.2)
inputs, targets = torch.randint(64, (2, 16)), torch.randint(64, (2, 16))
# The output layer shares its weight with the token embedding, and so stands there.
export(
    "gpt2",
    model.transformer,
    inputs,
    targets,
    lambda: cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten()),
    {f"{name}.weight" for name, module in model.transformer.named_modules() if isinstance(module, Conv1D)},
)
