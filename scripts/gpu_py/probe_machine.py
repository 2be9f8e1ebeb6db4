"""Lists the files that a measurement could rely on: drivers, MPS programs, cgroups, counters of the kernel."""

import glob
import os
import shutil
import subprocess
from pathlib import Path

import mps
from probes import NotPossible, ask, tell

LIBRARIES = ("libcuda.so", "libnvidia-ml.so", "libcudart.so", "libcupti.so", "libnvrtc.so", "libcudnn.so")


def probe(device: str, quick: bool) -> bool:
    questions = {
        "MPS programs": mps_programs,
        "libraries known to the loader": libraries,
        "cgroups": cgroups,
        "performance events of the kernel": performance_events,
        "where core dumps and shared memory go": shared_memory,
    }
    return all([ask(question, asked) for question, asked in questions.items()])


def mps_programs() -> None:
    control, server = mps.find("nvidia-cuda-mps-control"), mps.find("nvidia-cuda-mps-server")
    if control is None and server is None:
        raise NotPossible(f"neither is on the PATH or in {', '.join(mps.FOLDERS)}")
    tell("MPS programs", f"control: {control or 'none'}, server: {server or 'none'}")


def libraries() -> None:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=5).stdout.splitlines()
    found = sorted({line.split("=> ")[-1].strip() for line in listed if any(name in line for name in LIBRARIES)})
    elsewhere = sorted(glob.glob("/usr/local/nvidia/lib*/lib*.so.1") + glob.glob("/usr/local/cuda/lib64/libcupti.so*"))
    answer = f"ldconfig: {', '.join(found) or 'none'}; outside it: {', '.join(elsewhere[:20]) or 'none'}"
    tell("libraries known to the loader", answer, libraries=len(found))


def cgroups() -> None:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    kinds = [(kind, where) for _, where, kind, *_ in mounts if kind in ("cgroup", "cgroup2")]
    if not kinds:
        raise NotPossible("no cgroup is mounted")
    v2 = [where for kind, where in kinds if kind == "cgroup2"]
    layout = "v2" if len(v2) == len(kinds) else "hybrid" if v2 else "v1"
    controllers = Path(v2[0], "cgroup.controllers").read_text().strip() if v2 else ""
    writable = [where for _, where in kinds if os.access(where, os.W_OK)]
    answer = f"{layout}; controllers of v2: {controllers or 'none'}; can be written: {', '.join(writable) or 'none'}"
    tell("cgroups", answer, mounts=len(kinds))


def performance_events() -> None:
    path = Path("/proc/sys/kernel/perf_event_paranoid")
    if not path.exists():
        raise NotPossible("this kernel has no perf_event_paranoid")
    pmu = Path("/sys/bus/event_source/devices/cpu").exists()
    level = int(path.read_text())
    hardware = "there are hardware events" if pmu else "no hardware events"
    tell("performance events of the kernel", f"perf_event_paranoid is {level}; {hardware}", perf_event_paranoid=level)


def shared_memory() -> None:
    room = shutil.disk_usage("/dev/shm")
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    answer = f"/dev/shm has {room.free / 2**30:.1f} GiB free; core_pattern is {pattern!r}"
    tell("where core dumps and shared memory go", answer, shm_free_bytes=room.free)
