"""The times of pairs, and the table of policies, from runs whose times are known."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import pairs  # noqa: E402
import policies  # noqa: E402
from workloads import WORKLOADS, Workload  # noqa: E402

SECOND = 10**9


class Pairs(unittest.TestCase):
    def test_the_mean_speed_of_a_pair_is_the_published_one(self):
        for one in WORKLOADS:
            for other in WORKLOADS:
                speeds = [1 / slowdown for slowdown in pairs.slowdowns(one, other)]
                both = one.utilisation_percent + other.utilisation_percent
                self.assertAlmostEqual(sum(speeds) / 2, pairs.mean_speed(both))
                self.assertTrue(all(0 < speed <= 1 for speed in speeds))
        sums = [99, 100, 124, 125, 174, 175, 200]
        self.assertEqual([pairs.mean_speed(of) for of in sums], [0.99, 0.93, 0.93, 0.84, 0.75, 0.70, 0.70])

    def test_the_busier_job_costs_its_partner_more(self):
        light, heavy = Workload("light", 20, 5, 1000), Workload("heavy", 90, 50, 9000)
        of_light, of_heavy = pairs.slowdowns(light, heavy)
        # The speeds lose 0.14 together, 90 parts of 110 by the heavy one.
        self.assertAlmostEqual(of_light, 1 / (1 - 0.14 * 90 / 110))
        self.assertAlmostEqual(of_heavy, 1 / (1 - 0.14 * 20 / 110))

    def test_rows_are_jobs_alone_and_both_seats_of_each_pair(self):
        rows = pairs.rows()
        count = len(WORKLOADS)
        self.assertEqual(len(rows), len(pairs.DEVICES) * (count + count * (count + 1)))
        self.assertTrue(all(set(row) <= set(pairs.COLUMNS) for row in rows))
        [light, heavy] = [row for row in rows if row.get("group") == "light-1@b32@dp1+heavy-3@b32@dp1"]
        self.assertEqual((light["seat"], light["co_runners"]), (0, "heavy-3@b32@dp1"))
        self.assertEqual((heavy["seat"], heavy["job"], heavy["co_runner_workloads"]), (1, "heavy-3@b32@dp1", "light-1"))
        self.assertEqual(light["step_ns_mean"], round(SECOND / (1 - 0.14 * 97 / 106)))


def outcome(jct, queued, devices=1, starts=1, packed=0) -> dict:
    end = "" if jct is None else str(jct * SECOND)
    return {
        "submit_ns": "0",
        "end_ns": end,
        "jct_ns": end,
        "queued_ns": str(queued * SECOND),
        "devices": str(devices),
        "starts": str(starts),
        "packed_ns": str(packed),
    }


class Policies(unittest.TestCase):
    def test_a_summary_has_the_means_of_jobs_that_ended(self):
        rows = [outcome(10, 4), outcome(30, 0, devices=8, starts=3), outcome(80, 20, devices=16), outcome(None, 0)]
        of = policies.summary(rows, [])
        self.assertEqual((of["jobs"], of["did_not_end"], of["jct_s_mean"], of["jct_s_median"]), (4, 1, 40.0, 30.0))
        self.assertEqual((of["queue_s_mean"], of["queue_s_p99.9"], of["makespan_s"]), (8.0, 20.0, 80.0))
        self.assertEqual((of["jct_s_mean_large"], of["jct_s_mean_small"]), (80.0, 20.0))
        self.assertEqual((of["preemptions"], of["joins"]), (2, 0))

    def test_joins_are_starts_beside_another_job(self):
        start = lambda job, *devices: {"start": {"job": job, "devices": list(devices)}}
        turn = lambda events, *actions: {"events": events, "actions": list(actions)}
        turns = [
            turn([], start(0, 0, 1), start(1, 2)),
            turn([], start(2, 1)),
            turn([{"finished": {"job": 0, "steps": 3}}], start(3, 0)),
            turn(["deadline"], {"stop": {"job": 2, "checkpoint": True}}, start(4, 1, 2)),
            {"events": [{"failed": {"job": 4}}, {"finished": {"job": 1}}]},
            turn([], start(5, 1, 2)),
        ]
        # Job 2 joins job 0, and job 4 joins job 1.
        self.assertEqual(policies.joins(turns), 2)

    def test_the_table_has_means_and_ranges_over_seeds(self):
        row = lambda seed, mean: {**dict.fromkeys(policies.COLUMNS, "5"), "seed": seed, "policy": "fifo", "jct_s_mean": mean}
        lines = policies.table([row("1", "1000"), row("2", "3000")])
        self.assertEqual(len(lines), 3)
        self.assertTrue(lines[2].startswith("| `fifo` | 2,000 (1,000 to 3,000) | 5 |"), lines[2])
        self.assertTrue(lines[2].endswith("| 5.00 |"), lines[2])


if __name__ == "__main__":
    unittest.main()
