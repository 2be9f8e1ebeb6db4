"""The parts of PyTorch that the hook touches, and that a program needs to call an optimizer. They compute nothing."""

from torch import amp, autograd, cuda, distributed, optim, profiler, utils, version
from torch.utils import data

__version__ = "2.11.0+fake"


class Parameter:
    """A number of fp32 values on a device: `cpu` or `cuda:0`."""

    def __init__(self, numbers: int, device: str = "cpu", requires_grad: bool = True):
        self._numbers, self.device, self.requires_grad = numbers, device, requires_grad

    @property
    def is_cuda(self) -> bool:
        return self.device.startswith("cuda")

    def numel(self) -> int:
        return self._numbers

    def element_size(self) -> int:
        return 4


class OutOfMemoryError(RuntimeError):
    pass
