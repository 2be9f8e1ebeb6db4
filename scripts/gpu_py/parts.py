"""The parts of a check, most valuable first: their commands and their time limits."""

import importlib.util
import json
import re
import statistics
import sys
from dataclasses import dataclass
from typing import Callable

import libtorch
import packing
import testbed as testbeds
from gemm import visible
from pairs import bound, colocate
from probes import PROBES, answers_of
from record_files import keep, write_csv
from workplace import Failed, Ran, Skipped, Workplace, read_csv, say, some_of


def quick_job(place: Workplace) -> list[str]:
    """A job with short steps. On a core it also starts at once."""
    return ["--job", "lstm" if place.is_gpu else "synthetic-spin"]


@dataclass(frozen=True)
class Part:
    name: str
    full_limit_s: int
    measure: Callable[[Workplace], str | None]
    """Writes its files into the record, and returns a note if necessary."""

    def limit_s(self, quick: bool) -> int:
        """A quick check does at most a tenth of the work in twice the time, so that a part that takes longer hangs."""
        return 2 * self.full_limit_s if quick else self.full_limit_s


def doctor(place: Workplace) -> str | None:
    rows = place.rows("doctor")
    write_csv(place, "doctor", rows)
    found = {row["about"]: row for row in rows}
    for about in ("torch-worker", place.device):
        if place.is_gpu or about == "torch-worker":
            row = found.get(about, {"health": "lacks", "found": "is not there"})
            if row["health"] == "lacks":
                raise Failed(f"{about}: {row['found']}")
    return None


def transfers(place: Workplace) -> str | None:
    if not place.is_gpu:
        raise Skipped(f"{place.device} has no link to a host")
    write_csv(place, "transfers", place.rows("doctor", "--transfers", "--device", place.device))
    return None


def worker(place: Workplace) -> str | None:
    """torch-worker's own tests of CUDA: its functions on a GPU, elsewhere their errors."""
    # The first skipped test needs a machine without a driver, and libraries of the build machine.
    number, said = tested(place, "--skip", "every_entry_point_of_a_library_without_a_driver", "--skip", "plans::")
    if place.is_gpu and "of CUDA there is: Device" not in said:
        raise Failed("torch-worker finds no CUDA device")
    return number


def plans(place: Workplace) -> str | None:
    """Plans of each kind of rank, whose ranks share the device through Gloo."""
    name = "plans::ranks_that_share_a_gpu" if place.is_gpu else "plans::ranks_that_share_the_cpu"
    number, _ = tested(place, name)
    return number


def tested(place: Workplace, *chosen: str) -> tuple[str, str]:
    """Runs tests of the bundle, and returns the number of those that passed, and their output."""
    shown = [f"{name}={value}" for name, value in visible(place.device).items()] if place.is_gpu else []
    command = ["env", *shown, place.bundle / "bin" / "torch-worker-cuda-test", "--test-threads=1", "--nocapture"]
    ran = place.run([*command, *chosen])
    if ran.torn:
        raise Failed("its time was up")
    if ran.code:
        raise Failed(f"exit code {ran.code}; what failed stands in {place.work.name}/")
    passed = re.search(r"(\d+) passed", ran.stdout)
    return f"{passed[1] if passed else 'no'} tests passed", ran.stdout


def readings(place: Workplace) -> str | None:
    calls = ["--calls", "10", *quick_job(place)] if place.quick else []
    arguments = ["doctor", "--readings", "--device", place.device, *calls, "--out", place.relative("readings")]
    write_csv(place, "readings", place.rows(*arguments))
    return None


def probes(place: Workplace) -> str | None:
    """Each probe has a process of its own, so that a hanging one does not affect others."""
    answers, torn = [], []
    for probe in PROBES:
        if place.left_s() < 8:
            answers += [probe.not_asked("the time of this part was used up")]
            continue
        if reason := probe.reason_not_to(place):
            answers += [probe.not_asked(reason)]
            continue
        say(f"   {probe.name}")
        command = [sys.executable, place.bundle / "scripts" / "gpu_py" / "probes.py", probe.name, place.device]
        ran = place.run([*command, "--quick"] if place.quick else command, limit_s=probe.limit_s(place.quick))
        answers += answers_of(probe, ran)
        if ran.torn or ran.code:
            torn.append(probe.name)
        # Written after every probe, so that an interrupted check keeps earlier answers.
        (place.record / "probes.json").write_text(json.dumps(answers, indent=1) + "\n")
    if torn:
        raise Failed(f"not answered to the end: {', '.join(torn)}")
    return None


