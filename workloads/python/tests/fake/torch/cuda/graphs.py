import torch


class CUDAGraph:
    """Five milliseconds of work for any capture."""

    def capture_begin(self) -> None:
        torch.cuda.capturing = True

    def capture_end(self) -> None:
        torch.cuda.capturing = False

    def replay(self) -> None:
        torch.cuda.work(0.005)
