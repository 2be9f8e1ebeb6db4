"""Waiting in Python tests: for what a test needs to see, and never for a time in which that should have happened."""

import time

LONG_S = 600
"""A time that only a hanging program takes, on a machine whose cores are all busy."""


def wait_for(what: str, look, is_it):
    """Looks until `is_it` accepts what `look` returns, and returns that."""
    until_s = time.monotonic() + LONG_S
    while not is_it(seen := look()):
        assert time.monotonic() < until_s, "waited in vain until %s; last seen: %r" % (what, seen)
        time.sleep(0.005)
    return seen
