"""The results of one job, and whether torch-worker holds beside Python."""

import statistics
from dataclasses import dataclass, field

from launches import Exchange
from ratio import ratio_over_blocks

LOSS_TOLERANCE = 1e-3
RATIO_LIMIT = 1.05
MEDIAN_RATIO_LIMIT = 1.01
FOREIGN_CPU_LIMIT_PERCENT = 1.0


@dataclass
class Comparison:
    """One job, and the results of its launches so far."""

    job: str
    family: str
    exchange: Exchange
    steps: int
    """Steps of each launch, on both sides. The first quarter warms caches and allocators and is left out."""

    losses: dict[str, float] = field(default_factory=dict)
    """Losses at step 20 of each side's first launch."""

    blocks: list[tuple[list[float], list[float]]] = field(default_factory=list)
    """Median step times of each block, of the worker and of Python."""

    foreign_cpu_percent_max: float | None = None


@dataclass
class Verdict:
    job: str
    family: str
    blocks: int
    loss_python: float
    loss_worker: float
    loss_difference: float
    step_ns_python: float
    step_ns_worker: float
    ratio: float
    ratio_ci_lo: float
    ratio_ci_hi: float
    foreign_cpu_percent_max: float | None
    loss_holds: bool
    ratio_holds: bool


def judge(comparison: Comparison) -> Verdict:
    losses = comparison.losses
    difference = abs(losses["worker"] - losses["python"]) / abs(losses["python"])
    ratio = ratio_over_blocks(comparison.blocks)
    return Verdict(
        job=comparison.job,
        family=comparison.family,
        blocks=len(comparison.blocks),
        loss_python=losses["python"],
        loss_worker=losses["worker"],
        loss_difference=difference,
        step_ns_python=statistics.median(value for _, python in comparison.blocks for value in python),
        step_ns_worker=statistics.median(value for worker, _ in comparison.blocks for value in worker),
        ratio=ratio.estimate,
        ratio_ci_lo=ratio.ci_lo,
        ratio_ci_hi=ratio.ci_hi,
        foreign_cpu_percent_max=comparison.foreign_cpu_percent_max,
        loss_holds=difference <= LOSS_TOLERANCE,
        # A single block has no interval, and so does not pass.
        ratio_holds=ratio.ci_hi is not None and ratio.ci_hi < RATIO_LIMIT,
    )


def median_of_families(verdicts: list[Verdict]) -> float:
    """A family with several jobs counts with the geometric mean of their ratios."""
    families = {verdict.family: [] for verdict in verdicts}
    for verdict in verdicts:
        families[verdict.family].append(verdict.ratio)
    return statistics.median(statistics.geometric_mean(ratios) for ratios in families.values())


def table(verdicts: list[Verdict]) -> str:
    width = max(20, *(len(v.job) for v in verdicts))
    lines = [f"{'job':{width}} {'loss python':>12} {'loss worker':>12} {'difference':>11} {'python ms':>10} {'worker ms':>10}"]
    lines[0] += f"  {'ratio':>6} {'95 % interval':>17}  holds"
    for v in verdicts:
        loss = f"{v.loss_python:12.6f} {v.loss_worker:12.6f} {v.loss_difference:11.1e}"
        times = f"{v.step_ns_python / 1e6:10.2f} {v.step_ns_worker / 1e6:10.2f}"
        interval = "-" if v.ratio_ci_lo is None else f"[{v.ratio_ci_lo:.4f}, {v.ratio_ci_hi:.4f}]"
        holds = {(True, True): "yes", (True, False): "no: time", (False, True): "no: loss"}
        verdict = holds.get((v.loss_holds, v.ratio_holds), "no: loss, time")
        lines.append(f"{v.job:{width}} {loss} {times}  {v.ratio:6.4f} {interval:>17}  {verdict}")
        if (v.foreign_cpu_percent_max or 0.0) > FOREIGN_CPU_LIMIT_PERCENT:
            lines.append(f"  warning: others used up to {v.foreign_cpu_percent_max:.1f} % of the core; let nothing else run")
    below = sum(v.ratio_holds for v in verdicts)
    lines.append(f"interval below {RATIO_LIMIT}: {below} of {len(verdicts)} jobs")
    median, families = median_of_families(verdicts), len({v.family for v in verdicts})
    held = "holds" if median <= MEDIAN_RATIO_LIMIT else "does not hold"
    lines.append(f"median ratio of {families} families: {median:.4f}, limit {MEDIAN_RATIO_LIMIT}: {held}")
    return "\n".join(lines)
