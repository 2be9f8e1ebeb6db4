"""Runs the Python tests of a folder, as `python3 -m unittest discover` does, and records those that were skipped.

    scripts/unittests.py FOLDER

Appends one line per test to the file that TANDEM_SKIPS names, in the format of workloads/schema/src/skips.rs. The missing
dependency comes first in the reason of a skip, up to a colon.
"""

import os
import sys
import unittest


def main(folder: str) -> int:
    result = unittest.TextTestRunner().run(unittest.defaultTestLoader.discover(folder))
    if file := os.environ.get("TANDEM_SKIPS"):
        with open(file, "a") as skips:
            for test, reason in result.skipped:
                lacks, _, why = reason.partition(": ")
                skips.write(f"{folder} {test.id()}\t{lacks}\t{why or reason}\n".replace("\n", " ").rstrip() + "\n")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
