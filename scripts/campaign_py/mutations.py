"""Changes of a file that a program, an editor or a disk could make, and some that an attacker would."""

import random
import re

NUMBERS = [
    "0", "-1", "1e308", "-1e308", "1e-320", "NaN", "inf", "-inf", "", "2.0", "0.5", "1e19", "1e12", "4294967296",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "0x10", "True",
]  # fmt: skip
"""Texts in place of a number: bounds of its type, values that it cannot have, and other ways to write one."""

TEXTS = ["", " ", "../../x", "/dev/zero", "a\x1b[31mb", "a,b", '"', "é" * 50, "x" * 5_000, "None", "1970-01-01T00:00:00Z"]
"""Texts in place of a word."""

NUMBER = re.compile(rb"(?<![\w.+-])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
WORD = re.compile(rb"[A-Za-z_][\w@:.-]*")


def mutate(content: bytes, chance: random.Random) -> tuple[bytes, str]:
    """The content with one to three changes, and their names."""
    names = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        change = chance.choice(CHANGES)
        content = change(content, chance)
        names.append(change.__name__)
    return content, "+".join(names)


def number(content: bytes, chance: random.Random) -> bytes:
    return replaced(content, NUMBER, NUMBERS, chance)


def word(content: bytes, chance: random.Random) -> bytes:
    return replaced(content, WORD, TEXTS, chance)


def replaced(content: bytes, pattern: re.Pattern, texts: list[str], chance: random.Random) -> bytes:
    matches = list(pattern.finditer(content))
    if not matches:
        return content
    match = chance.choice(matches)
    return content[: match.start()] + chance.choice(texts).encode() + content[match.end() :]


def byte(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + bytes([chance.randrange(256)]) + content[at + chance.randrange(2) :]


def end(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def line_twice(content: bytes, chance: random.Random) -> bytes:
    return of_lines(content, chance, lambda lines, at: lines.insert(at, lines[at]))


def line_less(content: bytes, chance: random.Random) -> bytes:
    return of_lines(content, chance, lambda lines, at: lines.pop(at))


def lines_swapped(content: bytes, chance: random.Random) -> bytes:
    def swap(lines: list[bytes], at: int) -> None:
        other = chance.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]

    return of_lines(content, chance, swap)


def of_lines(content: bytes, chance: random.Random, change) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        change(lines, chance.randrange(len(lines)))
    return b"".join(lines)


def column_less(content: bytes, chance: random.Random) -> bytes:
    """Removes one column: the text between two commas, in each line."""
    rows = [line.split(b",") for line in content.splitlines()]
    at = chance.randrange(max(len(rows[0]), 1)) if rows else 0
    return b"".join(b",".join(row[:at] + row[at + 1 :]) + b"\n" for row in rows)


def endings_of_windows(content: bytes, chance: random.Random) -> bytes:
    return b"\xef\xbb\xbf" * chance.randrange(2) + content.replace(b"\n", b"\r\n")


CHANGES = [number, number, number, word, word, byte, end, line_twice, line_less, lines_swapped, column_less, endings_of_windows]
