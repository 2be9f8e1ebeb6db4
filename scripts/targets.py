#!/usr/bin/env python3
"""Prints the arguments of cargo that select the test programs with tests of a name; used by scripts/test.

    scripts/targets.py NAME

The first line is `harness`, or `all` if torch-worker has such tests. Each line after it is an argument, such as `--lib` or `--test`.
A test has a name if its function or a module around it contains the name, as in libtest. Prints nothing if there is no such test.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def main(name: str) -> None:
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]))
    selected, scope = {}, "harness"
    for package in metadata["packages"]:
        for target in package["targets"]:
            kind = target["kind"][0]
            if kind in ("bench", "example", "custom-build") or not has(Path(target["src_path"]), kind, name):
                continue
            # A selection holds for all packages: cargo would build others with other features if some were named.
            arguments = {"test": ("--test", target["name"]), "bin": ("--bin", target["name"])}.get(kind, ("--lib",))
            selected[arguments] = None
            if package["name"] == "tandem-torch-worker":
                scope = "all"
    if selected:
        print("\n".join([scope, *(argument for arguments in selected for argument in arguments)]))


def has(root: Path, kind: str, name: str) -> bool:
    """Whether a test of the target with this root file has the name, or with `::` at its end a module."""
    last = name.strip(":").split("::")[-1]
    function = re.compile(rf"#\[test\]\s+(?:#\[.*\]\s+)*fn \w*{re.escape(last)}")
    # A program of one file shares its folder with a library.
    files = [root] if kind == "bin" else root.parent.rglob("*.rs") if root.name in ("main.rs", "lib.rs") else [root]
    for file in files:
        text = file.read_text()
        in_function = not name.endswith("::") and function.search(text)
        if in_function or ("#[test]" in text and last in str(file.relative_to(root.parent))):
            return True
    return False


if __name__ == "__main__":
    main(sys.argv[1])
