#!/usr/bin/env python3
"""Put libtorch 2.11 into `.libtorch` of this checkout.

    python3 scripts/libtorch.py [--cuda | --cpu]

`.libtorch` then has `lib/` and `include/`, which torch-sys and the linker look for. The first of these sources is used:

1. the folder that the environment variable LIBTORCH names, which cargo uses as well;
2. a libtorch that is already in `.libtorch`;
3. the PyTorch 2.11 of the python3 that runs this script, used in place;
4. wheels, fetched by pip and checked against the hashes below: three for the CPU (0.5 GB to fetch, 0.5 GB kept), or all
   those that CUDA needs (2.2 GB to fetch, 3.6 GB kept) with --cuda or if an NVIDIA driver is found.

Runs under any Python from 3.8 on: libtorch does not depend on the version of Python that its wheel was built for.
"""

import argparse
import ctypes
import errno
import fcntl
import fnmatch
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple, Optional, Tuple

VERSION = "2.11.0"
"""The version torch-sys is generated for; libtorch keeps no stable C++ interface between minor versions."""

ROOT = Path(__file__).resolve().parent.parent
DESTINATION = ROOT / ".libtorch"
SCRATCH = ROOT / ".libtorch-new"
"""On the disk of the checkout, so that the last step is one rename and an interrupted run leaves nothing complete."""


class WheelSet(NamedTuple):
    """Wheels to fetch, the parts of them to keep, and the space that unpacking needs."""

    name: str
    wheels: Tuple[Tuple[str, str], ...]
    members: Tuple[str, ...]
    disk_bytes: int


# libtorch_cpu.so of these wheels is linked to the CUDA runtime and to CUPTI, both of which start without a driver.
# Nothing else of NVIDIA's is needed to run on a CPU.
CPU = WheelSet(
    name="CPU set",
    wheels=(
        ("torch==2.11.0", "0f68f4ac6d95d12e896c3b7a912b5871619542ec54d3649cf48cc1edd4dd2756"),
        ("nvidia-cuda-runtime==13.0.96", "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"),
        ("nvidia-cuda-cupti==13.0.85", "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8"),
    ),
    members=(
        "torch/include/*",
        "torch/lib/libc10.so",
        "torch/lib/libtorch_cpu.so",
        "torch/lib/libgomp.so.1",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/lib/libcupti.so.13",
    ),
    disk_bytes=1_200_000_000,
)

# The libraries that the metadata of torch 2.11.0 asks for, less its Python packages, and the rest of the headers that
# torch-worker takes to be built with NCCL.
CUDA = WheelSet(
    name="CUDA set",
    wheels=CPU.wheels
    + (
        ("nvidia-cublas==13.1.0.3", "ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171"),
        ("nvidia-cuda-nvrtc==13.0.88", "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575"),
        ("nvidia-cudnn-cu13==9.19.0.56", "d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf"),
        ("nvidia-cufft==12.0.0.61", "6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3"),
        ("nvidia-cufile==1.15.1.6", "08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44"),
        ("nvidia-curand==10.4.0.35", "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc"),
        ("nvidia-cusolver==12.0.4.66", "0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112"),
        ("nvidia-cusparse==12.6.3.3", "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b"),
        ("nvidia-cusparselt-cu13==0.8.0", "25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd"),
        ("nvidia-nccl-cu13==2.28.9", "e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42"),
        ("nvidia-nvjitlink==13.0.88", "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b"),
        ("nvidia-nvshmem-cu13==3.4.5", "290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80"),
        ("nvidia-nvtx==13.0.85", "4936d1d6780fbe68db454f5e72a42ff64d1fd6397df9f363ae786930fd5c1cd4"),
        ("nvidia-cuda-cccl==13.0.85", "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649"),
        ("nvidia-cuda-crt==13.0.88", "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4"),
    ),
    members=(
        "torch/include/*",
        "torch/lib/*.so*",
        "nvidia/*/lib/*.so*",
        "nvidia/cu13/include/*",
        "nvidia/nccl/include/*",
    ),
    disk_bytes=6_500_000_000,
)

