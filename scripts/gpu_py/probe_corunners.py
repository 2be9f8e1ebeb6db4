"""Two processes on one device, in time slices and under MPS: their rates, and the driver's view of each."""

import os
import time

import nvml
from gemm import Gemm
from mps import Daemon
from probes import ask, tell

WATCH_S = 3.0


def probe(device: str, quick: bool) -> bool:
    gpu = nvml.Library.open().device(device)
    sliced = ask("two processes in slices of time", watch, "in slices of time", gpu, device, {})
    return ask("two processes under MPS", under_mps, gpu, device) and sliced


def under_mps(gpu: nvml.Device, device: str) -> None:
    with Daemon(nvml.visible_entry(device)) as daemon:
        watch("under MPS", gpu, device, daemon.variables(), daemon)


def watch(how: str, gpu: nvml.Device, device: str, variables: dict[str, str], daemon: Daemon | None = None) -> None:
    clients = []
    try:
        for _ in range(2):
            clients.append(Gemm(device, variables))
        for client in clients:
            client.wait_for_first()
        pids = [client.pid for client in clients]
        since_us = int(time.time() * 1e6)
        rates = [client.rate_per_s(WATCH_S / 2) for client in clients]
        attributed = {entry.pid: entry.sm for entry in gpu.process_utilization(since_us)}
        listed = {info.pid: info.memory_bytes for info in gpu.processes(mps=daemon is not None)}
        attached = "" if daemon is None else f"; the daemon has {len(daemon.attached() & set(pids))} of them attached"
    finally:
        for client in clients:
            client.end()
    known = sum(pid in attributed for pid in pids)
    memory = sum(listed.get(pid, nvml.UNKNOWN) != nvml.UNKNOWN for pid in pids)
    answer = f"SM % is attributed to {known} of 2 processes, memory to {memory} of 2{attached}"
    if not known and attributed:
        answer += "; the driver names other processes, perhaps these in another pid namespace"
    tell(
        f"two processes {how}",
        answer,
        products_per_s=rates,
        sm_percent_by_driver=sorted(attributed.values()),
        processes_listed=len(listed),
        pid_namespace=os.readlink("/proc/self/ns/pid"),
    )
