"""The hook that holds messages of commits to CONTRIBUTING.md."""

import subprocess
import tempfile
import unittest
from pathlib import Path

HOOK = Path(__file__).resolve().parents[1] / "hooks/commit-msg"


def answer(message: str):
    """The exit code of the hook, and what it says."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(message)
        file.flush()
        said = subprocess.run([HOOK, file.name], capture_output=True, text=True)
    return said.returncode, said.stderr


class CommitMessageTest(unittest.TestCase):
    def test_a_subject_with_an_area_and_a_body_is_taken(self):
        for message in (
            "sched: fail a program that ends early\n\nIts outcome was ok.\n",
            "sched fit: call errors so\n\nWhy.\n# Please enter the message\n",
            "docs, scripts: wrap a line" + "x" * 46 + "\n\nIt was long.",
            "Merge branch 'main'\n",
            "fixup! docs: wrap a line\n",
        ):
            self.assertEqual(answer(message), (0, ""), message)

    def test_a_message_that_breaks_a_rule_is_refused_with_the_rule(self):
        for message, words in (
            ("docs: " + "x" * 67 + "\n\nWhy.\n", "the subject has 73 characters"),
            ("Wrap a line\n\nWhy.\n", "no 'area: verb ..'"),
            ("docs: Wrap a line\n\nWhy.\n", "no 'area: verb ..'"),
            ("", "no 'area: verb ..'"),
            ("docs: wrap a line\n", "there is no body"),
            ("docs: wrap a line\n\n# Comment\n# ---- >8 ----\ndiff\n", "there is no body"),
        ):
            code, said = answer(message)
            self.assertEqual(code, 1, message)
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
