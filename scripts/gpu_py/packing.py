"""Whether packing pays: the throughput of pairs of jobs at once over that in turns, beside the utilisation of the device by
each job alone.

Gandiva (Xiao et al., OSDI 2018, Table 1) packed jobs on a P40 by plain time-sharing. A job that used the device for 8.7 %
of the time alone gained 412 %, and jobs that used it for 87 % and more lost 11 to 16 %. The question is whether the gain falls
with the utilisation alone, as it did there. On a GPU, pairs are also packed under NVIDIA's MPS, which runs the kernels of several
processes side by side, where plain time-sharing switches between them.
"""

import itertools
import statistics
from dataclasses import dataclass
from typing import NamedTuple

MODES = {"time-slice": "time-slice", "step-gate": "step-gate:250ms", "mps": "mps"}
"""Gandiva's packing, its time-slicing with turns short enough for a short visit, and packing under MPS."""

GANDIVA = ("time-slice", "step-gate")
"""The modes that its law compares."""


@dataclass(frozen=True)
class Run:
    """One run of `profile colocate`."""

    name: str
    jobs: dict[str, str]
    """The load of each job and its spelling; no two have the same workload."""

    every_pair: bool
    """Whether each is also paired with itself."""

    modes: tuple[str, ...] = GANDIVA

    @property
    def pairs(self) -> int:
        return len(self.jobs) * (len(self.jobs) + 1) // 2 if self.every_pair else 1

    def kind_of(self, workload: str) -> str:
        return next(kind for kind, job in self.jobs.items() if job.partition("@")[0] == workload)


LOADS_ON_GPU = Run("light-heavy", {"light": "vae@b128", "heavy": "gpt2@b4@bf16"}, every_pair=True, modes=tuple(MODES))
"""`vae` is the lightest of Gandiva's table. GPT-2 is ready after a second, and ResNet-50 takes seven seconds
more to its second step."""

BOUNDS_ON_GPU = Run("bound", {"memory-bound": "mobilenet-v2@b64", "compute-bound": "gpt2@b4@bf16"}, every_pair=False)
"""MobileNetV2 spends its time in layers that do little with each byte they read, and GPT-2 in products of matrices."""

LOADS_ON_CORE = Run("light-heavy", {"light": "synthetic-sleep", "heavy": "lstm"}, every_pair=True)
BOUNDS_ON_CORE = Run("bound", {"memory-bound": "stress-memory", "compute-bound": "stress-compute"}, every_pair=False)

QUICK_ON_GPU = Run("light-heavy", {"light": "vae@b128", "heavy": "lstm"}, every_pair=False, modes=tuple(MODES))
QUICK_ON_CORE = Run("heavy", {"heavy": "synthetic-spin"}, every_pair=True, modes=("time-slice",))
"""A second visit in turns would double the time."""


def loads(on_gpu: bool, quick: bool) -> Run:
    if quick:
        return QUICK_ON_GPU if on_gpu else QUICK_ON_CORE
    return LOADS_ON_GPU if on_gpu else LOADS_ON_CORE


def bounds(on_gpu: bool) -> Run:
    return BOUNDS_ON_GPU if on_gpu else BOUNDS_ON_CORE


class Law(NamedTuple):
    shows: str
    """A short description."""

    text: str


def of_run(run: Run, interference: list[dict], measurements: list[dict]) -> list[dict]:
    """One row for each pair in `interference.csv` of a run, in order."""
    pairs: dict[str, list[dict]] = {}
    for row in interference:
        pairs.setdefault(row["group"], []).append(row)
    alone = [row for row in measurements if not row["group"] and row["status"] == "ok"]
    return [of_pair(run, seats, alone) for seats in pairs.values()]


def of_pair(run: Run, seats: list[dict], alone: list[dict]) -> dict:
    """Utilisations are means over the launches alone. Unknown values are absent, with the reason in `missing`."""
    members = sorted({row["seat"]: row for row in seats}.values(), key=lambda row: int(row["seat"]))
    missing = []

    def of_members(column: str) -> list[float | None]:
        return [mean(row[column] for row in alone if row["job"] == member["job"]) for member in members]

    utils = of_members("device_util_percent_mean")
    unknown = dict.fromkeys(member["job"] for member, util in zip(members, utils) if util is None)
    missing += [f"no utilisation of {job} alone" for job in unknown]
    throughput = {}
    for mode in MODES:
        rows = [row for row in seats if mode_of(row) == mode]
        throughput[mode] = number(rows[0]["group_norm_throughput"]) if rows else None
        if throughput[mode] is None and (rows or mode in (*GANDIVA, *run.modes)):
            reasons = [row["err_detail"] for row in rows if row["err_detail"]]
            missing.append(f"{mode}: {reasons[0] if reasons else 'not measured'}")
    packed, in_turns = (throughput[mode] for mode in GANDIVA)
    gain = packed / in_turns - 1 if packed is not None and in_turns else None
    run_here = [row for row in seats if not lacks_mps(row)]
    warnings = dict.fromkeys(word for row in run_here for word in row["warnings"].split(";") if word)
    return {
        "pair": " + ".join(run.kind_of(member["workload"]) for member in members),
        "group": members[0]["group"],
        **by_seat("device_util_percent_alone", utils),
        "device_util_percent_alone_mean": None if None in utils else rounded(statistics.mean(utils), 2),
        **by_seat("sm_util_percent_alone", of_members("sm_util_percent")),
        **by_seat("dram_util_percent_alone", of_members("dram_util_percent")),
        "norm_throughput_time_slice": packed,
        "norm_throughput_step_gate": in_turns,
        "norm_throughput_mps": throughput["mps"],
        "gain_percent": None if gain is None else rounded(100 * gain, 2),
        "blocks": min(int(row["blocks"]) for row in run_here),
        "valid": all(row["valid"] == "true" for row in run_here),
        "warnings": ";".join(warnings),
        "missing": "; ".join(missing),
    }


