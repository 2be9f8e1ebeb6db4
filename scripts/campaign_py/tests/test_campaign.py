"""A short form of both parts of scripts/campaign, and what counts as a fault."""

import os
import random
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(FOLDER))
import inputs  # noqa: E402
import kills  # noqa: E402
import programs  # noqa: E402
from mutations import mutate  # noqa: E402

SEED = 20261126
HAS_PROGRAMS = all(programs.is_built(name) for name in ("profile", "sched", "report"))


@unittest.skipUnless(HAS_PROGRAMS, "programs: there is no bin/profile; scripts/setup builds it")
@unittest.skipUnless({0, 1} <= os.sched_getaffinity(0), "cores: it needs cores 0 and 1")
class CampaignTest(unittest.TestCase):
    def test_damaged_files_are_read_or_refused(self):
        rows, texts = inputs.campaign(SEED, range(200), 1, None, lambda: None)
        self.assertEqual(texts, [])
        self.assertEqual(sum(row["trials"] for row in rows), 200)
        self.assertTrue(all(row["trials"] > 0 for row in rows), rows)

    def test_killed_commands_go_on_without_loss(self):
        # The others train for seconds.
        only = ["profile single", "sched run", "sched fit", "profile export", "report"]
        rows, texts = kills.campaign(SEED, 12, None, lambda: None, only)
        self.assertEqual(texts, [])
        self.assertEqual(sum(row["kills"] for row in rows), 12)


class FaultsTest(unittest.TestCase):
    def test_only_reading_and_refusing_by_name_are_no_faults(self):
        for code, out, err, answer in [
            (0, "a table", "", "read"),
            (1, "a table", "warning: a row failed", "read"),
            (2, "", "error: run/t.csv: line 3: no number", "refused"),
            (2, "", "error: line 3: no number", "unnamed"),
            (2, "", "", "silent"),
            (7, "", "error: t.csv", "code"),
            (101, "", "thread 'main' panicked at", "panic"),
            (-6, "", "memory allocation of 9 bytes failed", "signal"),
            (-24, "", "", "hang"),
            (None, "", "", "hang"),
            (0, "0 ns to 18446744074 s", "", "nonsense"),
            (0, "error  +inf %", "", "nonsense"),
            (0, "job inf", "", "read"),
            (2, "", "error: t.csv: \x1b[31m", "control"),
            (0, "info: 12.5 % of t.csv", "", "read"),
        ]:
            self.assertEqual(inputs.answer_of("sched", "t.csv", "a job 'inf'", code, out, err), answer, (code, out, err))

    def test_a_change_depends_on_its_seed_alone_and_changes_something(self):
        content = b"name,steps\na,5\nb,7\n"
        changed = {mutate(content, random.Random(f"1/{number}")) for number in range(100)}
        self.assertEqual(changed, {mutate(content, random.Random(f"1/{number}")) for number in range(100)})
        self.assertGreater(len({text for text, _ in changed} - {content}), 80)

    def test_rows_without_an_end_are_no_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "t.csv"
            self.assertEqual(kills.whole_rows(table), set())
            table.write_text("a,b\n1,2\n3,4\n5,")
            self.assertEqual(kills.whole_rows(table), {"1,2\n", "3,4\n"})


if __name__ == "__main__":
    unittest.main()
