"""Probes MPS in the device's compute mode: a canary client, then a client with a share of the device."""

import nvml
from gemm import Gemm
from mps import Daemon
from probes import NotPossible, tell

QUESTION = "MPS: daemon, canary, attached"
SHARE = "30"


def probe(device: str, quick: bool) -> None:
    gpu = nvml.Library.open().device(device)
    mode = gpu.compute_mode()
    daemon = Daemon(nvml.visible_entry(device))
    try:
        with daemon:
            whole = canary(daemon, gpu, device, mode)
            share(daemon, device, whole)
    except NotPossible as reason:
        tell(QUESTION, f"not possible here: {reason}", compute_mode=mode)
    left = "; ".join(daemon.residue) or "nothing"
    tell("MPS: what is left after quit", left, items=len(daemon.residue))


def canary(daemon: Daemon, gpu: nvml.Device, device: str, mode: str) -> float:
    """Runs a client that must compute within 20 s and be known to the daemon; returns its products per second."""
    client = Gemm(device, daemon.variables())
    try:
        client.wait_for_first()
        by_daemon = client.pid in daemon.attached()
        by_driver = [info.pid for info in gpu.processes(mps=True)]
        if not by_daemon:
            raise NotPossible(f"the client ran without MPS, as {daemon.server_log()}")
        rate = client.rate_per_s(2.0)
        seen = "among them the client" if client.pid in by_driver else "and the client is none of them"
        answer = f"in compute mode {mode} the client is attached; NVML lists {len(by_driver)} MPS processes, {seen}"
        tell(QUESTION, answer, compute_mode=mode, servers=daemon.servers(), products_per_s=rate)
        return rate
    finally:
        forced(daemon, client)


def share(daemon: Daemon, device: str, whole_per_s: float) -> None:
    client = Gemm(device, {**daemon.variables(), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": SHARE})
    try:
        client.wait_for_first()
        attached = client.pid in daemon.attached()
        rate = client.rate_per_s(2.0)
    finally:
        forced(daemon, client)
    if not attached:
        raise NotPossible(f"the client with {SHARE} % of the threads ran without MPS")
    question = f"MPS: rate of products with {SHARE} % of the threads over that with all"
    tell(question, f"{rate / whole_per_s:.3f}", products_per_s=rate, ratio=rate / whole_per_s)


def forced(daemon: Daemon, client: Gemm) -> None:
    if how := client.end():
        daemon.residue.append(how)
