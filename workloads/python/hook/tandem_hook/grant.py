"""The number of steps that the job may complete, at the beginning of a page that the harness shares with all ranks.

The number only grows. A rank that has used its grant sleeps on the lower half, a futex that the harness wakes.
"""

import mmap
import os
import sys
import time

PAGE_BYTES = 4096

FUTEX_WAIT = 0
FUTEX_CALLS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""The number of the system call, by machine."""

NAP_S = 0.002
"""The polling interval if no futex is available."""
LOOK_S = 1
"""The polling interval with a futex, in case a wake is lost."""


class Grant:
    def __init__(self, path: str):
        with open(path, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES)
        # Reads of an aligned eight-byte number are atomic.
        self._number = memoryview(self._page).cast("Q")
        try:
            self._sleep = futex(self._page)
        except Exception:
            self._sleep = None

    def steps(self) -> int:
        return self._number[0]

    def wait_beyond(self, done: int) -> None:
        """Sleeps until more than `done` steps are granted."""
        while self.steps() <= done:
            if self._sleep:
                self._sleep(lambda: self.steps() <= done)
            else:
                time.sleep(NAP_S)


def futex(page):
    """Returns a function that sleeps on the lower half of the number, if a condition holds, until it changes or `LOOK_S`
    have passed.

    Raises on an unknown machine, or if Python has no ctypes.
    """
    import ctypes

    if sys.maxsize < 2**32:
        raise OSError("the calls are numbered for 64 bits")
    call = FUTEX_CALLS[os.uname().machine]
    word = ctypes.c_uint32.from_buffer(page, 0 if sys.byteorder == "little" else 4)
    syscall = ctypes.CDLL(None).syscall
    look = (ctypes.c_long * 2)(LOOK_S, 0)

    def sleep_while(condition) -> None:
        # The word is read before the condition, so that the call returns at once if the number grows in between.
        seen = word.value
        if condition():
            syscall(ctypes.c_long(call), ctypes.byref(word), FUTEX_WAIT, ctypes.c_uint32(seen), look, None, 0)

    return sleep_while
