"""Exports a small VisionTransformer of torchvision."""

import torch
from torch.nn.functional import cross_entropy
from torchvision.models import VisionTransformer

from export import export, scatter

torch.manual_seed(1)
model = VisionTransformer(
    image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=5
)
scatter(model, 0.1)
inputs, targets = torch.randn(4, 3, 16, 16), torch.tensor([0, 3, 4, 1])
export("vit", model, inputs, targets, lambda: cross_entropy(model(inputs), targets))
