"""Batches of inference, without training."""

import torch
from torch import nn


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, batch_first=True), 2).eval()
    for batch in range(60):
        print(f"batch {batch}: {model(torch.randn(16, 32, 64)).mean().item():.6f}", flush=True)


if __name__ == "__main__":
    main()