# The wheels carry tags of several ages; pip takes only the tags it is given.
PLATFORMS = ["manylinux_2_%d_x86_64" % minor for minor in range(28, 4, -1)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]


class Failed(Exception):
    """An error for the user, with a remedy."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Put libtorch %s into .libtorch of this checkout." % VERSION)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--cuda", action="store_true", help="with CUDA, even where no NVIDIA driver is found")
    choice.add_argument("--cpu", action="store_true", help="do not fetch CUDA, even where an NVIDIA driver is found")
    arguments = parser.parse_args()
    # One run at a time in a checkout: a second one waits here, then finds the result of the first.
    checkout = os.open(str(ROOT), os.O_RDONLY)
    fcntl.flock(checkout, fcntl.LOCK_EX)
    shutil.rmtree(str(SCRATCH), ignore_errors=True)
    try:
        provide(cuda=arguments.cuda or (not arguments.cpu and has_nvidia_driver()))
    finally:
        shutil.rmtree(str(SCRATCH), ignore_errors=True)


def provide(cuda: bool) -> None:
    """Makes `.libtorch` contain a libtorch, with CUDA if requested, and reports which one."""
    named = os.environ.get("LIBTORCH")
    if named and Path(named).resolve() != DESTINATION.resolve():
        if describe(Path(named)) is None:
            raise Failed(
                "LIBTORCH names %s, which holds no libtorch 2.11 (lib/libtorch_cpu.so, include/ATen); unset it or mend it"
                % named
            )
        adopt(Path(named))
        return say("libtorch: the one that LIBTORCH names, %s" % named)

    present = describe(DESTINATION)
    if present and (has_cuda(DESTINATION) or not cuda):
        return say("libtorch: %s, already in .libtorch" % present)

    installed = pytorch_of_this_python()
    if installed and (has_cuda(installed) or not cuda):
        adopt(installed)
        return say("libtorch: %s, used where it lies: %s" % (describe(DESTINATION), installed))

    wheel_set = CUDA if cuda else CPU
    check_machine(wheel_set)
    say("libtorch: fetching %s, the %s, into .libtorch" % (VERSION, wheel_set.name))
    fetch(wheel_set)
    say("libtorch: %s, ready in .libtorch" % describe(DESTINATION))


def describe(folder: Path) -> Optional[str]:
    """Name the libtorch in `folder`, or None if it is not a complete libtorch 2.11."""
    if not (folder / "lib" / "libtorch_cpu.so").exists() or not (folder / "include" / "ATen").is_dir():
        return None
    version = version_of(folder)
    if version is None or not version.startswith("2.11."):
        return None
    return "%s %s CUDA" % (version, "with" if has_cuda(folder) else "without")


def version_of(folder: Path) -> Optional[str]:
    """The version that a libtorch folder or an installed PyTorch package states, read beside the libraries after following links.

    An adopted package can be upgraded at any time, so no separate record of the version is kept.
    """
    home = (folder / "lib").resolve().parent
    if (home / "version.py").exists():
        match = re.search(r"__version__ = '([^'+]+)", (home / "version.py").read_text())
        return match.group(1) if match else None
    if (home / "build-version").exists():
        return (home / "build-version").read_text().strip().split("+")[0]
    return None


def has_cuda(folder: Path) -> bool:
    return (folder / "lib" / "libtorch_cuda.so").exists()


def has_nvidia_driver() -> bool:
    """The kernel driver shows itself in /proc, except in some containers, where its libraries can be loaded all the same."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
        try:
            ctypes.CDLL(library)
            return True
        except OSError:
            continue
    return False


def pytorch_of_this_python() -> Optional[Path]:
    """The folder of the PyTorch 2.11 that this interpreter would import."""
    folder = package_of_this_python()
    return folder if folder and describe(folder) else None


