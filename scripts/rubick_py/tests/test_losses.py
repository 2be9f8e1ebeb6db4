"""The comparison of losses, from runs whose losses are known."""

import csv
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LOSSES = Path(__file__).resolve().parents[2] / "losses.py"


def write(run: Path, launches: list, steps: dict) -> None:
    """A run with launches as (job, plan, losses of each rank), and how many steps of each job count."""
    for folder in ("jobs", "events"):
        (run / folder).mkdir(parents=True)
    for number, (job, plan, ranks) in enumerate(launches):
        name = f"{number:04}-w"
        request = {"launch": name, "cell": job, "program": {"training": {"plan": plan}}}
        (run / "jobs" / f"{name}.json").write_text(json.dumps(request))
        (run / "jobs" / f"{name}.end.json").write_text("{}")
        for rank, losses in enumerate(ranks):
            events = [{"event": {"ready": {}}}]
            events += [{"event": {"step": {"index": index, "loss": loss}}} for index, loss in enumerate(losses)]
            lines = "".join(json.dumps(event) + "\n" for event in events)
            (run / "events" / f"{name}.{rank}.jsonl").write_text(lines)
    rows = "".join(f"{job},ok,{count}\n" for job, count in steps.items())
    (run / "outcomes.csv").write_text("name,status,steps\n" + rows)


class Losses(unittest.TestCase):
    def test_losses_of_launches_are_joined_and_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = Path(folder)
            # The loss of a step is the mean of its ranks: 2.0, in both runs, and then 1.1 instead of 1.0.
            moved = [("a", "dp2", [[1.5] * 25, [2.5] * 25]), ("b", "dp1", [[1.0]]), ("a", "dp1", [[1.1] * 5])]
            write(runs / "moved", moved, {"a": 30, "b": 2})
            write(runs / "alone", [("a", "dp1", [[2.0] * 25 + [1.0] * 5]), ("b", "dp1", [[1.0, 1.0]])], {"a": 30, "b": 2})
            write(runs / "seed", [("a", "dp1", [[4.0] * 25 + [1.0] * 5])], {"a": 30})
            command = [sys.executable, LOSSES, runs / "moved", runs / "alone", runs / "seed", "--csv", runs / "means.csv"]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            [row] = csv.DictReader(said.splitlines())
            self.assertEqual((row["job"], row["steps"], row["plans"]), ("a", "30", "25xdp2 5xdp1"))
            self.assertEqual((row["mean_percent"], row["max_percent"]), ("5.000", "10.000"))
            self.assertEqual((row["other_seed_mean_percent"], row["other_seed_max_percent"]), ("25.000", "50.000"))
            means = (runs / "means.csv").read_text().splitlines()
            self.assertEqual(means, ["job,first_step,loss,loss_alone,loss_other_seed", "a,0,2,2,4", "a,25,1.1,1,1"])


if __name__ == "__main__":
    unittest.main()
