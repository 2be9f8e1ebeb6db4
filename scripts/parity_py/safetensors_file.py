"""Reads safetensors files: eight bytes of length, a JSON header of that length, then the raw data.

The format is described at github.com/huggingface/safetensors.
"""

import json
import mmap
from pathlib import Path

import torch

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32}


def read(path: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the file by its name, in the order of the header, lying in the file's own pages."""
    with open(path, "rb") as file:
        # A private mapping that can be written to, which is what torch wants of a buffer.
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    header_end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:header_end])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        flat = torch.frombuffer(content, dtype=dtype, offset=header_end + begin, count=(end - begin) // dtype.itemsize)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors
