"""Reports facts without an event to a harness, in a file beside the events: one line each, a word and a process.

`loaded` means that the process has imported PyTorch. `unheard` means that it takes optimizer steps without events, because
another process reports for its rank, or did. `alternating` means that several optimizers take turns, and that steps are the
calls of one of them.
"""

import os

from tandem_hook.event_file import RANK_0

SUFFIX = ".notes"


def write(word: str) -> None:
    """Raises if the file cannot be written."""
    events = os.environ["TANDEM_EVENTS"]
    if not events.endswith(RANK_0):
        return
    path = events[: -len(RANK_0)] + SUFFIX
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, b"%b %d\n" % (word.encode(), os.getpid()))
    finally:
        os.close(descriptor)
