"""The calls of libnvidia-ml that the probes need, by ctypes. All of them only read."""

import ctypes
import os
from ctypes import byref, c_char_p, c_double, c_int, c_longlong, c_uint, c_ulonglong, c_void_p
from typing import NamedTuple

NOT_FOUND, INSUFFICIENT_SIZE = 6, 7
UNKNOWN = 0xFFFF_FFFF_FFFF_FFFF
"""The value of a 64-bit number that the driver does not know."""

VALUE_TYPES = ("double", "unsigned 32 bits", "unsigned long", "unsigned 64 bits", "signed 64 bits", "signed 32 bits")


class Error(Exception):
    def __init__(self, call: str, code: int, text: str):
        super().__init__(f"{call}: {text}")
        self.code = code


class Value(ctypes.Union):
    _fields_ = [("double", c_double), ("u32", c_uint), ("u64", c_ulonglong), ("i64", c_longlong)]

    def read(self, value_type: int) -> float | int:
        return self.double if value_type == 0 else self.u32 if value_type in (1, 5) else self.u64


class FieldValue(ctypes.Structure):
    _fields_ = [("field", c_uint), ("scope", c_uint), ("timestamp_us", c_longlong), ("latency_us", c_longlong)]
    _fields_ += [("value_type", c_uint), ("code", c_uint), ("value", Value)]


class Sample(ctypes.Structure):
    _fields_ = [("timestamp_us", c_ulonglong), ("value", Value)]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong)]
    _fields_ += [("free", c_ulonglong), ("used", c_ulonglong)]


class ProcessUtilization(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("timestamp_us", c_ulonglong), ("sm", c_uint), ("memory", c_uint)]
    _fields_ += [("encoder", c_uint), ("decoder", c_uint)]


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", c_uint), ("memory_bytes", c_ulonglong), ("gpu_instance", c_uint), ("compute_instance", c_uint)]


class GpmMetric(ctypes.Structure):
    _fields_ = [("metric", c_uint), ("code", c_uint), ("value", c_double)]
    _fields_ += [("short_name", c_char_p), ("long_name", c_char_p), ("unit", c_char_p)]


class GpmMetrics(ctypes.Structure):
    # The newest header has space for 333 metrics; the driver uses `count` of them.
    _fields_ = [("version", c_uint), ("count", c_uint), ("first", c_void_p), ("second", c_void_p)]
    _fields_ += [("metrics", GpmMetric * 333)]


class Reading(NamedTuple):
    value: float | None
    unit: str
    error: str | None


class Library:
    def __init__(self, handle: ctypes.CDLL):
        self._handle = handle
        handle.nvmlErrorString.restype = c_char_p

    @classmethod
    def open(cls) -> "Library":
        try:
            library = cls(ctypes.CDLL("libnvidia-ml.so.1"))
        except OSError:
            raise Error("libnvidia-ml.so.1", -1, "cannot be opened, so there is no NVIDIA driver") from None
        library.call("nvmlInit_v2")
        return library

    def call(self, name: str, *arguments) -> None:
        try:
            function = getattr(self._handle, name)
        except AttributeError:
            raise Error(name, -1, "this driver does not have it") from None
        if code := function(*arguments):
            raise Error(name, code, self.text(code))

    def text(self, code: int) -> str:
        return self._handle.nvmlErrorString(code).decode()

    def device(self, name: str) -> "Device":
        """`cuda:0` is the first device in CUDA_VISIBLE_DEVICES, as for `profile`."""
        entry, handle = visible_entry(name), c_void_p()
        if entry.isdecimal():
            self.call("nvmlDeviceGetHandleByIndex_v2", c_uint(int(entry)), byref(handle))
        else:
            self.call("nvmlDeviceGetHandleByUUID", entry.encode(), byref(handle))
        return Device(self, handle)


def visible_entry(name: str) -> str:
    """The value of CUDA_VISIBLE_DEVICES that makes a device the only visible one: its index, or its UUID."""
    index, listed = int(name.split(":")[1]), os.environ.get("CUDA_VISIBLE_DEVICES")
    entries = [entry.strip() for entry in listed.split(",")] if listed else [str(index)] * (index + 1)
    if index >= len(entries):
        raise Error(name, -1, f"CUDA_VISIBLE_DEVICES={listed} lets no such device through")
    return entries[index]


