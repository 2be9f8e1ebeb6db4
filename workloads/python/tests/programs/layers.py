"""Layers that are trained one after the other, each with an optimizer of its own, as in mnist_forward_forward of pytorch/examples."""

import own_clock
import torch
from torch import nn

STEPS, BATCH, WIDTHS = 30, 256, (784, 500, 500, 500)


class Layer(nn.Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.03)

    def forward(self, x):
        return torch.relu(super().forward(x / (x.norm(2, 1, keepdim=True) + 1e-4)))

    def train_alone(self, positive, negative):
        own_clock.training_begins()
        for _ in range(STEPS):
            goodness = [self(x).pow(2).mean(1) for x in (positive, negative)]
            loss = torch.log(1 + torch.exp(torch.cat([2 - goodness[0], goodness[1] - 2]))).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            own_clock.step_ends(loss.item())
        return self(positive).detach(), self(negative).detach()


def main() -> None:
    torch.manual_seed(0)
    layers = [Layer(inputs, outputs) for inputs, outputs in zip(WIDTHS, WIDTHS[1:])]
    examples = torch.randn(BATCH, WIDTHS[0]), torch.randn(BATCH, WIDTHS[0])
    for layer in layers:
        examples = layer.train_alone(*examples)


if __name__ == "__main__":
    main()