def package_of_this_python() -> Optional[Path]:
    """The folder of the PyTorch of any version that this interpreter would import, found without importing it."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent if spec and spec.origin else None


def adopt(folder: Path) -> None:
    """Link to a libtorch in another folder.

    The links are of `lib` and `include`, not copies, because its libraries find NVIDIA's relative to their own folder.
    """
    new = SCRATCH / "libtorch"
    new.mkdir(parents=True)
    for part in ("lib", "include"):
        (new / part).symlink_to((folder / part).resolve())
    replace_destination(new)


def fetch(wheel_set: WheelSet) -> None:
    wheels = SCRATCH / "wheels"
    download(wheel_set, wheels)
    new = SCRATCH / "libtorch"
    # torch's libraries look for NVIDIA's in ../../nvidia, so the layout of site-packages is kept.
    for wheel in sorted(wheels.iterdir()):
        unpack(wheel, new / "site-packages", wheel_set.members)
        wheel.unlink()
    torch = Path("site-packages") / "torch"
    (new / torch / "build-version").write_text(VERSION + "\n")
    for part in ("lib", "include", "build-version"):
        (new / part).symlink_to(torch / part)
    # torch-sys links with -ltorch. The libtorch.so of the wheel is an empty library that needs libtorch_cuda.so; this
    # line for the linker names the library that the programs really need.
    (new / "lib" / "libtorch.so").write_text("INPUT(libtorch_cpu.so)\n")
    replace_destination(new)


def check_machine(wheel_set: WheelSet) -> None:
    libc, libc_version = platform.libc_ver()
    if platform.system() != "Linux" or platform.machine() != "x86_64" or libc != "glibc":
        raise Failed(
            "the wheels are for Linux on x86_64 with glibc, and this is %s on %s; install PyTorch 2.11 for python3 "
            "in another way, or set LIBTORCH to a libtorch %s, and run this again"
            % (platform.system(), platform.machine(), VERSION)
        )
    if tuple(int(part) for part in libc_version.split(".")[:2]) < (2, 28):
        raise Failed("PyTorch 2.11 needs glibc 2.28 or newer and this machine has %s; use a newer system" % libc_version)
    if importlib.util.find_spec("pip") is None:
        raise Failed("python3 has no pip (%s); install it, on Debian: apt install python3-pip" % sys.executable)
    free_bytes = shutil.disk_usage(str(ROOT)).free
    if free_bytes < wheel_set.disk_bytes:
        raise Failed(
            "the %s takes %.1f GB while it is unpacked and the disk of this checkout has %.1f GB free; make room"
            % (wheel_set.name, wheel_set.disk_bytes / 1e9, free_bytes / 1e9)
        )


def download(wheel_set: WheelSet, folder: Path) -> None:
    folder.mkdir(parents=True)
    requirements = SCRATCH / "requirements.txt"
    requirements.write_text("".join("%s --hash=sha256:%s\n" % wheel for wheel in wheel_set.wheels))
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12", "--require-hashes"]
    for tag in PLATFORMS:
        command += ["--platform", tag]
    if not sys.stderr.isatty():
        command.append("--quiet")
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    # pip's output goes to stderr, so that stdout stays free for the caller.
    if subprocess.run(command, stdout=sys.stderr.fileno()).returncode != 0:
        raise Failed(
            "pip could not fetch the wheels, for the reason it gives above; check the network, a proxy and the room on the "
            "disk, upgrade pip if it does not know an option, or install torch==%s for python3 and run this again" % VERSION
        )


def unpack(wheel: Path, site_packages: Path, members: Tuple[str, ...]) -> None:
    with zipfile.ZipFile(str(wheel)) as archive:
        for name in archive.namelist():
            if not name.endswith("/") and any(fnmatch.fnmatchcase(name, pattern) for pattern in members):
                archive.extract(name, str(site_packages))


def replace_destination(new: Path) -> None:
    if DESTINATION.is_symlink():
        DESTINATION.unlink()
    elif DESTINATION.exists():
        shutil.rmtree(str(DESTINATION))
    new.rename(DESTINATION)


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit("libtorch: %s." % failure)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        hint = "; make room and run this again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        sys.exit("libtorch: %s%s." % (error, hint))
