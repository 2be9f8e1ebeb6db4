"""Records the operators of some steps with PyTorch's own profiler, in a launch that a harness starts for this and does not measure."""

import os
import sys
import warnings

from tandem_hook.event_file import path_of_rank

ENDING = ".operators.json"


class Recording:
    """The steps `first` to `first + count - 1`, whose trace PyTorch writes to `path` before the last of them is reported."""

    def __init__(self, first: int, count: int, path: str):
        self._first, self._end, self._path = first, first + count, path
        self._profiler = None
        self._is_over = False

    @classmethod
    def requested(cls, rank: int):
        """The recording that the environment asks for; None if it asks for none."""
        request = os.environ.get("TANDEM_OPERATORS")
        if not request:
            return None
        first, count = map(int, request.split(":"))
        return cls(first, count, path_of_rank(os.environ["TANDEM_EVENTS"], rank)[: -len(".jsonl")] + ENDING)

    def after(self, steps: int, device) -> None:
        """Begins or ends the recording, if it is time, when the program has taken this number of steps. `device` is a GPU or None."""
        if self._is_over:
            return
        if self._profiler is None and steps >= self._first:
            self._begin(device)
        elif self._profiler is not None and steps >= self._end:
            self._is_over = True
            self._write(device)

    def end(self) -> None:
        """Ends a recording that the program does not complete. PyTorch crashes if it is in progress when the process ends."""
        if self._profiler is not None and not self._is_over:
            self._is_over = True
            self._profiler.stop()

    def _begin(self, device) -> None:
        torch = sys.modules["torch"]
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device is not None:
            torch.cuda.synchronize(device)
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        # A recording that cannot begin is not tried again.
        self._is_over = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profiler = torch.profiler.profile(activities=activities)
            profiler.start()
        self._profiler, self._is_over = profiler, False

    def _write(self, device) -> None:
        if device is not None:
            sys.modules["torch"].cuda.synchronize(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._profiler.stop()
            self._profiler.export_chrome_trace(self._path)
