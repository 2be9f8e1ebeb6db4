"""The programs of the harness, as scripts/setup leaves them."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(os.environ.get("TANDEM_BIN", ROOT / "bin"))


def program(name: str) -> str:
    """The path of `profile`, `sched` or `report`, in bin/ or in the folder that TANDEM_BIN names."""
    if not is_built(name):
        raise SystemExit(f"campaign: there is no {FOLDER / name}; scripts/setup builds it")
    return str(FOLDER / name)


def is_built(name: str) -> bool:
    return (FOLDER / name).is_file()
