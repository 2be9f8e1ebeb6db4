"""The list of policies, the runs that are kept, and the table, from results that are known."""

import gzip
import json
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(PACKAGE), str(PACKAGE.parent)]
import main  # noqa: E402
import policies  # noqa: E402
import runs  # noqa: E402
import table  # noqa: E402
import traces  # noqa: E402
from waiting import LONG_S  # noqa: E402

REFERENCE = PACKAGE.parents[2] / "shared" / "reference"
SECOND = 10**9


def totals(mean_s: int, **more) -> dict:
    return {"policy": "p", "jobs": 3, "ok": 3, "failed": 0, "unsupported": 0, "jct_ns_mean": mean_s * SECOND, "drawn": None, **more}


class Policies(unittest.TestCase):
    def test_policies_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "sched"
            rows = json.dumps([{"name": "fifo", "usage": "fifo"}, {"name": "exec", "usage": "exec:COMMAND"}])
            program.write_text(f"#!/bin/sh\n[ \"$*\" = 'policies --json' ] && echo '{rows}'\n")
            program.chmod(0o755)
            self.assertEqual(policies.of_program(str(program)), ["fifo", "exec"])

    def test_a_policy_is_refused_where_it_has_nothing_to_decide_by(self):
        self.assertEqual(policies.refusal("sia:every=5s", set()), "no job of this trace is elastic")
        self.assertEqual(policies.refusal("sia", {"elastic"}), "")
        self.assertEqual(policies.refusal("horus-stand-in", {"intervals"}), "the utilisations of its jobs are not known")
        self.assertEqual(policies.refusal("a-new-one:with=settings", set()), "")
        self.assertIn("program", policies.refusal("exec", {"elastic"}))
        # Every need is one that some trace has, and has a reason.
        there = set().union(*(trace.has for trace in traces.TRACES))
        self.assertEqual(there, set(policies.REASONS))
        self.assertTrue(set(policies.NEEDS.values()) <= there)


class Options(unittest.TestCase):
    def test_seeds_are_numbers(self):
        self.assertEqual(main.seeds("1,20"), ["1", "20"])
        for text in ("", "1,", "a", "1 2"):
            with self.assertRaisesRegex(main.argparse.ArgumentTypeError, "is no list of seeds"):
                main.seeds(text)


class Runs(unittest.TestCase):
    def test_a_run_is_kept_and_not_repeated(self):
        trace = traces.TRACES[0]
        with tempfile.TemporaryDirectory() as folder:
            # A program that notes each start and prints its totals, or fails for one policy.
            log, program = Path(folder) / "log", Path(folder) / "sched"
            program.write_text(
                f"#!/bin/sh\necho \"$*\" >>{log}\ncase \"$*\" in *broken*) echo 'note: x' >&2; echo 'error: it is broken' >&2; exit 2 ;; esac\n"
                f"echo '{json.dumps([totals(5)])}'\nexit 1\n"
            )
            program.chmod(0o755)
            run = lambda policy: runs.run(str(program), trace, policy, ["t.csv"], Path(folder) / "1", LONG_S)
            for _ in range(2):
                self.assertEqual(run("fifo")["totals"]["jct_ns_mean"], 5 * SECOND)
                self.assertEqual(run("gandiva:quantum=2s")["totals"]["ok"], 3)
                self.assertEqual(run("broken")["reason"], "it is broken")
            started = log.read_text().splitlines()
            self.assertEqual(started[0], "sim t.csv --policy fifo --json")
            self.assertEqual(started[1], "sim t.csv --policy gandiva:quantum=2s --json --progress-every 60s")
            self.assertEqual(len(started), 3)

    def test_a_run_that_takes_too_long_is_ended(self):
        found = runs.simulate(["sleep", "infinity"], 0.2)
        self.assertEqual(found, {"reason": "it took longer than 0.2 s", "wall_s": 0.2})
        self.assertTrue(runs.is_too_slow(found, 0.2))

    def test_a_run_that_was_kept_under_a_higher_limit_counts(self):
        self.assertFalse(runs.is_too_slow({"totals": totals(5), "wall_s": 90}, 60))
        self.assertFalse(runs.is_too_slow({"reason": "it is broken", "wall_s": 1}, 60))


