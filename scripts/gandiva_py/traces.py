"""The traces of the four set-ups: rows of `sched`, drawn from a seed."""

import csv
import gzip
import math
import pathlib
import random
from typing import NamedTuple

import curves
import facts


class Job(NamedTuple):
    """A job of a trace. `position` is its place in a search, from 1."""

    submit_s: float
    workload: str
    devices: int
    steps: int
    position: int = 0
    curve: str = ""


def spelled(workload: str, devices: int) -> str:
    return f"{workload}@b{facts.BATCH * devices}@dp{devices}"


def slicing(models: list, seed: int) -> list:
    """Jobs of the models of Table 1 that arrive within two hours. A job on several GPUs has a step as long as on one."""
    dice = random.Random(f"slicing {seed}")
    classes, begin = [], 0
    for count, share in facts.SLICING_CLASSES:
        classes.append((models[begin : begin + count], share))
        begin += count
    jobs = []
    for _ in range(facts.SLICING_JOBS):
        [of_class] = dice.choices([group for group, _ in classes], [share for _, share in classes])
        model = dice.choice(of_class)
        devices = dice.choice(facts.SLICING_DEVICES_OF_LAST) if model in models[-2:] else 1
        gpu_s = dice.uniform(*facts.SLICING_GPU_MINUTES) * facts.MINUTE_S
        submit_s = dice.uniform(0, facts.SLICING_ARRIVALS_S)
        jobs.append(Job(submit_s, model.name, devices, max(round(gpu_s / devices / model.step_s), 1)))
    return sorted(jobs)


def left_at_end(dice: random.Random) -> float:
    return math.exp(dice.uniform(*map(math.log, facts.LEFT_AT_END)))


def other_curve(dice: random.Random, target: float, steps: int) -> curves.Curve:
    """The curve of a configuration that never reaches the target."""
    least, below = facts.OTHERS_FINAL
    accuracy = dice.uniform(least, target + below)
    left = left_at_end(dice)
    # No loss has a limit below 0, so that a curve that has fallen far has little of its fall left.
    final = 1 - accuracy
    return curves.ending(facts.FIRST_LOSS, min(final, facts.FIRST_LOSS), min(left, 0.9 * final / facts.FIRST_LOSS), steps)


def lenet_step_s(devices: int) -> float:
    """The time of a step by the slope of the published times of exclusive execution, from the first position to the last."""
    published = facts.LENET_PUBLISHED[devices]
    first, last = facts.LENET_POSITIONS[0], facts.LENET_POSITIONS[-1]
    minutes = (published[last][0] - published[first][0]) / (last - first) * devices
    return minutes * facts.MINUTE_S / lenet_steps()


def lenet_steps() -> int:
    return round(facts.LENET_REPORT_STEPS / facts.LENET_REPORT_SHARE)


def lenet(devices: int, position: int, seed: int) -> list:
    """A search in which the configuration at `position` is the only one that reaches the target."""
    dice = random.Random(f"lenet {devices} {seed}")
    steps, target_loss = lenet_steps(), 1 - facts.LENET_TARGET
    every_s = facts.LENET_REPORT_STEPS * lenet_step_s(devices)
    jobs = []
    for number in range(1, facts.LENET_CONFIGURATIONS + 1):
        curve = other_curve(dice, facts.LENET_TARGET, steps)
        if number == position:
            # It converges like the others, as far as a loss stays above 0.
            left = min(left_at_end(dice), 0.9 * target_loss / facts.FIRST_LOSS)
            curve = curves.reaching(facts.FIRST_LOSS, target_loss, facts.LENET_REACHES, left, steps)
        submit_s = (number - 1) // facts.LENET_ARRIVE[devices] * every_s
        jobs.append(Job(submit_s, f"gandiva-lenet-{devices}", 1, steps, number, str(curve)))
    return jobs


def resnet_steps() -> int:
    return round(facts.RESNET_LENGTH_MINUTES * facts.MINUTE_S / facts.RESNET_STEP_S)


