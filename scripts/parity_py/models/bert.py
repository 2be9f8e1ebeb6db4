"""BERT (Devlin et al., NAACL 2019) of Hugging Face's transformers."""

import torch
from transformers import BertConfig, BertForPreTraining, BertForQuestionAnswering

from .reference import Reference


class Pretraining(Reference, BertForPreTraining):
    def loss(self, tokens_and_segments: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        tokens, segments = tokens_and_segments.unbind(1)
        # A target of -100 is no masked token; the last one says whether the second sentence followed the first.
        labels, follows = targets[:, :-1].contiguous(), targets[:, -1]
        return self(tokens, token_type_ids=segments, labels=labels, next_sentence_label=follows).loss


class QuestionAnswering(Reference, BertForQuestionAnswering):
    def loss(self, tokens_and_segments: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        (tokens, segments), (begin, end) = tokens_and_segments.unbind(1), targets.unbind(1)
        return self(tokens, token_type_ids=segments, start_positions=begin, end_positions=end).loss


TASKS = {"pretraining": Pretraining, "question-answering": QuestionAnswering}


def Model(
    vocabulary: int,
    positions: int,
    context: int,
    layers: int,
    width: int,
    heads: int,
    dropout: float,
    task: str,
) -> Reference:
    config = BertConfig(
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        # Sentences fill the context, so that every token is trained.
        pad_token_id=None,
    )
    return TASKS[task](config)
