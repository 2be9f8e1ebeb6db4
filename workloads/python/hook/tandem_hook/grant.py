"""How many steps the job may complete: a number at the beginning of a page that the harness shares with all ranks.

It only grows. Who has used it up sleeps on its lower half, which is the word of a futex that the harness wakes.
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
"""Between two looks at the number where there is no futex to sleep on."""
LOOK_S = 1
"""Between two looks otherwise, should a wake be lost."""


class Grant:
    def __init__(self, path: str):
        with open(path, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES)
        # Read in one piece, as an aligned number of eight bytes is.
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
    """A function that sleeps on the lower half of the number, if a condition holds, until it changes or `LOOK_S` are over.

    Raises where the machine is not known or Python has no ctypes.
    """
    import ctypes

    if sys.maxsize < 2**32:
        raise OSError("the calls are numbered for 64 bits")
    call = FUTEX_CALLS[os.uname().machine]
    word = ctypes.c_uint32.from_buffer(page, 0 if sys.byteorder == "little" else 4)
    syscall = ctypes.CDLL(None).syscall
    look = (ctypes.c_long * 2)(LOOK_S, 0)

    def sleep_while(condition) -> None:
        # In this order: should the number grow after it was looked at, the word is not what it was and nobody sleeps.
        seen = word.value
        if condition():
            syscall(ctypes.c_long(call), ctypes.byref(word), FUTEX_WAIT, ctypes.c_uint32(seen), look, None, 0)

    return sleep_while
