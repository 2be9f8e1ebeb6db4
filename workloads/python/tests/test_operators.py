"""Recordings of operators with PyTorch's profiler, in launches that are made for them."""

import json
import os
import unittest

from harness import Launch, python_with_torch

TRAINING = """
import os, sys, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
for number in range(%d):
    optimizer.step()
"""

USES_A_PROFILER = """
import torch
mine = torch.profiler.profile(activities=[])
mine.start()
""" + TRAINING % 12 + """
print(len(mine.names))
"""

REAL = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(%d):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""


class Recordings(unittest.TestCase):
    def trace(self, launch: Launch, rank: int = 0):
        path = launch.events_path.with_name("0001-cmd.%d.operators.json" % rank)
        return json.loads(path.read_text())["traceEvents"] if path.exists() else None

    def test_the_steps_that_are_asked_for_are_recorded(self):
        with Launch() as launch:
            ended = launch.run(TRAINING % 12, TANDEM_OPERATORS="4:3")
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
            names = [event["name"] for event in self.trace(launch)]
            self.assertEqual(names, ["PyTorch Profiler (0)"] + ["fake::SGD", "fake::add"] * 3)
            self.assertEqual([step["index"] for step in launch.steps()], list(range(1, 12)))

    def test_each_rank_has_a_trace(self):
        with Launch() as launch:
            launch.run(TRAINING % 9, TANDEM_OPERATORS="4:2", RANK=1, WORLD_SIZE=2)
            self.assertIsNone(self.trace(launch))
            self.assertEqual(len(self.trace(launch, rank=1)), 5)

    def test_a_program_that_ends_before_has_no_trace_and_ends_as_it_would(self):
        for steps in (3, 6):
            with Launch() as launch:
                ended = launch.run(TRAINING % steps, TANDEM_OPERATORS="4:3")
                self.assertEqual((ended.returncode, ended.stderr), (0, ""))
                self.assertIsNone(self.trace(launch))
                self.assertEqual(launch.events()[-1], ("finished", {"steps": steps}))

    def test_a_program_with_a_profiler_of_its_own_keeps_it(self):
        with Launch() as launch:
            ended = launch.run(USES_A_PROFILER, TANDEM_OPERATORS="4:3")
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "12\n", ""))
            self.assertIsNone(self.trace(launch))
            self.assertEqual(launch.names().count("step"), 11)

    def test_without_the_request_nothing_is_recorded(self):
        with Launch() as launch:
            launch.run(TRAINING % 9)
            self.assertIsNone(self.trace(launch))

    @unittest.skipUnless(os.environ.get("TANDEM_SLOW"), "slow: it imports PyTorch")
    def test_pytorch_records_the_operators_of_each_step(self):
        python = python_with_torch()
        if python is None:
            self.skipTest("there is no PyTorch")
        for steps in (12, 6):
            with Launch(python=python, fake=False) as launch:
                ended = launch.run(REAL % steps, TANDEM_OPERATORS="4:3")
                self.assertEqual((ended.returncode, ended.stdout), (0, "trained\n"), ended.stderr)
                if steps == 6:
                    self.assertIsNone(self.trace(launch))
                    continue
                calls = [event["name"] for event in self.trace(launch) if event.get("cat") == "cpu_op"]
                self.assertEqual(calls.count("aten::addmm"), 3)


if __name__ == "__main__":
    unittest.main()
