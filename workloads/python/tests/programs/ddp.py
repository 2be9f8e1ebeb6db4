"""Data-parallel ranks that torchrun starts, in the style of the ImageNet example of pytorch/examples."""

import own_clock
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(2 * 20 * 64, 512), torch.randint(10, (2 * 20 * 64,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 64, sampler=sampler)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    own_clock.training_begins()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            own_clock.step_ends(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
