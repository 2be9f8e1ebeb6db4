"""The number of steps that the job may complete, at the beginning of a page that the harness shares with all ranks.

The path of the page leads to a file of the harness by its process id. On another host, or in another pid namespace, it leads
to whatever has that number there, so the page also names its origin, as `workloads/schema/src/grant/identity.rs` defines it.

The number only grows. A rank that has used its grant sleeps on the lower half, a futex that the harness wakes.
"""

import fcntl
import mmap
import os
import sys
import time

PAGE_BYTES = 4096

F_GET_SEALS = 1034
"""The number of the command in Linux. Python has a name for it only if it was built with a C library that has one."""
SEALS = 0x2 | 0x4
"""F_SEAL_SHRINK and F_SEAL_GROW, which keep every process from changing the size of the page."""

ORIGIN = slice(8, 72)
MAGIC = b"tandem-1"
BOOT_BYTES = 48
"""The origin of a page: the magic number, the id of the boot as text, and the number of the pid namespace."""

FUTEX_WAIT = 0
FUTEX_CALLS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
"""The number of the system call, by machine."""

NAP_S = 0.002
"""The polling interval if no futex is available."""
LOOK_S = 1
"""The polling interval with a futex, in case a wake is lost."""


class Grant:
    def __init__(self, path: str):
        self._page = sealed_page(path)
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


def sealed_page(path: str) -> mmap.mmap:
    """Maps the page. A pipe or a terminal at the path is not waited for.

    Raises if the path leads to something else than a page of a harness in the same place. A read of a page that another
    process has truncated would kill the program, and the number of another page would hold it for ever.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # Only files in memory have seals, so the call fails for every other kind of file.
        if fcntl.fcntl(descriptor, F_GET_SEALS) & SEALS != SEALS:
            raise OSError("the grant page can be truncated")
        if os.fstat(descriptor).st_size != PAGE_BYTES:
            raise OSError("the grant page has another size")
        page = mmap.mmap(descriptor, PAGE_BYTES)
        if page[ORIGIN] != origin_here():
            raise OSError("the grant page is that of another program, host or pid namespace")
        return page
    finally:
        os.close(descriptor)


def origin_here() -> bytes:
    """The origin of a page that was made in this boot and pid namespace. What the kernel does not tell is zero."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read().strip()
    except OSError:
        boot = b""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        namespace = 0
    return MAGIC + boot[:BOOT_BYTES].ljust(BOOT_BYTES, b"\0") + namespace.to_bytes(8, sys.byteorder)


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
