#!/usr/bin/env python3
"""Runs test programs, two at a time, and goes on after failures; used by scripts/test.

    scripts/suite.py PROGRAMS FOLDER [ARGUMENT OF A TEST PROGRAM...]

PROGRAMS is a file with a JSON object a line: what scripts/built.py prints of a test, or `name`, `command` and
`waits` of another program, which runs without the arguments. Programs whose tests wait most of the time run beside those that compute,
each kind one after another, the first with more threads. When all that wait have run, two that compute run at a time. The output of
each goes to a file of FOLDER. Prints a line for each program, at the end the output of programs in which a test failed, the names of
these tests, and as the last line how many passed and failed. Exits with 1 if a test failed or a program was not run.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

PASSED = (
    # libtest, once for each program
    (re.compile(r"^test result: .*?(\d+) passed;", re.M), lambda counts: int(counts[1])),
    # unittest, whose number of tests has those that failed and those that were skipped
    (
        re.compile(r"^Ran (\d+) tests? in .*\n+(?:OK|FAILED)(.*)", re.M),
        lambda counts: int(counts[1]) - sum(map(int, re.findall(r"(?:failures|errors|skipped)=(\d+)", counts[2]))),
    ),
    # node's test runner
    (re.compile(r"^(?:# |ℹ )pass (\d+)", re.M), lambda counts: int(counts[1])),
)
"""How a runner says how many of its tests passed."""

FAILED = (
    re.compile(r"^test (.+?) \.\.\. FAILED", re.M),
    re.compile(r"^(?:FAIL|ERROR): (.+)$", re.M),
    re.compile(r"^(?:not ok \d+ - |✖ (?!failing tests:))(.+?)(?: \([\d.]+ms\))?$", re.M),
)
"""How they name a test that failed."""


WAITING = (
    "tandem-profiler it",
    "tandem-rig rig",
    "tandem-scheduler commands",
    "tandem-torch-worker cuda",
    "tandem-torch-worker program",
)
"""Cargo test programs that mostly wait for processes. The split balances the two queues: each takes about as long as the other."""


class Program(NamedTuple):
    name: str
    folder: str
    command: List[str]
    environment: Dict[str, str]
    waits: bool


def program_of(line: str, arguments: List[str]) -> Program:
    facts = json.loads(line)
    if "command" in facts:
        return Program(facts["name"], ".", facts["command"], {}, facts["waits"])
    name = f"{facts['package']} {facts['target']}"
    # As under `cargo test`.
    environment = {"CARGO_PKG_NAME": facts["package"], "CARGO_MANIFEST_DIR": facts["folder"]}
    return Program(name, facts["folder"], [facts["path"], *arguments], environment, name in WAITING)


class Outcome(NamedTuple):
    name: str
    seconds: float
    passed: int
    failed: List[str]
    output: Path


def run(program: Program, output: Path) -> Outcome:
    """Runs one program to its end. A program that fails without naming a test counts as one failed test."""
    # Tests that wait need no core meanwhile, so that several at once have room on one; libgomp's idle threads spin.
    threads = max(6, os.cpu_count() or 1) if program.waits else max(1, (os.cpu_count() or 2) - 1)
    environment = {"RUST_TEST_THREADS": str(threads), "OMP_NUM_THREADS": "1", **os.environ, **program.environment}
    began = time.monotonic()
    with open(output, "wb") as file:
        code = subprocess.run(
            program.command,
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        ).returncode
    seconds = time.monotonic() - began
    text = output.read_text(errors="replace")
    passed = sum(read(counts) for pattern, read in PASSED for counts in pattern.finditer(text))
    failed = sorted({name for pattern in FAILED for name in pattern.findall(text)})
    if code != 0 and not failed:
        failed = [f"{' '.join(program.command)}: exit code {code}"]
    return Outcome(program.name, seconds, passed, failed, output)


def main(programs_file: str, folder: str, arguments: List[str]) -> int:
    programs = [program_of(line, arguments) for line in Path(programs_file).read_text().splitlines()]
    numbered = [(program, Path(folder) / f"{number:02}.txt") for number, program in enumerate(programs)]
    waiting = deque(each for each in numbered if each[0].waits)
    computing = deque(each for each in numbered if not each[0].waits)
    outcomes: List[Outcome] = []

    def run_all(*ways: Callable[[], Tuple[Program, Path]]) -> None:
        while program := first_of(ways):
            outcome = run(*program)
            outcomes.append(outcome)
            say(outcome)

    # It takes programs that compute from the other end.
    others = threading.Thread(target=run_all, args=(waiting.popleft, computing.pop))
    others.start()
    run_all(computing.popleft)
    others.join()
    if len(outcomes) < len(programs):
        print(f"{len(programs) - len(outcomes)} programs were not run", flush=True)
        return 1

    failed = [outcome for outcome in outcomes if outcome.failed]
    for outcome in failed:
        print(f"\n==== {outcome.name}\n{outcome.output.read_text(errors='replace')}", flush=True)
    for outcome in failed:
        for test in outcome.failed:
            print(f"FAILED {outcome.name}: {test}")
    total = sum(len(outcome.failed) for outcome in failed)
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {total} failed", flush=True)
    return 1 if failed else 0


def first_of(ways: Iterable[Callable[[], Tuple[Program, Path]]]) -> Optional[Tuple[Program, Path]]:
    """A program by the first of these ways that has one left."""
    for take in ways:
        try:
            return take()
        except IndexError:
            pass
    return None


def say(outcome: Outcome) -> None:
    verdict = f"{outcome.passed} passed" + (f", {len(outcome.failed)} FAILED" if outcome.failed else "")
    print(f"{outcome.seconds:5.0f} s  {outcome.name}: {verdict}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
