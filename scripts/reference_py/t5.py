"""Exports a small T5ForConditionalGeneration of Hugging Face's transformers."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

from export import export, scatter

# The source is so long that every bucket of distances is used.
VOCABULARY, SOURCE, TARGET, SAMPLES = 128, 160, 40, 2

torch.manual_seed(0)
model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=VOCABULARY,
        d_model=16,
        d_kv=6,
        d_ff=40,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
)
scatter(model, 0.1, torch.Generator().manual_seed(1))
source = torch.randint(2, VOCABULARY, (SAMPLES, SOURCE))
target = torch.randint(2, VOCABULARY, (SAMPLES, TARGET))
before = torch.cat([torch.zeros(SAMPLES, 1, dtype=torch.long), target[:, :-1]], 1)
inputs = torch.cat([source, before], 1)
export("t5", model, inputs, target, lambda: model(input_ids=source, labels=target).loss)
