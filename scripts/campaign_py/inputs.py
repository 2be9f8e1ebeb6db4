"""Readers of files, given changed files: what does each do, beside reading or refusing?"""

import random
import re
import resource
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from corpus import Reader, put, readers
from mutations import mutate
from programs import program

LIMIT_S = 300
"""A command that runs longer hangs. Each takes under a second on an idle machine."""

LIMIT_CPU_S = 60
LIMIT_BYTES = 4 << 30
"""Address space of a command; a larger one ends it."""

CODES = {"report": {0, 1, 2, 4, 5}, "sched": {0, 1, 2, 3, 4, 5, 6}, "profile": {0, 1, 2, 3, 4, 5, 6}}

NONSENSE = re.compile(r"(?<![\w./-])[-+]?(?:inf|nan)(?![\w./-])|1844674407370955\d{4}|1844674407[34](?!\d)", re.IGNORECASE)
"""Numbers that no measurement has: infinite, undefined, and the largest of 64 bits, as nanoseconds or as seconds."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


FAULTS = ("panic", "signal", "hang", "code", "silent", "unnamed", "control", "nonsense")


@dataclass(frozen=True)
class Trial:
    """One changed file, and what the reader did."""

    number: int
    reader: str
    file: str
    change: str
    code: int | None
    """None if it was ended after LIMIT_S."""
    answer: str
    """`read`, `refused` or one of FAULTS."""
    said: str
    seconds: float


def campaign(seed: int, numbers: range, workers: int, keep: Path | None, progress) -> tuple[list[dict], list[str]]:
    """Runs the trials `numbers` of a seed. Returns a row for each reader with counts of trials, and a text for each fault. With
    `keep`, the files of trials with a fault stay in folders below."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
        corpus = readers(Path(scratch) / "made")
        rows = {reader.name: dict.fromkeys(("reader", "trials", "read", "refused", *FAULTS, "seconds"), 0) for reader in corpus}
        texts = []
        with ThreadPoolExecutor(workers) as pool:
            for trial in pool.map(lambda number: run(seed, number, corpus, Path(scratch), keep), numbers):
                row = rows[trial.reader]
                row["trials"] += 1
                row[trial.answer] += 1
                row["seconds"] = round(row["seconds"] + trial.seconds, 3)
                if trial.answer in FAULTS:
                    texts.append(f"{trial.number} {trial.reader}: {trial.answer} ({trial.code}): {trial.file}: {trial.change}\n{trial.said}")
                progress()
    return [{**row, "reader": name} for name, row in rows.items()], texts


def run(seed: int, number: int, corpus: list[Reader], scratch: Path, keep: Path | None) -> Trial:
    chance = random.Random(f"{seed}/{number}")
    reader = chance.choice(corpus)
    file = chance.choice(reader.changed)
    content, change = mutate(reader.files[file], chance)
    folder = scratch / str(number)
    put(folder, {**reader.files, file: content})
    name, *arguments = reader.arguments
    begin_s = time.monotonic()
    try:
        done = subprocess.run(
            [program(name), *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            preexec_fn=limit,
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as ended:
        code, out, err = None, ended.stdout or b"", ended.stderr or b""
    seconds = time.monotonic() - begin_s
    out, err = (text.decode(errors="replace") for text in (out, err))
    answer = answer_of(name, Path(file).name, content.decode(errors="replace"), code, out, err)
    if answer in FAULTS and keep:
        kept = keep / str(number)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
    shutil.rmtree(folder)
    return Trial(number, reader.name, file, change, code, answer, (err or out)[-400:], seconds)


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer_of(name: str, file: str, content: str, code: int | None, out: str, err: str) -> str:
    """What a command did with a changed file of this content, in one word: `read`, `refused`, or one of FAULTS."""
    if code is None or code == -24:
        return "hang"
    if code == 101 or "panicked at" in err:
        return "panic"
    if code < 0:
        return "signal"
    if code not in CODES[name]:
        return "code"
    if code >= 2 and "error: " not in err:
        return "silent"
    if code == 2 and file not in err and file.rsplit(".", 1)[0] not in err:
        return "unnamed"
    if CONTROL.search(err):
        return "control"
    # A text of the file that is shown as it is, such as a name, is no number of the command's.
    if code < 2 and any(number not in content for number in NONSENSE.findall(out)):
        return "nonsense"
    return "read" if code < 2 else "refused"
