"""The traces, tables and curves of the set-ups of Gandiva, and what is read from runs whose times are known."""

import csv
import os
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PACKAGE))
import cases  # noqa: E402
import curves  # noqa: E402
import facts  # noqa: E402
import inputs  # noqa: E402
import make  # noqa: E402
import results  # noqa: E402
import table1  # noqa: E402
import traces  # noqa: E402

REFERENCE = PACKAGE.parents[2] / "shared" / "reference"
# Models of the classes of Table 1 with other numbers.
LIGHT = table1.Model("light", 10, 0.01, 3.0)
MIDDLE = table1.Model("middle", 60, 0.1, 0.5)
HEAVY = table1.Model("heavy", 90, 0.1, -0.2)
EIGHT = [LIGHT, LIGHT, MIDDLE, MIDDLE, MIDDLE, HEAVY, HEAVY._replace(name="heavy-2"), HEAVY._replace(name="heavy-3")]


class Groups(unittest.TestCase):
    def test_a_group_gains_what_its_members_gain_on_average(self):
        speeds = lambda *members: sum(1 / slowdown for slowdown in table1.slowdowns(list(members)))
        self.assertAlmostEqual(speeds(HEAVY, HEAVY), 0.8)
        self.assertAlmostEqual(speeds(MIDDLE, MIDDLE), 1.5)
        # Two jobs cannot do more than both alone.
        self.assertAlmostEqual(speeds(LIGHT, LIGHT), 2)
        self.assertAlmostEqual(speeds(LIGHT, LIGHT, LIGHT, LIGHT), 4)
        self.assertAlmostEqual(speeds(LIGHT, MIDDLE), (2 + 1.5) / 2)
        self.assertAlmostEqual(speeds(LIGHT, HEAVY, HEAVY), (3 + 0.8 + 0.8) / 3)

    def test_the_busier_job_costs_the_other_more(self):
        light, heavy = table1.slowdowns([LIGHT, HEAVY])
        self.assertAlmostEqual(light, 1 / (1 - 0.6 * 0.9))
        self.assertAlmostEqual(heavy, 1 / (1 - 0.6 * 0.1))
        for group in table1.groups([LIGHT, MIDDLE, HEAVY], 4):
            self.assertTrue(all(slowdown >= 1 - 1e-12 for slowdown in table1.slowdowns(list(group))), group)

    def test_gains_are_interpolated_by_utilisation(self):
        table = [LIGHT, MIDDLE, HEAVY]
        found = [table1.gain(table, busy) for busy in (5, 10, 35, 75, 90, 99)]
        for value, expected in zip(found, [3.0, 3.0, 1.75, 0.15, -0.2, -0.2]):
            self.assertAlmostEqual(value, expected)

    def test_rows_are_jobs_alone_and_members_of_groups_on_as_many_gpus(self):
        rows = inputs.together_rows(facts.P40, [(LIGHT, 1), (HEAVY, 1), (HEAVY, 2)], 2)
        groups = [row["group"] for row in rows if row.get("seat") == 0]
        alone = [f"light@b{facts.BATCH}@dp1", f"heavy@b{facts.BATCH}@dp1", f"heavy@b{2 * facts.BATCH}@dp2"]
        self.assertEqual([row["job"] for row in rows if row["sharing"] == "alone"], alone)
        pairs = [(0, 0), (0, 1), (1, 1), (2, 2)]
        self.assertEqual(groups, [f"{alone[one]}+{alone[other]}" for one, other in pairs])
        self.assertEqual(rows[-1]["device"], "cuda:0,cuda:1")
        self.assertEqual(rows[-1]["step_ns_mean"], 250_000_000)

    @unittest.skipUnless(REFERENCE.is_dir(), "published-traces: ../shared/reference is absent")
    def test_the_published_table_gives_its_own_gains(self):
        models = table1.models(REFERENCE)
        self.assertEqual(len(models), sum(count for count, _ in facts.SLICING_CLASSES))
        for model in models:
            speeds = sum(1 / slowdown for slowdown in table1.slowdowns([model, model]))
            self.assertAlmostEqual(speeds, min(2, 1 + model.gain))
        self.assertEqual([model.gain > 0 for model in models], [True] * 5 + [False] * 3)


