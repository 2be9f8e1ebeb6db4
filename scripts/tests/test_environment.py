"""Holds that the documentation names each environment variable that the sources read or set."""

import re
import subprocess
import unittest
from pathlib import Path
from typing import Dict, Iterator, Set

ROOT = Path(__file__).parents[2]

# Variables of users and of programs, and variables for work on Tandem itself.
PAGES = ("docs/environment.md", "CONTRIBUTING.md")

OURS = re.compile(r"\bTANDEM_[A-Z]+(?:_[A-Z]+)*\b")

# How a language reads or sets a variable, by the ending of the file.
USES = {
    ".rs": (
        re.compile(r"\benv::var(?:_os)?\(\s*\"([A-Z][A-Z0-9_]+)\""),
        re.compile(r"\.env(?:_remove)?\(\s*\"([A-Z][A-Z0-9_]+)\""),
    ),
    ".py": (
        re.compile(r"\benviron(?:ment)?(?:\.(?:get|setdefault|pop)\(|\[)\s*\"([A-Z][A-Z0-9_]+)\""),
        re.compile(r"\bgetenv\(\s*\"([A-Z][A-Z0-9_]+)\""),
    ),
    ".c": (re.compile(r"\bgetenv\(\s*\"([A-Z][A-Z0-9_]+)\""),),
    ".mjs": (re.compile(r"\bprocess\.env\.([A-Z][A-Z0-9_]+)"),),
    ".sh": (re.compile(r"\$\{([A-Z][A-Z0-9_]+):?-"), re.compile(r"\bexport ([A-Z][A-Z0-9_]+)=")),
}

# Rust files whose texts of capital letters are names of variables: what a launch sets and removes, and what a manifest records.
LISTS = (
    "profiler/jobs/src/machine.rs",
    "profiler/rig/src/launch/command.rs",
    "profiler/rig/src/launch/hook.rs",
    "profiler/rig/src/launch/launchers.rs",
    "profiler/rig/src/launch/preload.rs",
    "profiler/rig/src/mps.rs",
)
TEXT = re.compile(r"\"([A-Z][A-Z0-9]*_[A-Z0-9_]*|RANK|PYTHONPATH|PYTHONUNBUFFERED)\"")

# Cargo sets these for what it builds and runs.
OF_CARGO = re.compile(r"CARGO(_.*)?|OUT_DIR|DEP_.*")


def sources() -> Iterator[Path]:
    listed = subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    )
    for name in listed.splitlines():
        if (ROOT / name).is_file() and not name.startswith("reports/record/"):
            yield Path(name)


def kind(name: Path, text: str) -> str:
    """The ending of a file in the language of its first line, for scripts without one."""
    first = text.split("\n", 1)[0]
    if name.suffix or not first.startswith("#!"):
        return name.suffix
    return ".py" if "python" in first else ".sh"


def used() -> Dict[str, Path]:
    """Each variable, with a file that uses it."""
    found: Dict[str, Path] = {}
    for name in sources():
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        if name.suffix == ".md" or name == Path(__file__).relative_to(ROOT):
            continue
        patterns = [OURS, *USES.get(kind(name, text), ())]
        if str(name) in LISTS:
            patterns.append(TEXT)
        for pattern in patterns:
            for match in pattern.finditer(text):
                variable = match[match.lastindex or 0]
                if not OF_CARGO.fullmatch(variable):
                    found.setdefault(variable, name)
    return found


def described() -> Set[str]:
    """Names in code of the pages; a name that ends in an underscore and an asterisk stands for all that begin so."""
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    return set(re.findall(r"\b[A-Z][A-Z0-9_]+\*?", " ".join(re.findall(r"`([^`]*)`", text))))


class Environment(unittest.TestCase):
    def test_documents_name_each_variable_that_sources_use(self):
        names = described()
        begins = tuple(name[:-1] for name in names if name.endswith("_*"))
        lacking = {
            variable: str(file)
            for variable, file in used().items()
            if variable not in names and not variable.startswith(begins)
        }
        self.assertEqual(lacking, {}, f"{' or '.join(PAGES)} lacks these variables")

    def test_variables_of_all_languages_are_found(self):
        found = used()
        for variable in ("TANDEM_BIN", "COLUMNS", "LIBTORCH", "CHROMIUM", "CXX", "WORLD_SIZE", "SLURM_PROCID", "CUDA_HOME"):
            self.assertIn(variable, found)

    def test_the_page_has_no_variable_that_nothing_uses(self):
        text = (ROOT / PAGES[0]).read_text()
        rows = re.findall(r"^\| ((?:`[A-Z][A-Z0-9_]+\*?`(?:, )?)+) \|", text, re.MULTILINE)
        names = {name for cells in rows for name in re.findall(r"`([^`]+)`", cells)}
        found = used()
        unused = {name for name in names if not name.endswith("*") and name not in found}
        self.assertEqual(unused, set(), f"{PAGES[0]} has variables that no source uses")


if __name__ == "__main__":
    unittest.main()