class Table(unittest.TestCase):
    def test_numbers_of_objects_have_their_names_before_them(self):
        of = totals(5, decision_times={"mean_us": 2.5}, fairness={"rho_mean": 1.5}, migrations=None)
        found = table.numbers(of)
        self.assertEqual((found["decision_times_mean_us"], found["fairness_rho_mean"]), (2.5, 1.5))
        self.assertFalse({"drawn", "policy", "migrations"} & set(found))

    def test_the_table_has_means_and_ranges_and_what_was_not_run(self):
        lines = []
        for policy, seed, mean_s in [("fifo", "1", 90), ("fifo", "2", 110), ("srtf", "1", 50), ("srtf", "2", 50)]:
            lines += table.lines("t", policy, seed, {"totals": totals(mean_s, preemptions=2), "wall_s": 1})
        lines += table.lines("t", "sia", "", {"reason": "no job of this trace is elastic"})
        lines += table.lines("t", "fifo", "3", {"reason": "it took longer than 60 s"})
        lines += table.lines("other", "srtf", "1", {"totals": totals(7), "wall_s": 1})
        self.assertIn(["t", "fifo", "1", "jct_ns_mean", 90 * SECOND], lines)
        text = table.of_trace("t", "By chance: seeds.", lines)
        header, _, first, second = text[4:8]
        self.assertTrue(header.startswith("| policy | seeds | average JCT, s | preemptions |"), header)
        # The shorter average is first.
        self.assertTrue(first.startswith("| `srtf` | 2 | 50.0 | 2 |"), first)
        self.assertTrue(second.startswith("| `fifo` | 2 | 100.0 (90.0 to 110.0) | 2 |"), second)
        self.assertEqual(text[-3:], ["- `sia`: no job of this trace is elastic", "- `fifo`: it took longer than 60 s (seeds 3)", ""])


class Traces(unittest.TestCase):
    @unittest.skipUnless(REFERENCE.is_dir(), "published-traces: ../shared/reference is absent")
    def test_a_window_is_consecutive_and_depends_on_the_seed(self):
        header, *rows = traces.philly_window(REFERENCE, 50, 1)
        at, devices = header.index("timestamp"), header.index("num_gpus")
        times = [row[at] for row in rows]
        self.assertEqual((len(rows), times), (50, sorted(times)))
        self.assertLessEqual(max(int(row[devices]) for row in rows), traces.PHILLY_LARGEST)
        self.assertEqual(traces.philly_window(REFERENCE, 50, 1)[1:], rows)
        self.assertNotEqual(traces.philly_window(REFERENCE, 50, 2)[1:], rows)

    def test_a_window_is_shorter_than_the_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "philly").mkdir()
            with gzip.open(Path(folder) / "philly" / "philly.csv.gz", "wt") as file:
                file.write("timestamp,num_gpus\n1,1\n2,64\n3,8\n")
            self.assertEqual(traces.philly_window(Path(folder), 1, 1)[1], ["1", "1"])
            with self.assertRaisesRegex(SystemExit, "--philly-jobs 2: the published trace has 2 jobs of at most 32 GPUs"):
                traces.philly_window(Path(folder), 2, 1)

    def test_a_file_is_there_only_when_it_is_complete(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "below" / "file"

            def breaks(part: Path) -> None:
                part.write_text("half")
                raise OSError

            with self.assertRaises(OSError):
                traces.once(path, breaks)
            self.assertFalse(path.exists())
            traces.once(path, lambda part: part.write_text("whole"))
            traces.once(path, breaks)
            self.assertEqual(path.read_text(), "whole")


if __name__ == "__main__":
    unittest.main()
