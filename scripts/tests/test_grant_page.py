"""The grant page of the scripts is one that workers accept."""

import os
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "workloads/python/hook")]
from grant_page import grant_page  # noqa: E402
from tandem_hook.grant import Grant  # noqa: E402


class GrantPageTest(unittest.TestCase):
    def test_a_reader_sees_the_steps_and_nobody_truncates_the_page(self):
        with grant_page(7) as page:
            self.assertEqual(Grant(page).steps(), 7)
            for size in (0, 4095, 4097):
                with self.assertRaises(PermissionError):
                    os.truncate(page, size)
        self.assertFalse(os.path.exists(page))


if __name__ == "__main__":
    unittest.main()
