"""Weights that are updated by hand, as in word_language_model of pytorch/examples: no optimizer takes a step."""

import time

import torch
from torch import nn


def main() -> None:
    torch.manual_seed(0)
    embedding, lstm, decoder = nn.Embedding(500, 64), nn.LSTM(64, 64), nn.Linear(64, 500)
    parameters = [*embedding.parameters(), *lstm.parameters(), *decoder.parameters()]
    for batch in range(60):
        begin_s = time.monotonic()
        words = torch.randint(500, (36, 20))
        output, _ = lstm(embedding(words[:-1]))
        loss = nn.functional.cross_entropy(decoder(output).flatten(0, 1), words[1:].flatten())
        for parameter in parameters:
            parameter.grad = None
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.25)
        with torch.no_grad():
            for parameter in parameters:
                parameter.add_(parameter.grad, alpha=-20)
        print(f"| {batch:5d}/60 batches | ms/batch {(time.monotonic() - begin_s) * 1000:5.2f} | loss {loss.item():5.2f}", flush=True)


if __name__ == "__main__":
    main()