def overhead(place: Workplace) -> str | None:
    """At the usual rate of the sampler's fast tier, which on a GPU is 25 Hz, then at others."""
    rows = []
    asked = [(None, 2)] if place.quick else [(None, 4), ("100", 2)]
    for fast_hz, blocks in asked:
        arguments = ["doctor", "--overhead", "--device", place.device, "--blocks", str(blocks)]
        arguments += ["--fast-hz", fast_hz] if fast_hz else []
        arguments += quick_job(place) if place.quick else []
        rows += place.rows(*arguments, "--out", place.relative(f"overhead-{fast_hz or 'default'}"))
        write_csv(place, "overhead", rows)
    return None


def single(place: Workplace) -> str | None:
    """The grid of models, precisions and batches. The budget is such that the last launch ends in time."""
    if place.quick:
        jobs = ["lstm", "synthetic-spin"]
        settings = ["--repeats", "1", "--seconds", "0.5"]
    else:
        batches = {"resnet50": (32, 128), "gpt2": (4, 16)}
        jobs = [
            f"{workload}@b{batch}{plan}"
            for workload, sizes in batches.items()
            for plan in ("", "@bf16")
            for batch in sizes
        ]
        settings = ["--repeats", "2", "--seconds", "2"]
    # A launch of the largest model ends within 20 s. The memory of jobs with a named plan is estimated first, which the
    # budget includes.
    budget_s = place.left_s() - 20
    settings += ["--budget", f"{max(1, round(budget_s))}s"]
    out = place.relative("single")
    ran = place.profile("single", *jobs, "--device", place.device, *settings, "--out", out)
    for name in ("manifest.toml", "end.toml", "measurements.csv", "summary.csv"):
        keep(place, out, name)
    if ran.torn:
        raise Failed("its time was up; what was complete is there")
    if not (place.record / "summary.csv").exists():
        raise Failed(f"exit code {ran.code}: {ran.last_line}")
    rows = read_csv(place.record / "summary.csv")
    if not rows:
        raise Failed(f"no job was measured: {ran.last_line}")
    # Launches that the budget left out are no failure.
    failed = [f"{row['job']}: {row['err_detail'] or row['status']}" for row in rows if row["status"] != "ok"]
    if failed:
        raise Failed(some_of(failed))
    fewest = min(int(row["repeats"]) for row in rows)
    return f"{len(rows)} jobs, {fewest} launches or more of each"


def calibrate(place: Workplace) -> str | None:
    """What a restart and each way to suspend cost the jobs of the testbed."""
    jobs = packing.loads(place.is_gpu, place.quick).jobs.values()
    settings = ["--parts", "restart", "--repeats", "2"]
    out = f"{place.record.name}/machine.toml"
    ran = place.profile(
        "calibrate", *jobs, "--device", place.device, *settings, "--out", out, "--run", place.relative("calibrate")
    )
    if ran.code or ran.torn:
        raise Failed("its time was up" if ran.torn else f"exit code {ran.code}: {ran.last_line}")
    return None


def testbed(place: Workplace) -> str | None:
    """A trace under each policy, and its prediction from the measurements of the parts before."""
    pairs = packing.loads(place.is_gpu, place.quick)
    measured = place.relative(f"colocate-{pairs.name}")
    summary = read_csv(place.record.parent / measured / "summary.csv")
    alone = {
        job: float(row["step_ns_median"])
        for job in pairs.jobs.values()
        for row in summary
        if not row["group"] and row["step_ns_median"] and row["workload"] == job.partition("@")[0]
    }
    if len(alone) < len(pairs.jobs):
        raise Skipped("the jobs alone were not measured by the part colocate")
    if not (place.record / "machine.toml").exists():
        raise Skipped("the costs of switches were not measured by the part calibrate")
    chosen = testbeds.QUICK if place.quick else testbeds.FULL
    testbeds.write_trace(place.record / "testbed-trace.csv", chosen, alone)
    settings = ["--device", place.device, "--table", measured, "--progress-every", "300ms"]
    settings += ["--machine", f"{place.record.name}/machine.toml"]
    rows, missing = [], []
    for name, policy in chosen.policies.items():
        out = place.relative(f"testbed-{name}")
        trace = f"{place.record.name}/testbed-trace.csv"
        ran = place.sched("run", trace, "--policy", policy, *settings, "--out", out)
        keep(place, out, "outcomes.csv", f"testbed-{name}-outcomes.csv")
        if ran.code or ran.torn:
            missing.append(f"{name}: {'its time was up' if ran.torn else f'exit code {ran.code}: {ran.last_line}'}")
            continue
        rows += testbeds.rows_of(name, json.loads(place.sched("fidelity", out, "--json").stdout))
        write_csv(place, "testbed", rows)
    if missing:
        raise Failed(some_of(missing))
    return f"{len(chosen.policies)} policies, {chosen.jobs} jobs each"


