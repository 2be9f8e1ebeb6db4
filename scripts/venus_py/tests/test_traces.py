"""What is chosen of the trace agrees with what is known of Venus, and workloads follow their rule."""

import csv
import math
import sys
import tempfile
import unittest
from pathlib import Path
from statistics import NormalDist

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import facts  # noqa: E402
import joined  # noqa: E402
import statistics_of  # noqa: E402
import workloads  # noqa: E402


class Facts(unittest.TestCase):
    def test_the_chosen_lengths_have_the_known_statistics(self):
        jobs = sum(facts.BY_DEVICES.values())
        of = lambda value, is_counted: sum(
            facts.BY_DEVICES[devices] * share * value(median_s, sigma)
            for devices, share, median_s, sigma in facts.CLASSES
            if is_counted(devices)
        ) / sum(count for devices, count in facts.BY_DEVICES.items() if is_counted(devices))
        everything = lambda devices: True
        self.assertEqual(jobs, 23_142)
        self.assertAlmostEqual(of(facts.mean_s, everything) / facts.MEAN_S, 1.0, delta=0.02)
        self.assertAlmostEqual(of(facts.short_share, everything), facts.SHORT_SHARE, delta=0.01)
        self.assertAlmostEqual(of(facts.short_share, lambda devices: devices > 8), facts.SHORT_SHARES["> 8"], delta=0.01)
        self.assertAlmostEqual(of(facts.short_share, lambda devices: devices <= 8), facts.SHORT_SHARES["<= 8"], delta=0.01)
        self.assertAlmostEqual(sum(facts.work().values()) / 3600 / facts.GPU_HOURS, 1.0, delta=0.02)

    def test_the_cluster_has_the_nodes_of_venus(self):
        nodes = facts.clusters()
        self.assertEqual((len(nodes), sum(nodes.values())), (15, 135))
        self.assertTrue(facts.vcs().startswith("vc01=20:9..64,vc02=18:9..64,vc03=16:65..128,vc04=13:1..8,"))
        text = facts.cluster(has_profilers=True)
        self.assertEqual(text.count("profiling = true"), 2)
        counts = [int(line.split()[2]) for line in text.splitlines() if line.startswith("count")]
        self.assertEqual((sum(counts), len(counts)), (135, 17))

    def test_the_mean_of_a_cut_distribution_is_its_integral(self):
        median_s, sigma, steps = 540.0, 3.3, 200_000
        # Quantiles at the middles of equal parts, by bisection of the distribution function.
        normal = NormalDist()
        end = normal.cdf(math.log(facts.LONGEST_S / median_s) / sigma)
        quantile = lambda part: median_s * math.exp(sigma * normal.inv_cdf(part * end))
        mean = sum(quantile((number + 0.5) / steps) for number in range(steps)) / steps
        self.assertAlmostEqual(mean / facts.mean_s(median_s, sigma), 1.0, delta=0.001)


def job(name: str, duration_s: int, devices: int = 1, **more) -> dict:
    return {
        "name": name,
        "submit_s": "0",
        "job": f"any@dp{devices}",
        "steps": str(duration_s),
        "step_ns": "1000000000",
        "recurring_job": "nightly",
        "vc": "vc01",
        "submit_utc": "2020-09-01T00:00:00Z",
        **more,
    }


def write(path: Path, rows: list) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


class Workloads(unittest.TestCase):
    def test_a_recurring_job_has_one_workload_and_a_leak_tells_the_duration(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.csv"
            rows = [job("a", 10), job("b", 4 * 3600, 8), job("c", 36_000), job("d", 10, recurring_job="other")]
            write(path, rows)
            workloads.rewrite("independent", 1, str(path))
            of = [row["job"] for row in joined.read(str(path))]
            self.assertEqual(of[0], of[2])
            self.assertEqual(of[1], of[0].replace("@b32@dp1", "@b256@dp8"))
            write(path, rows)
            workloads.rewrite("leaky", 1, str(path))
            classes = [row["job"].partition("-")[0] for row in joined.read(str(path))]
            self.assertEqual(classes, ["light", "middle", "heavy", "light"])

    def test_a_history_and_its_trace_are_one_trace(self):
        history = [job("a", 10), job("b", 20, submit_utc="2020-09-01T01:00:00Z")]
        trace = [job("a", 30, submit_utc="2020-09-02T00:00:00Z")]
        rows = joined.joined(history, trace)
        self.assertEqual([(row["name"], row["submit_s"]) for row in rows], [("h-a", 0), ("h-b", 3600), ("a", 86_400)])


class Statistics(unittest.TestCase):
    def test_statistics_are_those_of_the_jobs(self):
        jobs = [(0.0, 100.0, 1, "vc01"), (43_200.0, 300.0, 1, "vc01"), (86_400.0, 5000.0, 16, "vc02")]
        of = statistics_of.of_trace(jobs)
        self.assertEqual((of["jobs"], of["days from the first arrival to the last"]), (3, 1.0))
        self.assertEqual((of["median duration (s)"], of["mean duration (s)"], of["longest (s)"]), (300.0, 1800.0, 5000.0))
        self.assertAlmostEqual(of["GPU hours"], (400 + 80_000) / 3600)
        self.assertEqual((of["of jobs of <= 8 GPUs (%)"], of["of jobs of > 8 GPUs (%)"]), (50.0, 0.0))
        load = statistics_of.loads(jobs)
        self.assertAlmostEqual(load["vc02"], 80_000 / (18 * 8 * 26 * 86_400))
        self.assertIn("| GPU hours | 601,983 | 22.3 |", statistics_of.table({"this trace": of}))


if __name__ == "__main__":
    unittest.main()
