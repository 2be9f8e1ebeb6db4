"""The shares of jobs that take turns, from a journal that is known."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import shares

SECOND = 1_000_000_000


def settled(job: int, now: str, steps: int) -> dict:
    return {"settled": {"job": job, "now": now, "steps": steps}}


def start(job: int, device: int) -> dict:
    return {"start": {"job": job, "devices": [device], "cpus": None, "plan": "dp1"}}


class Shares(unittest.TestCase):
    def test_the_wait_for_the_end_of_a_step_is_part_of_a_share(self) -> None:
        turns = [
            (0, [{"arrived": {"job": 0}}], [start(0, 0)]),
            (1, [settled(0, "running", 0)], []),
            (4, ["deadline"], [{"pause": {"job": 0}}, start(1, 0)]),
            (5, [settled(0, "paused", 40)], []),
            (6, [settled(1, "running", 0)], []),
            (7, [{"progress": {"job": 1, "steps": 9, "loss": 2.5}}], [start(2, 1)]),
            (8, [settled(1, "paused", 20), settled(2, "running", 0)], [{"resume": {"job": 0}}]),
            (9, [settled(0, "running", 40)], []),
            (11, [{"finished": {"job": 0, "steps": 60}}], [{"resume": {"job": 1}}]),
            (20, [{"finished": {"job": 1, "steps": 80}}], []),
        ]
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder)
            lines = [{"at_ns": at * SECOND, "events": events, "actions": actions} for at, events, actions in turns]
            (run / "decisions.jsonl").write_text("".join(json.dumps(line) + "\n\n" for line in lines))
            (run / "outcomes.csv").write_text("name,steps_asked\na,60\nb,80\nc,\n")
            rows = shares.rows(run)
        # The first job runs from 1 s to 5 s and from 9 s to 11 s, the second from 6 s to 8 s, both on the first device.
        self.assertEqual(rows, [("a", 0, 6.0, 0.75, 1.0), ("b", 0, 2.0, 0.25, 0.25), ("c", 1, 3.0, 1.0, None)])


if __name__ == "__main__":
    unittest.main()