def mode_of(row: dict) -> str:
    return row["sharing"].partition(":")[0]


def lacks_mps(row: dict) -> bool:
    """Whether a row of `interference.csv` says that MPS cannot run on this machine, which is no failure."""
    return mode_of(row) == "mps" and row["status"] == "unsupported"


def with_mps(pairs: list[dict]) -> str:
    """What MPS gives beside time slices. Empty if no pair was to be measured under MPS."""
    gains, without = [], []
    for pair in pairs:
        under_mps, sliced = number(pair["norm_throughput_mps"]), number(pair["norm_throughput_time_slice"])
        if under_mps is not None and sliced:
            gains.append(f"{pair['pair']} {round(100 * (under_mps / sliced - 1)):+d} % ({sliced:.2f} to {under_mps:.2f})")
        elif any(reason.startswith("mps: ") for reason in pair["missing"].split("; ")):
            without.append(pair["pair"])
    said = [f"MPS in place of time slices changes the throughput at once: {', '.join(gains)}."] if gains else []
    said += [f"Not measured under MPS, for the reason in `missing`: {', '.join(without)}."] if without else []
    return " ".join(said)


def law(pairs: list[dict]) -> Law:
    """Whether the gain falls as the utilisation alone rises, over the pairs with both numbers.

    Both are in whole percent, because NVML has no finer resolution, and fractions of a gain would be noise.
    """
    known = [(number(pair["device_util_percent_alone_mean"]), number(pair["gain_percent"])) for pair in pairs]
    points = sorted((round(util), round(gain)) for util, gain in known if util is not None and gain is not None)
    over, notes = count(len(points)), of_doubtful(pairs)
    if len({util for util, _ in points}) < 2:
        found = f"and all {over} have {points[0][0]} %" if len(points) > 1 else f"and both numbers are known of {over}"
        text = f"Gandiva's law is not to be judged here: it takes pairs of different utilisation alone, {found}."
        return Law("is not to be judged", text + notes)
    utils, gains = zip(*points)
    if len(set(gains)) < 2:
        text = f"Gandiva's law does not show: the gain of all {over} is {gains[0]:+d} %."
        return Law("does not show", text + notes)
    correlation = rank_correlation(utils, gains)
    rises = any(a[0] < b[0] and a[1] < b[1] for a, b in itertools.combinations(points, 2))
    if correlation >= 0:
        shows, how = "does not show", "the gain does not fall with the utilisation alone"
    elif rises:
        shows, how = "shows on the whole only", "the gain falls with the utilisation alone, though not at each rise of it"
    else:
        shows, how = "shows", "the gain falls with the utilisation alone, and rises nowhere"
    orders = [rank_correlation(utils, order) for order in itertools.permutations(gains)]
    as_clear = sum(other <= correlation + 1e-9 for other in orders)
    (first_util, first_gain), (last_util, last_gain) = points[0], points[-1]
    text = (
        f"Gandiva's law {shows}: over {over} {how}, from {first_gain:+d} % at {first_util} % to {last_gain:+d} % "
        f"at {last_util} %. The rank correlation is {correlation:+.2f}; of the {len(orders)} orders that these gains "
        f"can have, {as_clear} fall{'s' if as_clear == 1 else ''} as clearly or more so. "
        f"So few points are a sign and no proof.{notes}"
    )
    return Law(shows, text)


def of_doubtful(pairs: list[dict]) -> str:
    """Pairs without numbers for the law, or with warnings."""
    numbers = ("device_util_percent_alone_mean", "gain_percent")
    lacking = [pair for pair in pairs if pair["missing"] and None in [number(pair[name]) for name in numbers]]
    left_out = [f"{pair['pair']} ({pair['missing']})" for pair in lacking]
    doubtful = [f"{pair['pair']} ({pair['warnings']})" for pair in pairs if pair["warnings"]]
    said = f" Left out: {', '.join(left_out)}." if left_out else ""
    return said + (f" With warnings: {', '.join(doubtful)}." if doubtful else "")


def count(pairs: int) -> str:
    return f"{pairs or 'no'} pair{'' if pairs == 1 else 's'}"


def rank_correlation(xs: tuple, ys: tuple) -> float:
    """Spearman's rank correlation, with mean ranks for equal values. Neither list may be constant."""
    return statistics.correlation(ranks(xs), ranks(ys))


def ranks(values: tuple) -> list[float]:
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


def mean(cells) -> float | None:
    values = [value for cell in cells if (value := number(cell)) is not None]
    return rounded(statistics.mean(values), 2) if values else None


def number(cell) -> float | None:
    """The number in a cell of a table, or the number that the cell was made from."""
    return None if cell is None or cell == "" else float(cell)


def rounded(value: float, digits: int) -> float:
    """Rounds, and turns -0 into 0."""
    return round(value, digits) + 0.0


def by_seat(name: str, values: list) -> dict:
    return {f"{name}_seat{seat}": value for seat, value in enumerate(values)}
