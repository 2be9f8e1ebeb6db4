#!/usr/bin/env python3
"""Reads cargo's messages and prints what was built; used by scripts/lib.sh.

    cargo build --message-format=json-render-diagnostics | scripts/built.py NAME PACKAGES

Prints a JSON object a line for each program and each test program: `path`, `package`, `folder`, `target`, and whether it is a `test`.
Says on stderr every few seconds how many of about PACKAGES packages are built. cargo itself reports the paths, because
CARGO_TARGET_DIR and configuration files can change them.
"""

import json
import os
import sys
import time

PAUSE_S = 1 if sys.stderr.isatty() else 15


def main(name: str, packages: int) -> None:
    built, said_at = set(), time.monotonic()
    for line in sys.stdin:
        message = json.loads(line)
        if message["reason"] != "compiler-artifact":
            continue
        package = message["package_id"]
        built.add(package)
        if message["executable"]:
            target = message["target"]
            print(
                json.dumps(
                    {
                        "path": message["executable"],
                        # `path+file:///folder#name@version`.
                        "package": package.split("#")[-1].split("@")[0],
                        "folder": os.path.dirname(message["manifest_path"]),
                        "target": target["name"],
                        "test": message["profile"]["test"],
                    }
                ),
                flush=True,
            )
        now = time.monotonic()
        if not message["fresh"] and now - said_at >= PAUSE_S:
            said_at = now
            print(f"   {name}: {len(built)} of {packages} packages", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
