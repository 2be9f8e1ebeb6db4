"""A process that was moved off its device is brought back on every path, with a driver that fails on demand."""

import sys
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
import probe_checkpoint  # noqa: E402
from probes import NotPossible  # noqa: E402

RUNNING, LOCKED, CHECKPOINTED = probe_checkpoint.RUNNING, probe_checkpoint.LOCKED, probe_checkpoint.CHECKPOINTED
CHANGES = {
    "Lock": (RUNNING, LOCKED),
    "Checkpoint": (LOCKED, CHECKPOINTED),
    "Restore": (CHECKPOINTED, LOCKED),
    "Unlock": (LOCKED, RUNNING),
}
PID = 4242


class Cuda:
    """libcuda as far as the probe calls it: the state of one process."""

    def __init__(self, fails_once: str | None):
        self.state, self.fails_once, self.calls = RUNNING, fails_once, []
        for call in CHANGES:
            setattr(self, f"cuCheckpointProcess{call}", lambda pid, arguments, call=call: self._change(call))

    def _change(self, call: str) -> int:
        self.calls.append(call)
        before, after = CHANGES[call]
        if call == self.fails_once or self.state != before:
            self.fails_once = None
            return 999
        self.state = after
        return 0

    def cuInit(self, flags) -> int:
        return 0

    def cuGetErrorName(self, code, text) -> int:
        text._obj.value = b"CUDA_ERROR_UNKNOWN"
        return 0

    def cuCheckpointProcessGetState(self, pid, state) -> int:
        state._obj.value = self.state
        return 0


class CheckpointTest(unittest.TestCase):
    def there_and_back(self, cuda: Cuda) -> None:
        """The calls of the probe, with a fake child."""
        with mock.patch.object(probe_checkpoint.ctypes, "CDLL", return_value=cuda):
            driver = probe_checkpoint.Driver()
        child = mock.Mock(pid=PID, stdout=mock.Mock(readline=lambda: '{"sum": 1}'))
        self.told = []
        with (
            mock.patch.object(probe_checkpoint.subprocess, "Popen", return_value=child),
            mock.patch.object(probe_checkpoint, "tell", lambda question, answer, **numbers: self.told.append(answer)),
        ):
            probe_checkpoint.there_and_back(driver, "cpu:0", 0)

    def test_a_process_goes_and_comes_back(self):
        cuda = Cuda(None)
        self.there_and_back(cuda)
        self.assertEqual(cuda.calls, ["Lock", "Checkpoint", "Restore", "Unlock"])
        self.assertIn("it is running again and holds what it held", self.told[0])

    def test_whatever_fails_the_process_runs_again(self):
        for call in CHANGES:
            with self.subTest(call):
                cuda = Cuda(call)
                with self.assertRaisesRegex(NotPossible, f"cuCheckpointProcess{call}: CUDA_ERROR_UNKNOWN"):
                    self.there_and_back(cuda)
                self.assertEqual(cuda.state, RUNNING)
                self.assertEqual(self.told, [])


if __name__ == "__main__":
    unittest.main()
