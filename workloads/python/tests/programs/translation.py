"""An encoder and a decoder with an optimizer each, in the style of PyTorch's tutorial on sequence to sequence translation."""

import own_clock
import torch
from torch import nn

VOCABULARY, WIDTH, BATCH, WORDS = 500, 128, 32, 10


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(VOCABULARY, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, words):
        return self.gru(self.embedding(words))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(VOCABULARY, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words, hidden):
        outputs, _ = self.gru(self.embedding(words), hidden)
        return self.out(outputs)


def main() -> None:
    torch.manual_seed(0)
    encoder, decoder = Encoder(), Decoder()
    encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=0.001)
    decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=0.001)
    own_clock.training_begins()
    for _ in range(60):
        source, target = torch.randint(VOCABULARY, (2, BATCH, WORDS))
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        _, hidden = encoder(source)
        loss = nn.functional.cross_entropy(decoder(target, hidden).flatten(0, 1), target.flatten())
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        own_clock.step_ends(loss.item())


if __name__ == "__main__":
    main()
