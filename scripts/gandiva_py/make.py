"""Makes the inputs of simulations beside the paper of Gandiva.

python3 make.py OUT REFERENCE SEEDS LARGEST SETUP..

Set-ups are slicing, lenet-4, lenet-16, resnet and nine-days. Each gets a folder below OUT with a trace for each case and seed
(CASE-SEED.csv), a catalog, tables of times, a cluster, and, except for the searches, rows of groups of up to LARGEST jobs
(together-*.csv). planted.json has the configurations that reach the target of each case of a search, and the steps after which they do.
"""

import math
import pathlib
import sys

import facts
import inputs
import table1
import traces


def prepare(folder: pathlib.Path, models: list, nodes: list) -> None:
    """The files of a set-up on P40, apart from traces and groups. `models` have each number of GPUs on which they are used."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "catalog.toml").write_text(inputs.catalog({model.name: model.step_s for model, _ in models}))
    (folder / "cluster.toml").write_text(inputs.cluster(nodes))
    inputs.write_table(folder / "p40", facts.P40, models)


def slicing(folder: pathlib.Path, reference: pathlib.Path, seeds: list, largest: int) -> None:
    models = table1.models(reference)
    jobs = [(model, 1) for model in models[:-2]]
    jobs += [(model, count) for model in models[-2:] for count in facts.SLICING_DEVICES_OF_LAST]
    prepare(folder, jobs, [(facts.P40, facts.SLICING_NODES)])
    # The fit predicts groups of jobs on different numbers of GPUs, from those of all models on one.
    known = [(model, 1) for model in models] + [job for job in jobs if job[1] > 1]
    inputs.write_together(folder / "together-p40.csv", inputs.together_rows(facts.P40, known, largest))
    for seed in seeds:
        traces.write(folder / f"all-{seed}.csv", traces.slicing(models, seed))


def lenet(folder: pathlib.Path, devices: int, seeds: list) -> None:
    # Its utilisation is not published. Nothing depends on it, because no jobs are packed.
    model = table1.Model(f"gandiva-lenet-{devices}", 30.0, traces.lenet_step_s(devices), 0.0)
    prepare(folder, [(model, 1)], [(facts.P40, devices // facts.DEVICES_PER_NODE)])
    planted = {}
    for position in facts.LENET_POSITIONS:
        for seed in seeds:
            traces.write(folder / f"{position}-{seed}.csv", traces.lenet(devices, position, seed), search="lenet")
        baseline, gandiva = facts.LENET_PUBLISHED[devices][position]
        planted[str(position)] = {
            "reaches": {position - 1: math.ceil(facts.LENET_REACHES * traces.lenet_steps())},
            "report_steps": facts.LENET_REPORT_STEPS,
            "target_loss": round(1 - facts.LENET_TARGET, 6),
            "keep": facts.LENET_KEEP[devices],
            "report_s": facts.LENET_REPORT_STEPS * model.step_s,
            "paper": [baseline, gandiva],
        }
    inputs.write_planted(folder / "planted.json", planted)


def resnet(folder: pathlib.Path, seeds: list) -> None:
    model = table1.Model("gandiva-resnet-like", 95.0, facts.RESNET_STEP_S, 0.0)
    prepare(folder, [(model, 1)], [(facts.P40, facts.RESNET_DEVICES // facts.DEVICES_PER_NODE)])
    planted, qualified = {}, traces.resnet_qualified()
    for target, (position, baseline, gandiva) in facts.RESNET_PUBLISHED.items():
        for seed in seeds:
            traces.write(folder / f"{100 * target:.0f}-{seed}.csv", traces.resnet(seed), search="resnet")
        planted[f"{100 * target:.0f}"] = {
            # Configurations that reach a higher target reach this one before.
            "reaches": {
                number - 1: math.ceil(curve.steps_to(1 - target)) for number, curve in qualified.items() if number >= position
            },
            "report_steps": round(facts.RESNET_REPORT_SHARE * traces.resnet_steps()),
            "target_loss": round(1 - target, 6),
            "keep": facts.RESNET_KEEP,
            "report_s": facts.RESNET_REPORT_SHARE * facts.RESNET_LENGTH_MINUTES * facts.MINUTE_S,
            "paper": [baseline, gandiva],
        }
    inputs.write_planted(folder / "planted.json", planted)


def nine_days(folder: pathlib.Path, reference: pathlib.Path, seeds: list, largest: int) -> None:
    published = table1.models(reference)
    rows = facts.NINE_DAYS_MODELS.items()
    of_p40 = [table1.Model(name, busy, ms / 1e3, table1.gain(published, busy)) for name, (_, ms, busy, _) in rows]
    speeds = {name: speed for name, (*_, speed) in rows}
    of_p100 = [model._replace(step_s=model.step_s / speeds[model.name]) for model in of_p40]
    each = lambda models: [(model, count) for model in models for count in (1, 2, 4)]
    prepare(folder, each(of_p40), facts.NINE_DAYS_NODES)
    inputs.write_table(folder / "p100", facts.P100, each(of_p100))
    # Groups of jobs on several GPUs take what the fit says, which knows them alone.
    for name, device_type, models in (("p40", facts.P40, of_p40), ("p100", facts.P100, of_p100)):
        alone = [row for row in inputs.together_rows(device_type, each(models), 1) if row["plan"] != "dp1"]
        rows_of_type = inputs.together_rows(device_type, [(model, 1) for model in models], largest) + alone
        inputs.write_together(folder / f"together-{name}.csv", rows_of_type)
    lengths = traces.philly(reference)
    for seed in seeds:
        traces.write(folder / f"all-{seed}.csv", traces.nine_days(lengths, seed))


def main() -> None:
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    out, reference = map(pathlib.Path, sys.argv[1:3])
    seeds, largest = sys.argv[3].split(","), int(sys.argv[4])
    makers = {
        "slicing": lambda folder: slicing(folder, reference, seeds, largest),
        "lenet-4": lambda folder: lenet(folder, 4, seeds),
        "lenet-16": lambda folder: lenet(folder, 16, seeds),
        "resnet": lambda folder: resnet(folder, seeds),
        "nine-days": lambda folder: nine_days(folder, reference, seeds, largest),
    }
    for setup in sys.argv[5:]:
        if setup not in makers:
            sys.exit(f"make: there is no set-up '{setup}'; there are {', '.join(makers)}")
        makers[setup](out / setup)


if __name__ == "__main__":
    main()
