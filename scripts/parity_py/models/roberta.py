"""RoBERTa (Liu et al., 2019) of Hugging Face's transformers."""

import torch
from transformers import RobertaConfig, RobertaForMaskedLM

from .reference import Reference

FIRST_POSITION = 2
"""Positions start after the number of the padding token, which is 1."""


class Model(Reference, RobertaForMaskedLM):
    def __init__(
        self, vocabulary: int, positions: int, context: int, layers: int, width: int, heads: int, dropout: float
    ):
        config = RobertaConfig(
            vocab_size=vocabulary,
            max_position_embeddings=positions + FIRST_POSITION,
            type_vocab_size=1,
            layer_norm_eps=1e-5,
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            # Sentences fill the context. With a padding token each step would search them for it.
            pad_token_id=None,
        )
        super().__init__(config)
        numbers = torch.arange(FIRST_POSITION, FIRST_POSITION + context).unsqueeze(0)
        self.register_buffer("positions", numbers, persistent=False)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        # A target of -100 is no masked token.
        return self(tokens, position_ids=self.positions, labels=targets).loss
