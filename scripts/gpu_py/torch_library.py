"""Makes the `.libtorch` of a bundle. torch-worker looks for its libraries in `.libtorch/lib` beside its folder."""

import shutil
from pathlib import Path

import libtorch
from workplace import Failed


def link(bundle: Path, named: Path | None) -> str:
    """Links to the named libtorch, or to that of this Python's PyTorch, and returns its version.

    The link is to the folder, because the libraries find NVIDIA's relative to it.
    """
    folder = named or installed()
    if not (folder / "lib" / "libtorch_cpu.so").exists():
        raise Failed(f"--libtorch {folder}: there is no lib/libtorch_cpu.so in it; name a folder with lib/")
    version = libtorch.version_of(folder)
    if version is None or not version.startswith("2.11."):
        found = f"is libtorch {version}" if version else "does not say which libtorch it is"
        raise Failed(f"{folder.name} {found}, and torch-worker needs 2.11; use a python3 with torch==2.11.0, or --libtorch")
    target = bundle / ".libtorch"
    try:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        (target / "lib").symlink_to((folder / "lib").resolve())
    except OSError as error:
        raise Failed(f"{target} cannot be made: {error.strerror}; copy the bundle to a folder that you can write") from None
    return f"{version} {'with' if libtorch.has_cuda(folder) else 'without'} CUDA"


def installed() -> Path:
    """The folder of the package `torch` of this Python, of any version, found without importing it."""
    folder = libtorch.package_of_this_python()
    if folder is None:
        raise Failed("this python3 has no PyTorch; run this with a python3 that has torch==2.11.0, or name --libtorch DIR")
    return folder
