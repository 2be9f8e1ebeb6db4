"""Reports facts without an event to a harness, in a file beside the events: one line each, a word and a process, and for
`uncounted` a number.

`loaded` means that the process has imported PyTorch. `unheard` means that it takes optimizer steps without events, because
another process reports for its rank, or did. `ungated` means the same, because the grant page of the harness cannot be reached
from where the process runs. `alternating` means that several optimizers take turns, and that steps are the
calls of one of them. The number of `uncounted` is that of the other calls so far.
"""

import os

from tandem_hook.event_file import RANK_0

SUFFIX = ".notes"


def write(word: str, number=None) -> None:
    """Raises if the file cannot be written."""
    events = os.environ["TANDEM_EVENTS"]
    if not events.endswith(RANK_0):
        return
    path = events[: -len(RANK_0)] + SUFFIX
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        words = [word, os.getpid()] if number is None else [word, os.getpid(), number]
        os.write(descriptor, " ".join(map(str, words)).encode() + b"\n")
    finally:
        os.close(descriptor)
