"""Exports a small T5ForConditionalGeneration of Hugging Face's transformers, one batch, its loss and its gradients.

Needs torch and transformers; run it only to change the sizes, as its output is kept in the repository.
"""

import torch
from transformers import T5Config, T5ForConditionalGeneration

import reference_file

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
reference_file.scatter(model)
source = torch.randint(2, VOCABULARY, (SAMPLES, SOURCE))
target = torch.randint(2, VOCABULARY, (SAMPLES, TARGET))
output = model(input_ids=source, labels=target)
before = torch.cat([torch.zeros(SAMPLES, 1, dtype=torch.long), target[:, :-1]], 1)
reference_file.write("t5", model, torch.cat([source, before], 1), target, output.loss)