class Device:
    def __init__(self, library: Library, handle: c_void_p):
        self.library, self._handle = library, handle

    def call(self, name: str, *arguments) -> None:
        self.library.call(name, self._handle, *arguments)

    def name(self) -> str:
        text = ctypes.create_string_buffer(96)
        self.call("nvmlDeviceGetName", text, c_uint(len(text)))
        return text.value.decode()

    def uuid(self) -> str:
        text = ctypes.create_string_buffer(96)
        self.call("nvmlDeviceGetUUID", text, c_uint(len(text)))
        return text.value.decode()

    def compute_mode(self) -> str:
        mode = c_int()
        self.call("nvmlDeviceGetComputeMode", byref(mode))
        return ("default", "exclusive-thread", "prohibited", "exclusive-process")[mode.value]

    def memory(self) -> MemoryV2:
        memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        self.call("nvmlDeviceGetMemoryInfo_v2", byref(memory))
        return memory

    def fields(self, *ids: int) -> list[FieldValue]:
        values = (FieldValue * len(ids))(*(FieldValue(field=field) for field in ids))
        self.call("nvmlDeviceGetFieldValues", c_int(len(ids)), values)
        return list(values)

    def samples(self, kind: int, since_us: int = 0) -> tuple[int, list[Sample]]:
        """The type of the values, and the content of the driver's buffer since a wall-clock time."""
        value_type, count = c_uint(), c_uint()
        self.call("nvmlDeviceGetSamples", c_uint(kind), c_ulonglong(since_us), byref(value_type), byref(count), None)
        samples = (Sample * count.value)()
        arguments = (c_uint(kind), c_ulonglong(since_us), byref(value_type), byref(count), samples)
        self.call("nvmlDeviceGetSamples", *arguments)
        return value_type.value, list(samples)[: count.value]

    def process_utilization(self, since_us: int = 0) -> list[ProcessUtilization]:
        """One entry for each process that the driver saw since a wall-clock time."""
        for _ in range(5):
            count = c_uint(0)
            try:
                self.call("nvmlDeviceGetProcessUtilization", None, byref(count), c_ulonglong(since_us))
            except Error as error:
                if error.code == NOT_FOUND:
                    return []
                if error.code != INSUFFICIENT_SIZE:
                    raise
            samples = (ProcessUtilization * max(1, count.value))()
            try:
                self.call("nvmlDeviceGetProcessUtilization", samples, byref(count), c_ulonglong(since_us))
                return list(samples)[: count.value]
            except Error as error:
                if error.code == NOT_FOUND:
                    return []
                if error.code != INSUFFICIENT_SIZE:
                    raise
        raise Error("nvmlDeviceGetProcessUtilization", INSUFFICIENT_SIZE, "the list grew with every call")

    def processes(self, mps: bool) -> list[ProcessInfo]:
        """The processes with a compute context on the device, directly or through MPS."""
        infos = (ProcessInfo * 128)()
        count = c_uint(len(infos))
        kind = "MPSCompute" if mps else "Compute"
        self.call(f"nvmlDeviceGet{kind}RunningProcesses_v3", byref(count), infos)
        return list(infos)[: count.value]

    def gpm_sample(self) -> c_void_p:
        sample = c_void_p()
        self.library.call("nvmlGpmSampleAlloc", byref(sample))
        self.call("nvmlGpmSampleGet", sample)
        return sample

    def gpm(self, first: c_void_p, second: c_void_p, ids: list[int]) -> dict[int, Reading]:
        """Each metric over the time between two samples. Frees the samples."""
        request = GpmMetrics(version=1, count=len(ids), first=first, second=second)
        for slot, metric in zip(request.metrics, ids):
            slot.metric = metric
        try:
            self.library.call("nvmlGpmMetricsGet", byref(request))
        finally:
            for sample in (first, second):
                self.library.call("nvmlGpmSampleFree", sample)
        readings = {}
        for slot in request.metrics[: len(ids)]:
            error = self.library.text(slot.code) if slot.code else None
            value = None if slot.code else slot.value
            readings[slot.metric] = Reading(value, (slot.unit or b"").decode(), error)
        return readings
