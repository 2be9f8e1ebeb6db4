"""Exports a small BertForPreTraining of Hugging Face's transformers."""

import torch
from transformers import BertConfig, BertForPreTraining

from export import export, scatter

VOCABULARY, CONTEXT, SAMPLES = 64, 16, 3

torch.manual_seed(0)
model = BertForPreTraining(
    BertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
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
segments = (torch.arange(CONTEXT) >= 7).long().expand(SAMPLES, -1)
labels = torch.where(torch.rand(SAMPLES, CONTEXT) < 0.3, torch.randint(2, VOCABULARY, (SAMPLES, CONTEXT)), -100)
is_other = torch.tensor([0, 1, 1])
export(
    "bert",
    model,
    torch.stack([tokens, segments], 1),
    torch.cat([labels, is_other[:, None]], 1),
    lambda: model(input_ids=tokens, token_type_ids=segments, labels=labels, next_sentence_label=is_other).loss,
)
