"""PointNet (Qi et al., CVPR 2017) for classification, as in fxia22/pointnet.pytorch."""

import torch
from torch import nn
from torch.nn import functional as F

from .reference import Reference


class Cloud(nn.Module):
    """Layers that see one point each and, in a subclass, layers that see the whole cloud."""

    def __init__(self, inputs: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(inputs, 64, 1), nn.BatchNorm1d(64)
        self.conv2, self.bn2 = nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128)
        self.conv3, self.bn3 = nn.Conv1d(128, 1024, 1), nn.BatchNorm1d(1024)


class Transform(Cloud):
    """Finds a square matrix for each cloud, near the identity at first."""

    def __init__(self, width: int):
        super().__init__(width)
        self.fc1, self.bn4 = nn.Linear(1024, 512), nn.BatchNorm1d(512)
        self.fc2, self.bn5 = nn.Linear(512, 256), nn.BatchNorm1d(256)
        self.fc3 = nn.Linear(256, width * width)
        self.width = width

    def forward(self, points):
        x = F.relu(self.bn1(self.conv1(points)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        x = F.relu(self.bn3(self.conv3(x)), inplace=True).max(2).values
        x = F.relu(self.bn4(self.fc1(x)), inplace=True)
        x = F.relu(self.bn5(self.fc2(x)), inplace=True)
        return plus_diagonal(self.fc3(x).float().view(-1, self.width, self.width), 1.0)


def plus_diagonal(matrices: torch.Tensor, number: float) -> torch.Tensor:
    matrices.diagonal(dim1=1, dim2=2).add_(number)
    return matrices


def turn(points: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    return torch.bmm(points.transpose(1, 2), matrices).transpose(1, 2)


class Features(Cloud):
    """The features of a cloud, and the matrices of its feature transform, if any."""

    def __init__(self, feature_transform: bool):
        super().__init__(3)
        self.stn = Transform(3)
        self.fstn = Transform(64) if feature_transform else None

    def forward(self, points):
        x = F.relu(self.bn1(self.conv1(turn(points, self.stn(points)))), inplace=True)
        matrices = None if self.fstn is None else self.fstn(x)
        if matrices is not None:
            x = turn(x, matrices)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        return self.bn3(self.conv3(x)).max(2).values, matrices


class Model(Reference):
    def __init__(self, points: int, classes: int, feature_transform: bool, dropout: float):
        super().__init__()
        self.feat = Features(feature_transform)
        self.fc1, self.bn1 = nn.Linear(1024, 512), nn.BatchNorm1d(512)
        self.fc2, self.bn2 = nn.Linear(512, 256), nn.BatchNorm1d(256)
        self.fc3 = nn.Linear(256, classes)
        self.dropout = nn.Dropout(dropout)

    def loss(self, points: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        seen, matrices = self.feat(points)
        x = F.relu(self.bn1(self.fc1(seen)), inplace=True)
        x = F.relu(self.bn2(self.dropout(self.fc2(x))), inplace=True)
        loss = F.cross_entropy(self.fc3(x), classes)
        if matrices is None:
            return loss
        apart = plus_diagonal(torch.bmm(matrices, matrices.transpose(1, 2)).float(), -1.0)
        return loss + 0.001 * torch.linalg.matrix_norm(apart).mean()
