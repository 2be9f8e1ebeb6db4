"""The table of policies, from runs whose times are known."""

import csv
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import summary  # noqa: E402

SECOND = 10**9
COLUMNS = "job,workload,global_batch,plan,devices,class,submit_ns,end_ns,jct_ns,queued_ns,running_ns,starts,steps_asked"


class Truth(summary.Truth):
    """A step takes a second under dp1, and half of one under dp2."""

    def __init__(self) -> None:
        self.asked = []

    def of(self, row: dict, plan: str, devices: int) -> dict:
        self.asked.append((row["workload"], plan, devices))
        return {"dp1": {"step_ns": SECOND, "basis": "measured"}, "dp2": {"step_ns": SECOND / 2, "basis": "extrapolated"}}[plan]


def run(folder: Path, rows: list, actions: list) -> list:
    """The rows of a run whose jobs are (plan, devices, class, submit, end, running), and its file of decisions."""
    table = [COLUMNS]
    for job, (plan, devices, name, submit, end, running) in enumerate(rows):
        times = [submit, end, end - submit, end - submit - running, running]
        table.append(",".join(map(str, [job, "w", 8, plan, devices, name, *(time * SECOND for time in times), 2, 10])))
    (folder / "outcomes.csv").write_text("\n".join(table) + "\n")
    turns = [{"at_ns": at * SECOND, "actions": [action]} for at, action in actions]
    (folder / "decisions.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    with (folder / "outcomes.csv").open() as file:
        return list(csv.DictReader(file))


def start(job: int, devices: list, plan: str | None) -> dict:
    return {"start": {"job": job, "devices": devices, "plan": plan}}


class Summary(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.truth = Path(folder.name), Truth()

    def line(self, name: str, rows: list, used: dict) -> dict:
        return summary.line("base", "rubick", name, [row for row in rows if name in ("all", row["class"])], self.truth, used)

    def test_a_guarantee_is_compared_with_the_time_as_asked(self):
        rows = run(
            self.folder,
            [
                # Ten steps of a second take ten seconds.
                ("dp1", 1, "guaranteed", 0, 10, 10),
                ("dp1", 1, "guaranteed", 0, 15, 10),
                ("dp1", 1, "guaranteed", 4, 18, 12),
                ("dp2", 2, "best-effort", 0, 40, 30),
            ],
            [],
        )
        used = {(0, "measured"): 1.0}
        line = self.line("guaranteed", rows, used)
        self.assertEqual((line["violated"], line["late"], line["jobs"], line["restarts"]), (1, 2, 3, 3))
        self.assertEqual((line["jct_s_mean"], line["jct_s_median"], line["jct_s_p99"]), (13.0, 14.0, 15.0))
        self.assertEqual((line["makespan_s"], line["queued_s_mean"]), (18.0, 2.3))
        self.assertEqual(self.line("all", rows, used)["jct_s_mean"], round((10 + 15 + 14 + 40) / 4, 1))

    def test_the_time_on_devices_is_divided_by_what_its_true_time_stands_on(self):
        rows = run(
            self.folder,
            [("dp1", 1, "guaranteed", 0, 20, 20), ("dp2", 2, "best-effort", 0, 30, 25)],
            [
                (0, start(0, [0], None)),
                (0, start(1, [1, 2], "dp2")),
                # It goes on with another plan and number of devices, after five seconds.
                (10, {"stop": {"job": 1, "checkpoint": True}}),
                (15, start(1, [1], "dp1")),
            ],
        )
        used = summary.device_time(self.folder / "decisions.jsonl", rows, self.truth)
        self.assertEqual(used, {(0, "measured"): 20.0, (1, "extrapolated"): 2 * 10.0, (1, "measured"): 15.0})
        self.assertEqual(self.truth.asked, [("w", "dp2", 2), ("w", "dp1", 1), ("w", "dp1", 1)])
        line = self.line("best-effort", rows, used)
        shares = [line[basis] for basis in ("measured", "formula", "extrapolated", "published")]
        self.assertEqual(shares, [0.429, 0, 0.571, 0])

    def test_devices_fill_whole_nodes(self):
        self.assertEqual([summary.placement(devices) for devices in (1, 8, 12, 16)], ["1", "8", "8+4", "8+8"])


if __name__ == "__main__":
    unittest.main()
