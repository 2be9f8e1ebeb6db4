"""A program that keeps a GPU busy by calls of the driver alone: it starts within half a second, where PyTorch needs five.

    python3 spin.py SECONDS [--allocate GIB]

It allocates device memory in pieces of a GiB, and then runs kernels that occupy one multiprocessor. It prints JSON lines:
what it sees when it is ready, the memory that it got, the kernels per second every half second, and the error that ended
it. It ends with no kernel in flight after SECONDS or on SIGTERM. On SIGUSR1 it runs a kernel that stores to an invalid
address.
"""

import argparse
import ctypes
import json
import signal
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_ulonglong, c_void_p

PTX = b"""
.version 6.3
.target sm_75
.address_size 64

.visible .entry spin(.param .u64 cycles)
{
    .reg .u64 %limit, %begin, %now;
    .reg .pred %early;
    ld.param.u64 %limit, [cycles];
    mov.u64 %begin, %clock64;
again:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %early, %now, %limit;
    @%early bra again;
    ret;
}

.visible .entry fault()
{
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 16;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}
"""

CYCLES, QUEUE = 100_000, 50
"""A kernel takes about 60 us, and at most 50 of them are in flight."""

RATE_EVERY_S = 0.5
MULTIPROCESSORS = 16
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."""

PR_SET_PDEATHSIG = 1


class Error(Exception):
    def __init__(self, call: str, code: int, name: str):
        super().__init__(f"{call}: {name}")
        self.line = {"error": name, "code": code, "call": call}


class Driver:
    """The first visible GPU, by libcuda."""

    def __init__(self):
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Error("libcuda.so.1", -1, str(error)) from None
        device, context = c_int(), c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGet", byref(device), c_int(0))
        self.call("cuDevicePrimaryCtxRetain", byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self._device = device
        self._module = c_void_p()
        self.call("cuModuleLoadData", byref(self._module), c_char_p(PTX))

    def call(self, name: str, *arguments) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            text = c_char_p()
            self._cuda.cuGetErrorName(c_int(code), byref(text))
            raise Error(name, code, (text.value or b"").decode() or f"error {code}")

    def multiprocessors(self) -> int:
        number = c_int()
        self.call("cuDeviceGetAttribute", byref(number), c_int(MULTIPROCESSORS), self._device)
        return number.value

    def memory_bytes(self) -> tuple[int, int]:
        """The free memory and all memory."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> None:
        self.call("cuMemAlloc_v2", byref(c_ulonglong()), c_size_t(size))

    def kernel(self, name: bytes) -> c_void_p:
        function = c_void_p()
        self.call("cuModuleGetFunction", byref(function), self._module, c_char_p(name))
        return function

    def launch(self, function: c_void_p, *parameters: c_ulonglong) -> None:
        """One thread."""
        addresses = (c_void_p * len(parameters))(*(ctypes.addressof(parameter) for parameter in parameters))
        shape = [c_uint(1)] * 6
        self.call("cuLaunchKernel", function, *shape, c_uint(0), None, addresses, None)

    def wait(self) -> None:
        self.call("cuCtxSynchronize")


def main() -> int:
    began_s = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", type=float)
    parser.add_argument("--allocate", type=int, default=0, metavar="GIB")
    arguments = parser.parse_args()
    # The process that started this one observes it and must not leave it behind.
    ctypes.CDLL(None).prctl(c_int(PR_SET_PDEATHSIG), c_ulong(signal.SIGKILL))
    received = set()
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: received.add(number))
    try:
        driver = Driver()
        free, total = driver.memory_bytes()
        seen = {"multiprocessors": driver.multiprocessors(), "memory_bytes": total, "free_bytes": free}
        show({"ready_s": round(time.monotonic() - began_s, 3), **seen})
        if arguments.allocate:
            show(allocated(driver, arguments.allocate))
        spin(driver, began_s + arguments.seconds, received)
    except Error as error:
        show(error.line)
        return 1
    return 0


def allocated(driver: Driver, gib: int) -> dict:
    for done in range(gib):
        try:
            driver.allocate(1 << 30)
        except Error as error:
            return {"allocated_gib": done, "refused": error.line["error"]}
    return {"allocated_gib": gib}


def spin(driver: Driver, until_s: float, received: set[int]) -> None:
    spinning, faulting, cycles = driver.kernel(b"spin"), driver.kernel(b"fault"), c_ulonglong(CYCLES)
    since_s, kernels = time.monotonic(), 0
    while signal.SIGTERM not in received and (now_s := time.monotonic()) < until_s:
        if now_s - since_s >= RATE_EVERY_S:
            show({"rate_per_s": round(kernels / (now_s - since_s), 1)})
            since_s, kernels = now_s, 0
        for _ in range(QUEUE):
            driver.launch(spinning, cycles)
        if signal.SIGUSR1 in received:
            driver.launch(faulting)
        driver.wait()
        kernels += QUEUE


def show(line: dict) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
