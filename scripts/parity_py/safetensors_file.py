"""Reads safetensors files: eight bytes of length, a JSON header of that length, then the raw data.

The format is described at github.com/huggingface/safetensors.
"""

import json
from pathlib import Path

import torch

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32}


def read(path: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the file by its name, in the order of the header."""
    content = path.read_bytes()
    header_end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:header_end])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = bytearray(content[header_end + begin : header_end + end])
        tensors[name] = torch.frombuffer(data, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors
