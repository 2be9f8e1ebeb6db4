"""Completes a record: its page, the search for private names in it, and the archive."""

import getpass
import os
import platform
import re
import site
import sys
import sysconfig
import tarfile
from pathlib import Path

import page
from workplace import Failed, Outcome, Workplace


def write(place: Workplace, outcomes: list[Outcome]) -> str:
    if not any(place.record.iterdir()):
        raise Failed("no part left anything to record")
    (place.record / "README.md").write_text(page.describe(place, outcomes))
    # Messages of programs name files; remaining names are found below.
    for path in place.record.iterdir():
        path.write_text(place.without_places(path.read_text(errors="replace")))
    found = what_names_this_machine(place.record, names_of_this_machine(place))
    # The archive is made anyway, so that it can be examined elsewhere.
    pack(place.record)
    if found:
        raise Failed(f"not to be published as it is: {'; '.join(found[:5])}")
    size = sum(path.stat().st_size for path in place.record.iterdir())
    return f"{size / 1024:.0f} KiB in {len(list(place.record.iterdir()))} files"


def names_of_this_machine(place: Workplace) -> dict[str, re.Pattern]:
    """Text that a record must not contain: users, hosts and folders. Generic names do not count."""
    folders = {"/home", "/root", str(place.bundle), str(place.record.parent), str(Path.cwd()), os.environ.get("HOME", "")}
    folders |= {str((place.bundle / ".libtorch" / "lib").resolve().parent)}
    folders |= {sysconfig.get_path("purelib"), site.getusersitepackages(), sys.prefix, os.environ.get("TMPDIR", "")}
    # System folders are the same on every machine.
    folders -= {"", "/", "/usr", "/tmp", "/usr/local"}
    patterns = {folder: re.compile(rf"(?<![\w.~>-]){re.escape(folder)}(?![\w-])") for folder in folders}
    words = {platform.node(), platform.node().partition(".")[0], user()} - {"", "root", "user", "localhost"}
    return patterns | {word: re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])") for word in words}


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def what_names_this_machine(record: Path, names: dict[str, re.Pattern]) -> list[str]:
    found = []
    for path in sorted(record.iterdir()):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found += [f"{path.name}:{number} holds '{name}'" for name, pattern in names.items() if pattern.search(line)]
    return found


def pack(record: Path) -> None:
    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    with tarfile.open(record.with_name(f"{record.name}.tar.gz"), "w:gz") as archive:
        archive.add(record, record.name, filter=anonymous)
