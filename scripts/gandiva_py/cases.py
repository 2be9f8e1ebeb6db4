"""The cases of a set-up.

python3 cases.py FOLDER

Prints a line for each: its name, the configurations that run exclusively, the loss of the target, and the steps and the seconds between
reports. A set-up without a search has one case, and 0 where it has no number.
"""

import json
import pathlib
import sys

# Between reports of progress, where no search has an interval of its own. Policies measure rates by them.
REPORT_S = {"slicing": 6, "nine-days": 60}


def cases(folder: pathlib.Path) -> list:
    planted = folder / "planted.json"
    if not planted.is_file():
        return [("all", 0, 0, 0, REPORT_S[folder.name])]
    of = json.loads(planted.read_text())
    return [(case, one["keep"], one["target_loss"], one["report_steps"], round(one["report_s"], 3)) for case, one in of.items()]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for line in cases(pathlib.Path(sys.argv[1])):
        print(*line)
