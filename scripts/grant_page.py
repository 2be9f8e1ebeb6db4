"""The page that tells a job how many steps it may complete, made as the harness makes it."""

import contextlib
import fcntl
import os
import struct
from typing import Iterator

BYTES = 4096


@contextlib.contextmanager
def grant_page(steps: int) -> Iterator[str]:
    """The path of a page that grants the steps, until the end of the context.

    The page is memory whose size no process can change, and a worker refuses any other. The grant is the first eight bytes,
    in the machine's own byte order. The origin of the page follows (`workloads/schema/src/grant/identity.rs`).
    """
    page = os.memfd_create("grant", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(page, (struct.pack("=Q", steps) + origin()).ljust(BYTES, b"\0"))
        fcntl.fcntl(page, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        yield f"/proc/{os.getpid()}/fd/{page}"
    finally:
        os.close(page)


def origin() -> bytes:
    """The magic number, the boot of the kernel, and the pid namespace."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        boot = file.read().strip()
    return struct.pack("=8s48sQ", b"tandem-1", boot, os.stat("/proc/self/ns/pid").st_ino)
