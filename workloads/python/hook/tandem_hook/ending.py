"""The reason for which a process ends: whether an exception ended it, and of which kind."""

import sys

LONGEST_ERROR_CHARS = 300

# The beginnings of PyTorch's messages for RuntimeErrors without a class of their own, and the part of one that names its source file.
CUDA_MEMORY = ("CUDA out of memory", "CUDA error: out of memory")
CPU_MEMORY = "DefaultCPUAllocator: can't allocate memory"


def uncaught():
    """The exception that Python has reported and that ends the process, if any. `sys.exit` does not count."""
    return getattr(sys, "last_value", None)


def is_of_program(error: BaseException) -> bool:
    """Whether a signal handler of the program raised it, which Python may call between any two lines of the hook."""
    if not isinstance(error, Exception):
        return True
    try:
        return was_raised_by_handler(error)
    except Exception:
        return False


def was_raised_by_handler(error: Exception) -> bool:
    """Python gives a handler the frame that it interrupts, which is the one before it in the traceback."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        interrupted, entry = entry.tb_frame, entry.tb_next
        for value in entry.tb_frame.f_locals.values():
            if value is interrupted or isinstance(value, tuple) and any(item is interrupted for item in value):
                return True
    return False


def kind_of(error: BaseException) -> str:
    """The kind in the protocol. PyTorch has classes for some errors, and raises a RuntimeError for others."""
    names, text = {kind.__name__ for kind in type(error).__mro__}, str(error)
    if names & {"OutOfMemoryError", "MemoryError"}:
        return "out-of-memory"
    if "RuntimeError" in names and (text.startswith(CUDA_MEMORY) or CPU_MEMORY in text):
        return "out-of-memory"
    if "DistError" in names or "gloo/transport" in text:
        return "collective"
    return "internal"


def words_of(error: BaseException) -> str:
    return ("%s: %s" % (type(error).__name__, error))[:LONGEST_ERROR_CHARS]
