"""The program that keeps a GPU busy, with a driver that counts its kernels."""

import contextlib
import io
import json
import signal
import sys
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
import spin  # noqa: E402

FREE, TOTAL = 3 << 30, 4 << 30


class Cuda:
    """The functions of libcuda that the program calls. A kernel takes a millisecond, and the clock stands still otherwise."""

    def __init__(self, last: int, event=None):
        self.now_s, self.allocated, self.in_flight, self.last, self.event = 100.0, 0, [], last, event
        for call in ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadData"):
            setattr(self, call, lambda *arguments: 0)

    def monotonic(self) -> float:
        return self.now_s

    def cuDeviceGetAttribute(self, number, attribute, device) -> int:
        number._obj.value = {16: 132}[attribute.value]
        return 0

    def cuMemGetInfo_v2(self, free, total) -> int:
        free._obj.value, total._obj.value = FREE, TOTAL
        return 0

    def cuMemAlloc_v2(self, address, size) -> int:
        if self.allocated + size.value > FREE:
            return 2
        self.allocated += size.value
        return 0

    def cuModuleGetFunction(self, function, module, name) -> int:
        function._obj.value = {b"spin": 1, b"fault": 2}[name.value]
        return 0

    def cuLaunchKernel(self, function, *shape) -> int:
        self.in_flight.append(function.value)
        return 0

    def cuCtxSynchronize(self) -> int:
        kernels, self.in_flight = self.in_flight, []
        self.now_s += 1e-3 * len(kernels)
        self.last -= len(kernels)
        if self.last <= 0 and self.event:
            signal.raise_signal(self.event)
        return 700 if 2 in kernels else 0

    def cuGetErrorName(self, code, text) -> int:
        text._obj.value = {2: b"CUDA_ERROR_OUT_OF_MEMORY", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS"}[code.value]
        return 0


class SpinTest(unittest.TestCase):
    def run_program(self, cuda: Cuda, *arguments: str) -> tuple[int, list[dict]]:
        handlers = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGUSR1)]
        libraries = {None: mock.Mock(), "libcuda.so.1": cuda}
        said = io.StringIO()
        try:
            with (
                mock.patch.object(spin.ctypes, "CDLL", libraries.__getitem__),
                mock.patch.object(spin, "time", cuda),
                mock.patch.object(sys, "argv", ["spin.py", *arguments]),
                contextlib.redirect_stdout(said),
            ):
                code = spin.main()
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
        libraries[None].prctl.assert_called_once()
        self.assertEqual(cuda.in_flight, [], "nothing is in flight at the end")
        return code, [json.loads(line) for line in said.getvalue().splitlines()]

    READY = {"ready_s": 0, "multiprocessors": 132, "memory_bytes": TOTAL, "free_bytes": FREE}

    def test_it_computes_for_the_given_time_and_says_its_rate(self):
        code, lines = self.run_program(Cuda(10_000), "1.2", "--allocate", "2")
        self.assertEqual((code, lines[:2]), (0, [self.READY, {"allocated_gib": 2}]))
        self.assertEqual(lines[2:], [{"rate_per_s": 1000.0}] * 2)

    def test_memory_that_it_does_not_get_is_no_error(self):
        code, lines = self.run_program(Cuda(10_000), "0.1", "--allocate", "5")
        self.assertEqual((code, lines[1]), (0, {"allocated_gib": 3, "refused": "CUDA_ERROR_OUT_OF_MEMORY"}))

    def test_sigterm_ends_it_without_an_error(self):
        code, lines = self.run_program(Cuda(100, signal.SIGTERM), "1e9")
        self.assertEqual((code, lines), (0, [self.READY]))

    def test_sigusr1_makes_it_fault(self):
        code, lines = self.run_program(Cuda(100, signal.SIGUSR1), "1e9")
        error = {"error": "CUDA_ERROR_ILLEGAL_ADDRESS", "code": 700, "call": "cuCtxSynchronize"}
        self.assertEqual((code, lines), (1, [self.READY, error]))

    def test_a_machine_without_a_driver_is_an_error(self):
        with mock.patch.object(spin.ctypes, "CDLL", side_effect=OSError("no such file")):
            with self.assertRaisesRegex(spin.Error, "libcuda.so.1: no such file"):
                spin.Driver()


if __name__ == "__main__":
    unittest.main()
