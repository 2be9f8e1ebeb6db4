"""What is known of the trace of Venus of September 2020, and what is chosen here to make one like it.

python3 facts.py mix | vcs | cluster [--profiling]

Prints the jobs of `sched trace make`, its virtual clusters, or the file of the cluster.

Facts are those that a study of the artifact of Lucid (Hu et al., ASPLOS 2023) counted in the published trace of Helios (Hu et al., SC
2021): the numbers of jobs by GPUs, the median and the longest duration, the GPU hours, the share of short jobs, and the size of the
cluster. The rest is chosen: the distributions of lengths are such that these facts hold, and so are the virtual clusters.
"""

import math
import sys

JOBS = 23_859
DAYS = 26
GPU_HOURS = 601_983
MEDIAN_S = 193
LONGEST_S = 1_286_670
SHORT_S, SHORT_SHARE = 200, 0.508
# The average completion time less the average time in the queue, of the trace under FIFO, which neither stops nor packs jobs.
MEAN_S = 66_750 - 54_981
# Of jobs of at most 8 GPUs, and of larger ones.
SHORT_SHARES = {"<= 8": 0.497, "> 8": 0.60}
# Jobs by the number of their GPUs. 717 jobs have other numbers, which are not known. They are shared out among these.
BY_DEVICES = {1: 13_488, 2: 1_490, 4: 1_645, 8: 4_630, 16: 523, 32: 964, 128: 402}
DEVICES_PER_NODE = 8

# Classes of jobs: the GPUs, the share of their jobs, and the median in seconds and the sigma of their log-normal durations. Large jobs
# are of two classes: six of ten last no longer than 200 s in the trace, and the others take hours. Those of 128 GPUs are shorter, because
# in the trace the jobs of more than 8 GPUs wait less under FIFO than others, which they could not behind jobs of 128 GPUs that run for days.
CLASSES = [
    *[(devices, 1.0, 137, 2.975) for devices in (1, 2, 4)],
    (8, 1.0, 1_080, 3.3),
    *[(devices, 0.63, 40, 1.0) for devices in (16, 32, 128)],
    *[(devices, 0.37, 20_000, 1.2) for devices in (16, 32)],
    (128, 0.37, 5_210, 1.2),
]

# Virtual clusters: nodes of 8 GPUs, and the fewest and the most GPUs of their jobs. Jobs of 16 and 32 GPUs and those of 128 are in virtual
# clusters of their own: a strict queue keeps the other nodes of a virtual cluster free for such a job until small ones have ended, which
# may take days, and then waits many times longer under FIFO than in the trace.
CLUSTERS = [(20, 9, 64), (18, 9, 64), (16, 65, 128)] + [(nodes, 1, 8) for nodes in (13, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 2)]
# The virtual clusters that give a node each to the profiler of Lucid.
PROFILERS = ["vc07", "vc08"]


def clusters() -> dict:
    """The number of nodes of each virtual cluster."""
    return {f"vc{number:02}": nodes for number, (nodes, _, _) in enumerate(CLUSTERS, 1)}


def sizes() -> dict:
    """The fewest and the most GPUs of the jobs of each virtual cluster."""
    return {f"vc{number:02}": (least, most) for number, (_, least, most) in enumerate(CLUSTERS, 1)}


def mean_s(median_s: float, sigma: float) -> float:
    """The mean of a log-normal distribution that ends at the longest job."""
    below = lambda z: math.erfc(-z / math.sqrt(2)) / 2
    end = math.log(LONGEST_S / median_s) / sigma
    return median_s * math.exp(sigma * sigma / 2) * below(end - sigma) / below(end)


def short_share(median_s: float, sigma: float) -> float:
    """The share of a log-normal distribution that is short."""
    return math.erfc(-math.log(SHORT_S / median_s) / sigma / math.sqrt(2)) / 2


def work() -> dict:
    """The expected GPU seconds of all jobs, by their GPUs."""
    scale = JOBS / sum(BY_DEVICES.values())
    of = {devices: 0.0 for devices in BY_DEVICES}
    for devices, share, median_s, sigma in CLASSES:
        of[devices] += BY_DEVICES[devices] * share * scale * devices * mean_s(median_s, sigma)
    return of


def mix() -> list:
    """The arguments of `sched trace make` that name jobs."""
    line = lambda devices, share, median_s, sigma: (
        f"any@dp{devices}={round(BY_DEVICES[devices] * share, 1)}:log-normal:{median_s}s:{sigma}"
    )
    return [line(*of_class) for of_class in CLASSES]


def vcs() -> str:
    """The virtual clusters of `sched trace make`. Those with the same sizes of jobs are expected to have the same load."""
    nodes = clusters()
    return ",".join(f"{name}={nodes[name]}:{least}..{most}" for name, (least, most) in sizes().items())


def cluster(has_profilers: bool) -> str:
    """The file of the cluster. Two virtual clusters give a node each to the profiler, if there is one."""
    lines = ["# A cluster like Venus: 135 nodes of 8 GPUs in 15 virtual clusters, whose sizes are chosen."]
    group = lambda name, count, more="": [
        "",
        "[[nodes]]",
        f'virtual_cluster = "{name}"',
        f"count = {count}",
        f"devices = {DEVICES_PER_NODE}",
        'device_type = "NVIDIA GeForce RTX 3090"',
        'device_memory = "24GiB"',
        *([more] if more else []),
    ]
    for name, nodes in clusters().items():
        gives = has_profilers and name in PROFILERS
        lines += group(name, nodes - gives)
        if gives:
            lines += group(name, 1, "profiling = true")
    return "\n".join(lines)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["mix"]:
        print(*mix())
    elif arguments == ["vcs"]:
        print(vcs())
    elif arguments in (["cluster"], ["cluster", "--profiling"]):
        print(cluster("--profiling" in arguments))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
