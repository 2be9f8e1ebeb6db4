"""The programs' own clock: a JSON line for each step, with its end and its loss, and one for the beginning of each training."""

import json
import os
import time


def training_begins() -> None:
    say(begin_ns=time.monotonic_ns())


def step_ends(loss: float) -> None:
    say(end_ns=time.monotonic_ns(), loss=loss)


def say(**fields) -> None:
    # One write, so that the lines of several processes do not mix.
    os.write(1, (json.dumps({"pid": os.getpid(), **fields}) + "\n").encode())
