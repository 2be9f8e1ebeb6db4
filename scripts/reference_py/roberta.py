"""Exports a small RobertaForMaskedLM of Hugging Face's transformers."""

import torch
from transformers import RobertaConfig, RobertaForMaskedLM

from export import export, scatter

VOCABULARY, CONTEXT, SAMPLES = 64, 16, 3

torch.manual_seed(0)
model = RobertaForMaskedLM(
    RobertaConfig(
        vocab_size=VOCABULARY,
        # Two more than there are tokens, because positions start after the padding token, which is number 1.
        max_position_embeddings=CONTEXT + 2,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=4 * 32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
)
scatter(model, 0.1, torch.Generator().manual_seed(1))
tokens = torch.randint(2, VOCABULARY, (SAMPLES, CONTEXT))
labels = torch.where(torch.rand(SAMPLES, CONTEXT) < 0.3, torch.randint(2, VOCABULARY, (SAMPLES, CONTEXT)), -100)
export("roberta", model, tokens, labels, lambda: model(input_ids=tokens, labels=labels).loss)
