"""The reason for which a process ends: whether an exception ended it, and of which kind."""

import sys

LONGEST_ERROR_CHARS = 300

# The beginnings of PyTorch's messages for RuntimeErrors without a class of their own, and the part of one that names its source file.
CUDA_MEMORY = ("CUDA out of memory", "CUDA error: out of memory")
CPU_MEMORY = "DefaultCPUAllocator: can't allocate memory"


def uncaught():
    """The exception that Python has reported and that ends the process, if any. `sys.exit` does not count."""
    return getattr(sys, "last_value", None)


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
