"""Exports a small LlamaForCausalLM of Hugging Face's transformers."""

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from export import export, scatter

torch.manual_seed(1)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        rms_norm_eps=1e-5,
    )
)
model.train()
# So far that attention is not nearly even, either.
scatter(model, 0.2)
inputs, targets = torch.randint(64, (2, 16)), torch.randint(64, (2, 16))


def loss():
    return cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())


export("llama", model, inputs, targets, loss)
