"""The reference models as users of PyTorch write them, with parameters under the names that torch-worker exports.

A family is a file, named as the family is in the `model` table of a workload, and its `Model` is built from that table, as
a launch's spec holds it. It is the model of torchvision or transformers where that one takes these sizes and is as
fast as one written out here. The file of a family that they have as well says why its model is written out.
"""

import importlib

from .reference import Reference


def build(model: dict) -> Reference:
    """`{"gpt2": {"layers": 4, ...}}` to a model with PyTorch's own initial weights."""
    ((family, shape),) = model.items()
    return importlib.import_module(f"{__name__}.{family.replace('-', '_')}").Model(**shape)