def resnet_reaches(target: float) -> float:
    """The part of its length after which the first qualified configuration reaches the target, by the published time of exclusive execution."""
    position, minutes, _ = facts.RESNET_PUBLISHED[target]
    waited = (position - 1) // facts.RESNET_DEVICES * facts.RESNET_LENGTH_MINUTES
    return (minutes - waited) / facts.RESNET_LENGTH_MINUTES


def resnet_qualified() -> dict:
    """The curves of the configurations that qualify, by their places."""
    return {
        position: curves.through(facts.FIRST_LOSS, 1 - target, resnet_reaches(target), 1 - facts.RESNET_FINAL[position], resnet_steps())
        for target, (position, *_) in facts.RESNET_PUBLISHED.items()
    }


def resnet(seed: int) -> list:
    """A search with one trace for all targets: three configurations qualify, and no other reaches the lowest target."""
    dice = random.Random(f"resnet {seed}")
    steps, qualified = resnet_steps(), resnet_qualified()
    jobs = []
    for number in range(1, facts.RESNET_CONFIGURATIONS + 1):
        # It is drawn for all, so that the others do not depend on which qualify.
        other = other_curve(dice, min(facts.RESNET_PUBLISHED), steps)
        curve = qualified.get(number, other)
        jobs.append(Job(0.0, "gandiva-resnet-like", 1, steps, number, str(curve)))
    return jobs


def philly(reference: pathlib.Path) -> list:
    """Durations in seconds and GPUs of the jobs of the Philly trace that ran."""
    with gzip.open(reference / "philly" / "philly.csv.gz", "rt", newline="") as file:
        rows = [(float(row["duration"]), int(row["num_gpus"])) for row in csv.DictReader(file)]
    return [(duration_s, devices) for duration_s, devices in rows if duration_s > 0 and devices > 0]


def nine_days(lengths: list, seed: int) -> list:
    """Jobs of ten models with durations and GPUs drawn from `lengths`. GPUs are rounded up to 1, 2 or 4. All durations are scaled by one
    factor and cut to the longest, so that the work on P40 is the chosen part of what the cluster can do while jobs arrive."""
    dice = random.Random(f"nine days {seed}")
    of_kind = {kind: [] for kind in facts.NINE_DAYS_MIX}
    for name, (kind, *_) in facts.NINE_DAYS_MODELS.items():
        of_kind[kind].append(name)
    drawn = []
    for _ in range(facts.NINE_DAYS_JOBS):
        [kind] = dice.choices(list(facts.NINE_DAYS_MIX), list(facts.NINE_DAYS_MIX.values()))
        duration_s, devices = dice.choice(lengths)
        devices = next(count for count in (1, 2, 4) if devices <= count or count == facts.DEVICES_PER_NODE)
        drawn.append((dice.uniform(0, facts.NINE_DAYS_ARRIVALS_DAYS * 86_400), dice.choice(of_kind[kind]), devices, duration_s))
    there = sum(nodes for _, nodes in facts.NINE_DAYS_NODES) * facts.DEVICES_PER_NODE
    capacity = facts.NINE_DAYS_LOAD * there * facts.NINE_DAYS_ARRIVALS_DAYS * 86_400
    longest_s = facts.NINE_DAYS_LONGEST_DAYS * 86_400
    work = lambda scale: sum(devices * min(scale * duration_s, longest_s) for _, _, devices, duration_s in drawn)
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if work(middle) < capacity else (low, middle)
    step_s = lambda name: facts.NINE_DAYS_MODELS[name][1] / 1e3
    return sorted(
        Job(submit_s, name, devices, max(round(min(low * duration_s, longest_s) / step_s(name)), 1))
        for submit_s, name, devices, duration_s in drawn
    )


def write(path: pathlib.Path, jobs: list, search: str = "") -> None:
    """Writes a trace. The members of a search have its name and their loss curves."""
    columns = ["name", "submit_s", "job", "steps", "devices"] + (["search", "loss_curve"] if search else [])
    digits = len(str(len(jobs)))
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for number, job in enumerate(jobs, 1):
            line = [f"job-{number:0{digits}}", round(job.submit_s, 3), spelled(job.workload, job.devices), job.steps, job.devices]
            writer.writerow(line + ([search, job.curve] if search else []))
