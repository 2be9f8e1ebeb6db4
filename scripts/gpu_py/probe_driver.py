"""Probes the driver's buffers, the width of its counters and its units, beyond `profile doctor --readings`."""

import time

import nvml
from gemm import Gemm
from probes import NotPossible, ask, tell

SAMPLINGS = ("power", "GPU utilization", "memory utilization", "encoder", "decoder", "SM clock", "memory clock")
"""In the order of `nvmlSamplingType_t`."""

GPM_METRICS = {1: "graphics", 2: "SM", 3: "occupancy", 5: "tensor", 10: "DRAM", 20: "PCIe TX", 21: "PCIe RX"}


def probe(device: str, quick: bool) -> bool:
    gpu = nvml.Library.open().device(device)
    answered = [
        ask("is used + free + reserved the total", memory_identity, gpu),
        ask("type of the PCIe byte counters", counter_types, gpu),
        ask("GPM at rest", gpm_windows, gpu, "at rest"),
        ask("GPM under load", gpm_under_load, gpu, device),
    ]
    answered += [ask(f"buffer of {name}", buffer, gpu, kind, name) for kind, name in enumerate(SAMPLINGS)]
    return all(answered)


def memory_identity(gpu: nvml.Device) -> None:
    memory = gpu.memory()
    rest = memory.total - memory.used - memory.free
    if rest == memory.reserved:
        answer = "used + free + reserved = total: used does not contain reserved"
    elif rest == 0:
        answer = "used + free = total: used contains reserved"
    else:
        answer = f"neither: {rest - memory.reserved} bytes are in none of the three"
    numbers = {f"{name}_bytes": getattr(memory, name) for name in ("total", "used", "free", "reserved")}
    tell("is used + free + reserved the total", answer, **numbers)


def counter_types(gpu: nvml.Device) -> None:
    values = gpu.fields(197, 198)
    words, numbers = [], {}
    for value, name in zip(values, ("tx", "rx")):
        if value.code:
            words.append(f"{name}: {gpu.library.text(value.code)}")
            continue
        words.append(f"{name}: {nvml.VALUE_TYPES[value.value_type]}")
        numbers |= {f"{name}_value": value.value.read(value.value_type), f"{name}_latency_us": value.latency_us}
    tell("type of the PCIe byte counters", "; ".join(words), **numbers)


def gpm_under_load(gpu: nvml.Device, device: str) -> None:
    client = Gemm(device, {})
    try:
        client.wait_for_first()
        gpm_windows(gpu, "under load")
    finally:
        client.end()


def gpm_windows(gpu: nvml.Device, load: str) -> None:
    """In a valid window an idle device shows about 0, and a device with matrix products is full; others are invalid."""
    for window_ms in (10, 20, 50, 100, 200):
        first = gpu.gpm_sample()
        time.sleep(window_ms / 1e3)
        readings = gpu.gpm(first, gpu.gpm_sample(), list(GPM_METRICS))
        words, numbers = [], {}
        for metric, name in GPM_METRICS.items():
            value, unit, error = readings[metric]
            words.append(f"{name} {error or f'{value:.4g} {unit}'}")
            numbers[f"metric_{metric}"] = value
        tell(f"GPM {load}: units and values in a window of {window_ms} ms", "; ".join(words), **numbers)


def buffer(gpu: nvml.Device, kind: int, name: str) -> None:
    _, samples = gpu.samples(kind)
    times_us = sorted({sample.timestamp_us for sample in samples})
    if len(times_us) < 2:
        raise NotPossible(f"the buffer holds {len(times_us)} samples")
    gaps_us = sorted(later - earlier for earlier, later in zip(times_us, times_us[1:]))
    period_ms, depth_s = gaps_us[len(gaps_us) // 2] / 1e3, (times_us[-1] - times_us[0]) / 1e6
    answer = f"{len(times_us)} samples, one every {period_ms:.1f} ms, {depth_s:.2f} s back"
    age_s = time.time() - times_us[-1] / 1e6
    tell(f"buffer of {name}", answer, samples=len(times_us), period_ms=period_ms, depth_s=depth_s, newest_age_s=age_s)
