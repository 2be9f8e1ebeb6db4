"""What a process that ends can say of its end: whether an exception ended it, and of which kind."""

import sys

LONGEST_ERROR_CHARS = 300


def uncaught():
    """The exception that Python has reported and ends because of, if there is one. `sys.exit` is none."""
    return getattr(sys, "last_value", None)


def kind_of(error: BaseException) -> str:
    """In the words of the protocol."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"OutOfMemoryError", "MemoryError"} or "out of memory" in str(error):
        return "out-of-memory"
    # The allocator of CPUs raises a plain RuntimeError.
    if "can't allocate memory" in str(error):
        return "out-of-memory"
    return "collective" if "DistError" in names else "internal"


def words_of(error: BaseException) -> str:
    return ("%s: %s" % (type(error).__name__, error))[:LONGEST_ERROR_CHARS]