class Curves(unittest.TestCase):
    def test_a_curve_ends_where_it_should(self):
        curve = curves.ending(0.9, 0.3, 0.05, 1000)
        self.assertAlmostEqual(curve.at(0), 0.9)
        self.assertAlmostEqual(curve.at(1000), 0.3)
        self.assertAlmostEqual((0.3 - curve.b2) / (0.9 - curve.b2), 0.05)

    def test_a_curve_of_a_known_shape_reaches_its_target(self):
        curve = curves.reaching(0.9, 0.16, 0.97, 0.1, 1000)
        self.assertAlmostEqual(curve.at(0), 0.9)
        self.assertAlmostEqual(curve.at(970), 0.16)
        self.assertAlmostEqual((curve.at(1000) - curve.b2) / (0.9 - curve.b2), 0.1)

    def test_a_curve_passes_its_target_at_the_step(self):
        for target, at, final in [(0.3, 0.149, 0.25), (0.2, 0.166, 0.13), (0.1, 0.885, 0.095), (0.16, 0.97, 0.1584)]:
            curve = curves.through(0.9, target, at, final, 30_000)
            for step, loss in [(0, 0.9), (at * 30_000, target), (30_000, final)]:
                self.assertAlmostEqual(curve.at(step), loss)
                self.assertAlmostEqual(curve.steps_to(loss), step, delta=1e-3)
            numbers = [float(number) for number in str(curve).split("/")]
            self.assertAlmostEqual(curves.Curve(*numbers).at(at * 30_000), target, 6)


class Traces(unittest.TestCase):
    def test_jobs_of_slicing_have_the_published_shares_and_lengths(self):
        jobs = traces.slicing(EIGHT, 1)
        of = {model.name: model for model in EIGHT}
        share = lambda *names: sum(job.workload in names for job in jobs) / len(jobs)
        self.assertEqual(len(jobs), 1_000)
        self.assertAlmostEqual(share("light"), 0.3, delta=0.05)
        self.assertAlmostEqual(share("middle"), 0.25, delta=0.05)
        self.assertEqual({job.devices for job in jobs if job.workload in ("heavy-2", "heavy-3")}, {2, 4})
        self.assertEqual({job.devices for job in jobs if job.workload in ("light", "middle", "heavy")}, {1})
        minutes = [job.steps * of[job.workload].step_s * job.devices / 60 for job in jobs]
        self.assertTrue(29.9 < min(minutes) and max(minutes) < 45.1)
        self.assertTrue(jobs == sorted(jobs) and jobs[-1].submit_s <= 7_200)
        self.assertEqual(jobs, traces.slicing(EIGHT, 1))
        self.assertNotEqual(jobs, traces.slicing(EIGHT, 2))

    def test_only_one_configuration_of_lenet_reaches_the_target(self):
        steps = traces.lenet_steps()
        for position in (93, 365):
            jobs = traces.lenet(4, position, 1)
            losses = [curves.Curve(*map(float, job.curve.split("/"))).at(steps) for job in jobs]
            reach = [job.position for job, loss in zip(jobs, losses) if loss <= 1 - facts.LENET_TARGET]
            self.assertEqual((len(jobs), reach), (374, [position]))
        # Exclusive execution takes as long as published between the first and the last position.
        minutes = (365 - 93) / 4 * steps * traces.lenet_step_s(4) / 60
        self.assertAlmostEqual(minutes, 2726.4 - 691.5, delta=0.1)

    def test_configurations_of_resnet_reach_their_targets_at_the_published_times(self):
        jobs, steps = traces.resnet(1), traces.resnet_steps()
        for target, (position, minutes, _) in facts.RESNET_PUBLISHED.items():
            reached = {}
            for job in jobs:
                curve = curves.Curve(*map(float, job.curve.split("/")))
                if curve.at(steps) <= 1 - target + 1e-6:
                    # Jobs run 16 at a time, in order.
                    began = (job.position - 1) // 16 * facts.RESNET_LENGTH_MINUTES
                    at = next(step for step in range(0, steps + 1, 100) if curve.at(step) <= 1 - target + 1e-6)
                    reached[job.position] = began + at * facts.RESNET_STEP_S / 60
            self.assertEqual(min(reached), position)
            self.assertAlmostEqual(min(reached.values()), minutes, delta=1)

    def test_the_work_of_nine_days_is_the_chosen_part(self):
        jobs = traces.nine_days([(60, 1), (600, 3), (100_000, 16)], 1)
        step_s = lambda job: facts.NINE_DAYS_MODELS[job.workload][1] / 1e3
        work_s = sum(job.steps * step_s(job) * job.devices for job in jobs)
        there_s = facts.NINE_DAYS_LOAD * 100 * facts.NINE_DAYS_ARRIVALS_DAYS * 86_400
        self.assertAlmostEqual(work_s / there_s, 1, delta=1e-3)
        self.assertEqual((len(jobs), {job.devices for job in jobs}), (8_800, {1, 4}))
        language = sum(facts.NINE_DAYS_MODELS[job.workload][0] == "language" for job in jobs) / len(jobs)
        self.assertAlmostEqual(language, 0.6, delta=0.03)


