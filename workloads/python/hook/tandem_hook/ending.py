"""The reason for which a process ends: whether an exception ended it, and of which kind."""

import sys

LONGEST_ERROR_CHARS = 300


def uncaught():
    """The exception that Python has reported and that ends the process, if any. `sys.exit` does not count."""
    return getattr(sys, "last_value", None)


def kind_of(error: BaseException) -> str:
    """The kind in the protocol. PyTorch has classes for some errors, and raises a RuntimeError for others."""
    names, text = {kind.__name__ for kind in type(error).__mro__}, str(error)
    if names & {"OutOfMemoryError", "MemoryError"} or "out of memory" in text or "can't allocate memory" in text:
        return "out-of-memory"
    if "DistError" in names or "gloo/transport" in text:
        return "collective"
    return "internal"


def words_of(error: BaseException) -> str:
    return ("%s: %s" % (type(error).__name__, error))[:LONGEST_ERROR_CHARS]
