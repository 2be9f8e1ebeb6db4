"""Execution plans, spelled as in the specs of the harness: `dp2-zero3`, `pp2-ga4`, `bf16`."""

import re
from typing import NamedTuple


class Plan(NamedTuple):
    dp: int = 1
    """Data-parallel degree."""

    tp: int = 1
    """Tensor-parallel degree."""

    pp: int = 1
    """Stages of the pipeline."""

    zero: int = 0
    """ZeRO stage, 0 to 3 (Rajbhandari et al., SC 2020)."""

    ga: int = 1
    """Micro-batches of an update."""

    gc: bool = False
    """Activation checkpointing."""

    offload: bool = False
    """The state of the optimizer is in host memory."""

    bf16: bool = False
    """The forward pass runs under autocast."""

    @classmethod
    def parse(cls, text: str) -> "Plan":
        parts = {}
        for part in text.split("-"):
            numbered = re.fullmatch(r"(dp|tp|pp|zero|ga)(\d+)", part)
            if numbered:
                parts[numbered[1]] = int(numbered[2])
            elif part in ("gc", "offload", "bf16"):
                parts[part] = True
            else:
                raise ValueError(f"'{part}' is no part of a plan")
        return cls(**parts)

    @property
    def ranks(self) -> int:
        return self.dp * self.tp * self.pp

    @property
    def divides_models(self) -> bool:
        """Whether a rank holds a part of the model or of the state of its optimizer, and not all of it."""
        return self.tp > 1 or self.pp > 1 or self.zero > 0

    def data_rank(self, rank: int) -> int:
        """The share of the data that a rank takes: ranks of one tensor are next to each other, stages far apart."""
        return rank // self.tp % self.dp