class Files(unittest.TestCase):
    def test_the_files_of_a_search_have_its_cases(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            make.lenet(out / "lenet-16", 16, ["1", "2"])
            found = cases.cases(out / "lenet-16")
            self.assertEqual([case for case, *_ in found], ["93", "187", "280", "365"])
            self.assertEqual({line[1:3] for line in found}, {(8, 0.16)})
            with (out / "lenet-16" / "187-2.csv").open(newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual((rows[8]["name"], rows[8]["search"], rows[0]["submit_s"]), ("job-009", "lenet", "0.0"))
            self.assertEqual(float(rows[8]["submit_s"]), round(1_000 * traces.lenet_step_s(16), 3))
            self.assertTrue({"catalog.toml", "cluster.toml", "p40"} <= set(os.listdir(out / "lenet-16")))


def turn(second: float, *events, actions=()) -> dict:
    return {"at_ns": round(second * 1e9), "events": list(events), "actions": list(actions)}


def runs(job: int, steps: int = 0) -> dict:
    return {"settled": {"job": job, "now": "running", "steps": steps}}


def start(job: int, *devices: int) -> dict:
    return {"start": {"job": job, "devices": list(devices)}}


class Results(unittest.TestCase):
    def test_the_time_of_a_step_is_between_its_reports(self):
        turns = [
            turn(0, {"arrived": {"job": 0}}, actions=[start(0, 0)]),
            turn(60, runs(0)),
            turn(120, {"progress": {"job": 0, "steps": 100}}, {"progress": {"job": 1, "steps": 999}}),
            turn(180, {"settled": {"job": 0, "now": "paused", "steps": 150}}),
            turn(600, runs(0, 150)),
            turn(660, {"finished": {"job": 0, "steps": 250}}),
        ]
        for steps, minutes in [(50, 1.5), (100, 2), (150, 3), (200, 10.5), (250, 11), (251, None)]:
            self.assertEqual(results.minutes_to(turns, {0: steps}), minutes)
        # The first of several counts.
        self.assertEqual(results.minutes_to(turns, {0: 200, 1: 999}), 2)
        self.assertEqual(results.minutes_to(turns, {0: 50, 1: 999, 7: 1}), 1.5)

    def test_utilisation_is_that_of_jobs_that_run_and_at_most_all(self):
        turns = [
            turn(0, actions=[start(0, 0), start(1, 0, 1)]),
            turn(60, runs(0), runs(1)),
            turn(120, actions=[{"pause": {"job": 1}}]),
            turn(180, {"finished": {"job": 0, "steps": 9}}),
            turn(300, "deadline"),
        ]
        # Device 0 has 70 % and 40 % for a minute, and then 40 %. Device 1 has 70 % for a minute.
        found = results.utilisation_percent(turns, [40, 70], 2, (1, 5))
        self.assertAlmostEqual(found, (100 + 40 + 70) / 4 / 2)
        self.assertAlmostEqual(results.utilisation_percent(turns, [40, 70], 2, (2, 3)), 20)

    def test_the_table_compares_each_policy_with_the_first(self):
        line = lambda policy, seed, value, paper: dict(zip(results.COLUMNS, ["resnet", "80", seed, policy, "minutes", value, paper]))
        rows = [line("fifo", "1", "3000", "2849.1"), line("gandiva", "1", "500", "543.1"), line("gandiva", "2", "700", "543.1")]
        rows += [dict(rows[0], metric="preemptions", paper="")]
        *_, fifo, gandiva = results.table(rows)
        self.assertIn("| `fifo` | 3,000.0 | 1.000 | 2,849.1 | 1.000 |", fifo)
        self.assertIn("| `gandiva` | 600.0 (500.0 to 700.0) | 0.200 | 543.1 | 0.191 |", gandiva)


if __name__ == "__main__":
    unittest.main()
