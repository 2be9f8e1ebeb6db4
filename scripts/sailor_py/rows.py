"""Writes the measured plans of Sailor's artifact as a table of step times, and why others are left out to stderr.

python3 rows.py CHECKOUT > sailor.csv

Trainings are in fp32 with AdamW, without ZeRO and without activation checkpointing
(ae_scripts/clariden_scripts/run_opt.slurm). A step time is the mean of iterations 4 to 10 of the first rank
(process_results.py), and the peak of memory that of the fullest GPU, of another launch.
"""

import collections
import csv
import json
import pathlib
import sys

PLANNER = pathlib.Path("sailor/Planner")
MODELS = {
    "OPT-350": ("opt-350m", "training_config_opt_350.json"),
    "GPT-NEO": ("gpt-neo-2.7b", "training_config_gpt_neo27.json"),
}
DEVICES = {"GH-96": ("NVIDIA GH200 96GB", 102_625_181_696)}
COLUMNS = "job,devices,step_s,device_type,device_memory_bytes,peak_memory_bytes,parameters,layers,sequence,hidden".split(",")

# A formula whose stages are alike does not describe a plan whose fullest stage has this many times the mean of the layers.
MOST_UNEVEN = 1.5


class LeftOut(Exception):
    """Why a plan is no row."""


def facts(checkout: pathlib.Path, config: str) -> dict:
    """The size of a model. Of its layers, the first is the embedding and the last the head."""
    training = json.loads((checkout / PLANNER / "simulations/configs" / config).read_text())
    layers = json.loads((checkout / PLANNER / "llm_info.json").read_text())[training["model"]]["1"]
    return {
        "parameters": sum(layer["params_floats"] for layer in layers.values()),
        "layers": training["num_layers"],
        "sequence": training["sequence_length"],
        "hidden": training["hidden_size"],
    }


def row(plan: dict, workload: str, of_model: dict) -> dict:
    """The row of a plan, or LeftOut."""
    if len(plan["pipeline_list"]) != 1:
        raise LeftOut("they have several pipelines")
    (pipeline,) = plan["pipeline_list"]
    replicas = [replica for stage in pipeline["tmp_per_stage"] for replica in stage]
    machines = [machine for machine_list, _ in replicas for machine in machine_list]
    types = {name for name, _, _ in machines}
    if len(types) > 1:
        raise LeftOut("their GPUs are of several types")
    layers = [len(stage) for stage in pipeline["layers_per_stage"]]
    if sum(layers) != of_model["layers"] + 2:
        raise LeftOut(f"their stages have {sum(layers)} layers, and the model has {of_model['layers'] + 2}")
    if max(layers) > MOST_UNEVEN * sum(layers) / len(layers):
        raise LeftOut("a stage has many more layers than others")
    degrees = {(degree, len(machine_list), machine_list[0][1]) for machine_list, degree in replicas}
    dp = set(pipeline["dp"])
    if len(degrees) > 1 or len(dp) > 1:
        raise LeftOut("their stages have different degrees")
    ((tp, nodes, per_node),) = degrees
    if nodes != 1 or tp != per_node:
        raise LeftOut("their tensor-parallel ranks are not those of a node")
    (dp,) = dp
    pp, batch = pipeline["num_stages"], plan["gbs"]
    ga, rest = divmod(batch, plan["mbs"] * dp)
    if rest:
        raise LeftOut("their batch is not divided evenly")
    degrees = [("dp", dp), ("tp", tp), ("pp", pp), ("ga", ga)]
    spelling = "-".join(f"{name}{degree}" for name, degree in degrees if degree > 1) or "dp1"
    device_type, memory = DEVICES[types.pop()]
    return {
        "job": f"{workload}@b{batch}@{spelling}",
        "devices": "+".join([str(tp)] * (dp * pp)),
        "step_s": plan["real"],
        "device_type": device_type,
        "device_memory_bytes": memory,
        "peak_memory_bytes": plan["max_mem"],
        **of_model,
    }


def main() -> None:
    checkout = pathlib.Path(sys.argv[1])
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    validation, left_out = checkout / PLANNER / "simulations/validation", collections.Counter()
    folders = [(validation / "clariden" / name, *of) for name, of in MODELS.items()]
    for folder, workload, config in [*folders, (validation / "mit", *MODELS["OPT-350"])]:
        of_model = facts(checkout, config)
        for file in sorted(folder.glob("N*/*.json"), key=lambda file: (int(file.parent.name[1:]), file.name)):
            try:
                writer.writerow(row(json.loads(file.read_text()), workload, of_model))
            except LeftOut as why:
                left_out[str(why)] += 1
    for why, count in left_out.items():
        print(f"{count} plans are left out: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
