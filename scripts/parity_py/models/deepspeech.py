"""Deep Speech 2 (Amodei et al., ICML 2016), as in SeanNaren/deepspeech.pytorch: time is the first dimension."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class EachMoment(nn.Module):
    """Runs a module on `[time * samples, ..]`."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class Recurrent(nn.Module):
    """An LSTM both ways whose two outputs are added."""

    def __init__(self, inputs: int, width: int, normalised: bool):
        super().__init__()
        self.batch_norm = EachMoment(nn.BatchNorm1d(inputs)) if normalised else None
        self.rnn = nn.LSTM(inputs, width, bidirectional=True)

    def forward(self, x):
        states, _ = self.rnn(x if self.batch_norm is None else self.batch_norm(x))
        return states.unflatten(2, (2, -1)).sum(2)


class Model(Reference):
    def __init__(
        self, frequencies: int, frames: int, alphabet: int, letters: int, channels: int, layers: int, width: int
    ):
        super().__init__()
        convolutions = nn.Sequential(
            nn.Conv2d(1, channels, (41, 11), (2, 2), (20, 5)),
            nn.BatchNorm2d(channels),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(channels, channels, (21, 11), (2, 1), (10, 5)),
            nn.BatchNorm2d(channels),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.conv = nn.Sequential(OrderedDict(seq_module=convolutions))
        inputs = [(frequencies + 3) // 4 * channels] + [width] * (layers - 1)
        self.rnns = nn.Sequential(*(Recurrent(size, width, index > 0) for index, size in enumerate(inputs)))
        head = nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, alphabet, bias=False))
        self.fc = nn.Sequential(EachMoment(head))

    def loss(self, spectrograms: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
        moments = self.conv(spectrograms).permute(3, 0, 1, 2).flatten(2)
        logits = self.fc(self.rnns(moments))
        time, samples, _ = logits.shape
        log_probabilities = logits.log_softmax(-1, dtype=torch.float32)
        # All samples are as long as the tensors; lengths on the host spare a GPU a wait.
        return F.ctc_loss(log_probabilities, letters, [time] * samples, [letters.shape[1]] * samples)