def own(place: Workplace) -> str | None:
    """Measures the steps of a program that is not in the catalog, and compares them with the program's own clock."""
    if importlib.util.find_spec("torch") is None:
        raise Skipped("this python3 has no PyTorch")
    device = "cuda" if place.is_gpu else "cpu"
    width, steps = ("4096", "400") if place.is_gpu else ("256", "200")
    program = [sys.executable, place.bundle / "scripts" / "gpu_py" / "own_program.py", device, width, steps]
    shown = (f"{name}={value}" for name, value in visible(place.device).items()) if place.is_gpu else ()
    bound = ["env", *shown] if place.is_gpu else ["taskset", "--cpu-list", place.device.partition(":")[2]]
    bare = place.run([*bound, *program])
    if bare.code or bare.torn:
        raise Failed(f"the program alone: exit code {bare.code}: {bare.last_line}")
    itself_ns = json.loads(bare.stdout)["step_ns"]
    out = place.relative("own")
    settings = ["--device", place.device, "--repeats", "1" if place.quick else "3", "--out", out]
    ran = place.profile("single", *settings, "--", *map(str, program))
    rows = read_csv(place.record.parent / out / "measurements.csv")
    if not rows or any(row["status"] != "ok" for row in rows):
        raise Failed(f"exit code {ran.code}: {rows[0]['err_detail'] if rows else ran.last_line}")
    write_csv(place, "own", [{**row, "step_ns_by_itself": round(itself_ns)} for row in rows])
    measured_ns = statistics.mean(float(row["step_ns_mean"]) for row in rows)
    return f"{measured_ns / 1e6:.3f} ms a step, {itself_ns / 1e6:.3f} ms by the program's own clock in a run without the harness"


def parity(place: Workplace) -> str | None:
    if libtorch.pytorch_of_this_python() is None:
        raise Skipped("this python3 has no PyTorch 2.11 to compare with")
    # Of jobs whose models in Python need PyTorch alone, as that machine may have neither torchvision nor transformers.
    if place.quick:
        jobs, settings = ["lstm"], ["--blocks", "1", "--seconds", "0.5"]
    else:
        jobs, settings = ["resnet50@b64", "gpt2@b8", "lstm"], ["--blocks", "3", "--seconds", "0.5"]
    settings += ["--budget", str(max(1, round(place.left_s() - place.grace_s)))]
    launches = f"{place.record.name}/parity-launches.csv"
    command = [sys.executable, place.bundle / "scripts" / "parity", *jobs, "--device", place.device, *settings]
    ran = place.run([*command, "--out", launches, "--json"])
    verdicts = verdicts_of(ran)
    write_csv(place, "parity", verdicts)
    holding = sum(verdict["loss_holds"] and verdict["ratio_holds"] for verdict in verdicts)
    return f"{holding} of {len(verdicts)} jobs hold"


def verdicts_of(ran: Ran) -> list[dict]:
    try:
        return json.loads(ran.stdout)
    except ValueError:
        raise Failed("its time was up" if ran.torn else f"exit code {ran.code}: {ran.last_line}") from None


def verify(place: Workplace) -> str | None:
    workloads = ["lstm" if place.quick else "set:quick"]
    rows = place.rows("verify", *workloads, "--device", place.device, "--out", place.relative("verify"))
    write_csv(place, "verify", rows)
    if place.torn:
        raise Failed(f"its time was up after {len(rows)} workloads")
    unverified = [f"{row['workload']}: {row['reason']}" for row in rows if not row["verified"]]
    if unverified:
        raise Failed(some_of(unverified))
    return f"{len(rows)} workloads"


PARTS = [
    Part("doctor", 20, doctor),
    Part("single", 150, single),
    Part("colocate", 130, colocate),
    Part("calibrate", 45, calibrate),
    Part("testbed", 120, testbed),
    Part("own", 40, own),
    Part("transfers", 15, transfers),
    Part("worker", 20, worker),
    Part("plans", 40, plans),
    Part("parity", 90, parity),
    Part("readings", 45, readings),
    Part("overhead", 60, overhead),
    Part("probes", 190, probes),
    Part("bound", 60, bound),
    Part("verify", 50, verify),
]
"""The limits end within 1,080 seconds, including five seconds to write the record. On an H200, with every part ok, `colocate`
took 70.6 s of 100 s with two modes of sharing, `calibrate` 29.7 s of 60 s and `testbed` 99.8 s of 120 s. Since then `colocate`
has a third mode and 30 s more for it, half of them from `calibrate`. `single`, `probes` and `readings` reached shorter limits
there, and `overhead`, `bound`, `parity` and `verify` have not run to their end: theirs are estimates."""
