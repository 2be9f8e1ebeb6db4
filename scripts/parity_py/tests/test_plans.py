"""Plans in Python: their names, their data, and their losses, which are those of one process."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from launches import ROOT, Device, export, launch_python, mean_loss, program  # noqa: E402
from plan import Plan  # noqa: E402
from plan_jobs import PLANS, WORKLOADS, first_stage_links, under_all_plans  # noqa: E402

STEPS = 20


def python_with_torch() -> Path | None:
    """This Python or that of scripts/parity, if one of them has PyTorch."""
    for python in (Path(sys.executable), ROOT / ".venv-parity/bin/python"):
        asks = [str(python), "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"]
        if python.exists() and subprocess.run(asks, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


PYTHON = python_with_torch()
NO_TORCH = "pytorch: neither this Python nor .venv-parity has it"


class NamesTest(unittest.TestCase):
    def test_a_plan_is_read_from_its_name(self):
        self.assertEqual(Plan.parse("dp1"), Plan())
        self.assertEqual(Plan.parse("dp2-zero3"), Plan(dp=2, zero=3))
        self.assertEqual(Plan.parse("pp2-ga4-bf16"), Plan(pp=2, ga=4, bf16=True))
        with self.assertRaisesRegex(ValueError, "'fast' is no part of a plan"):
            Plan.parse("dp2-fast")

    def test_ranks_that_share_a_model_take_the_same_data(self):
        self.assertEqual([Plan.parse("dp2-zero1").data_rank(rank) for rank in range(2)], [0, 1])
        self.assertEqual([Plan.parse("tp2").data_rank(rank) for rank in range(2)], [0, 0])
        self.assertEqual([Plan.parse("pp2-ga4").data_rank(rank) for rank in range(2)], [0, 0])
        # Tensor ranks are next to each other, then data ranks, then stages.
        self.assertEqual([Plan(dp=2, tp=2, pp=2).data_rank(rank) for rank in range(8)], [0, 0, 1, 1, 0, 0, 1, 1])

    def test_a_job_without_a_plan_is_compared_under_all(self):
        self.assertEqual(under_all_plans("gpt2-mini@tp2"), ["gpt2-mini@tp2"])
        self.assertEqual(under_all_plans("gpt2-mini@b8"), [f"gpt2-mini@b8@{plan}" for plan in PLANS])
        self.assertEqual(under_all_plans("gpt2-mini@on=cpu:1")[0], "gpt2-mini@dp2-zero3@on=cpu:1")

    def test_the_first_stage_has_half_of_the_layers(self):
        self.assertEqual(first_stage_links({"layers": 4}, None), 3)
        self.assertEqual(first_stage_links({"layers": 5}, None), 4)
        self.assertEqual(first_stage_links({"layers": 4}, 5), 5)
        with self.assertRaisesRegex(ValueError, "the model has 6 links, so use 1 to 5"):
            first_stage_links({"layers": 4}, 6)

    def test_the_loss_is_of_the_ranks_that_have_samples(self):
        self.assertEqual(mean_loss([{"loss": 2.0}, {"loss": 4.0, "samples": 2}]), 3.0)
        self.assertEqual(mean_loss([{"samples": 0}, {"loss": 4.0}]), 4.0)
        # A loss that is not finite is left out of an event.
        self.assertNotEqual(mean_loss([{"samples": 2}, {"loss": 4.0, "samples": 2}]), 4.0)


@unittest.skipUnless(PYTHON, NO_TORCH)
class SeedsTest(unittest.TestCase):
    def test_seeds_have_the_bits_of_those_of_fastrand(self):
        # Made by `fresh_seed` of workloads/torch/src/checkpoint/restore.rs with fastrand 2.5.0.
        known = {
            (0, 0, 0): 250814929197826178,
            (42, 0, 0): 6724957790703232261,
            (42, 0, 1): 4567491965276808977,
            (1, 2, 3): -3199291472721082025,
            (2**64 - 1, 10**6, 2**32 - 1): -8219922023817926418,
        }
        code = f"from wyrand import fresh_seed; print([fresh_seed(*key) for key in {list(known)}])"
        ended = subprocess.run([PYTHON, "-B", "-c", code], cwd=HERE.parent, capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(ended.stdout), [seed % 2**64 for seed in known.values()])


@unittest.skipUnless(os.environ.get("TANDEM_SLOW") == "1", "slow: set TANDEM_SLOW=1")
@unittest.skipUnless(PYTHON, NO_TORCH)
class LossesTest(unittest.TestCase):
    def test_every_plan_has_the_losses_of_one_process(self):
        cores = sorted(os.sched_getaffinity(0))
        devices = [Device("cpu", cores[0]), Device("cpu", cores[-1])]
        for workload in WORKLOADS:
            with tempfile.TemporaryDirectory() as folder:
                spec = spec_of(workload, devices[0], Path(folder) / "run")
                alone = losses_under("dp1", spec, Path(folder) / "alone", devices[:1])
                self.assertLess(alone[-1], 0.9 * alone[0])
                # The last plan has the embeddings as a stage of their own.
                for plan, cut in [*((plan, 3) for plan in PLANS), ("pp2-ga2", 1)]:
                    with self.subTest(workload=workload, plan=plan, cut=cut):
                        losses = losses_under(plan, spec, Path(folder) / plan, devices, cut)
                        difference = max(abs(loss / other - 1) for loss, other in zip(losses, alone))
                        print(f"{workload}@{plan}: losses {losses[-1]:.7f} and {alone[-1]:.7f} at step {STEPS}, ", end="")
                        print(f"largest difference {difference:.1e}")
                        self.assertLess(difference, 1e-5)


def spec_of(workload: str, device: Device, out: Path) -> dict:
    """The spec of a launch of the workload under the plan `dp1`, as the harness writes it."""
    command = [program("profile"), "single", workload, "--device", device.name, "--threads", "1"]
    command += ["--repeats", "1", "--steps", "1", "--out", out]
    subprocess.run(command, capture_output=True, check=True)
    (file,) = (path for path in out.glob("jobs/*.json") if not path.name.endswith(".end.json"))
    return json.loads(file.read_text())


def losses_under(plan: str, spec: dict, scratch: Path, devices: list[Device], cut: int | None = None) -> list[float]:
    """The losses of Python under the plan, from the weights and the data of the spec."""
    scratch.mkdir()
    training = {**spec["program"]["training"], "plan": plan}
    file = scratch / "spec.json"
    file.write_text(json.dumps({**spec, "program": {"training": training}, "devices": spec["devices"] * len(devices)}))
    exchange = export(file, scratch, STEPS, devices, cut)
    return launch_python(PYTHON, exchange, STEPS, devices).losses


if __name__ == "__main__":
    unittest.main()
