"""Table 1 of Gandiva, and what jobs on one GPU take beside each other by it.

The table has, for identical jobs on a P40, the rate of one job and the best rate of several. Which number of jobs is the best is not published,
and neither are groups of different jobs. So it is assumed here that
- the gain of a group is the mean of the gains of its members, each that of its row, or interpolated between rows by the utilisation alone;
- a group with a gain reaches it with as few jobs as can be: the sum of the speeds of k jobs is at most k;
- what the members lose is divided in proportion to the utilisations of the others;
- jobs on several GPUs slow each other down as on one.
"""

import json
import pathlib
from bisect import bisect
from itertools import combinations_with_replacement
from typing import NamedTuple


class Model(NamedTuple):
    name: str
    utilisation_percent: float
    step_s: float
    # The gain of the best group over one job alone, as a part.
    gain: float


def slug(name: str) -> str:
    """The name of the workload of a model. The catalog of Tandem has a few of these models, with other sizes."""
    return "gandiva-" + "-".join("".join(sign if sign.isalnum() else " " for sign in name.lower()).split())


def models(reference: pathlib.Path) -> list:
    """The rows of the table, in its order, by utilisation."""
    table = json.loads((reference / "gandiva-p40" / "table1-packing.json").read_text())
    made = [
        Model(slug(row["job"]), row["gpu_util_pct"], 1 / row["time_slicing"], row["packing_max"] / row["time_slicing"] - 1)
        for row in table["rows"]
    ]
    assert [model.utilisation_percent for model in made] == sorted(model.utilisation_percent for model in made)
    return made


def gain(table: list, utilisation_percent: float) -> float:
    """The gain of jobs of this utilisation, linear between the rows of the table, and beyond them that of the next."""
    at = bisect([model.utilisation_percent for model in table], utilisation_percent)
    if at in (0, len(table)):
        return table[max(at - 1, 0)].gain
    below, above = table[at - 1], table[at]
    part = (utilisation_percent - below.utilisation_percent) / (above.utilisation_percent - below.utilisation_percent)
    return below.gain + part * (above.gain - below.gain)


def slowdowns(members: list) -> list:
    """The time of a step of each member of a group over that alone."""
    count, busy = len(members), sum(model.utilisation_percent for model in members)
    speeds = sum(min(count, 1 + model.gain) for model in members) / count
    lost = count - speeds
    share = lambda model: (busy - model.utilisation_percent) / busy / (count - 1)
    return [1 / (1 - lost * share(model)) for model in members]


def groups(jobs: list, largest: int) -> list:
    """All groups of 2 to `largest` of these jobs."""
    return [group for size in range(2, largest + 1) for group in combinations_with_replacement(jobs, size)]
