"""The hook in the real PyTorch, if available, for differences from the fake PyTorch of the other tests."""

import json
import os
import unittest

from harness import Launch, python_with_torch, version_of_torch

PYTHON = python_with_torch()

BEGINNING = """
import json, sys, time, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 1))
def loss(): return model(torch.randn(8, 20)).square().mean()
"""

PROGRAMS = {
    "Adam and a scheduler of its rate": """
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for _ in range(10):
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
    scheduler.step()
""",
    "L-BFGS, whose closure is called again and again": """
optimizer = torch.optim.LBFGS(model.parameters())
def closure():
    optimizer.zero_grad()
    value = loss()
    value.backward()
    return value
for _ in range(10): optimizer.step(closure)
""",
    "the optimizer in the backward pass": """
from torch.distributed.optim import _apply_optimizer_in_backward
_apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.01})
for _ in range(10): loss().backward()
""",
    "a subclass that calls super().step(), and raises once": """
class Clipped(torch.optim.Adam):
    def step(self, closure=None):
        if self.raises: raise ArithmeticError
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return super().step(closure)
optimizer = Clipped(model.parameters())
for index in range(11):
    optimizer.raises = index == 4
    loss().backward()
    try: optimizer.step()
    except ArithmeticError: pass
""",
    "a scaler that finds an overflow": """
optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler("cpu")
for index in range(10):
    optimizer.zero_grad()
    scaler.scale(loss() * (float("inf") if index in (4, 5) else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "a compiled model and a compiled step": """
optimizer = torch.optim.Adam(model.parameters())
model = torch.compile(model, backend="eager")
step = torch.compile(optimizer.step, backend="eager")
for _ in range(10):
    loss().backward()
    step()
""",
    "a compiled function that takes the step": """
class Clipped(torch.optim.SGD):
    def step(self, closure=None): return super().step(closure)
optimizer = Clipped(model.parameters(), lr=0.01)
@torch.compile(backend="eager")
def train():
    loss().backward()
    optimizer.step()
for _ in range(10): train()
""",
    "processes that load data": """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 10
    def __getitem__(self, index): return torch.randn(20)
if __name__ == "__main__":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in torch.utils.data.DataLoader(Data(), num_workers=2):
        model(batch).sum().backward()
        optimizer.step()
""",
}

SINCE = {"a scaler that finds an overflow": (2, 3), "a compiled model and a compiled step": (2, 3)}
"""Since this version PyTorch has a scaler for CPUs, and keeps hooks in a `step` that it compiles."""

RANKS = """
import sys, torch, torch.distributed as distributed
def train(rank, ranks, store):
    if store: distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=ranks)
    else: distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        model(torch.randn(8, 20)).sum().backward()
        optimizer.step()
    distributed.destroy_process_group()
"""


@unittest.skipUnless(os.environ.get("TANDEM_SLOW") == "1", "slow: set TANDEM_SLOW=1")
@unittest.skipUnless(PYTHON, "pytorch: neither this Python nor .venv-parity has it")
class TorchTest(unittest.TestCase):
    def test_compiled_code_calls_backward_and_says_nothing_of_the_hook(self):
        program = BEGINNING + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    loss().backward()
compiled = torch.compile(step, backend="eager")
for _ in range(8):
    optimizer.zero_grad()
    compiled()
    optimizer.step()
"""
        with Launch(python=PYTHON, fake=False) as launch:
            ended = launch.run(program)
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
            self.assertEqual(len(launch.steps()), 7)
            self.assertGreater(launch.steps()[-1]["phases"]["backward_ns"], 0)

    def test_steps_are_what_they_are(self):
        version = version_of_torch(PYTHON)
        for what, program in PROGRAMS.items():
            with self.subTest(what), Launch(python=PYTHON, fake=False) as launch:
                if version < SINCE.get(what, version):
                    self.skipTest("pytorch: %s needs %d.%d" % (what, *SINCE[what]))
                ended = launch.run(BEGINNING + program)
                # PyTorch's compiler warns of uncompiled parts of a step, with and without hooks.
                self.assertEqual((ended.returncode, ended.stdout, "tandem" in ended.stderr), (0, "", False))
                self.assertEqual(launch.names(), ["hello", "ready"] + ["step"] * 9 + ["finished"])
                (_, ready), *_ = launch.events()[1:]
                self.assertEqual(ready["parameters"], 20 * 30 + 30 + 30 + 1)

    def test_a_step_ends_within_the_call_of_its_optimizer(self):
        program = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10):
    loss().backward()
    begin = time.monotonic_ns()
    optimizer.step()
    print(json.dumps([begin, time.monotonic_ns()]))
"""
        with Launch(python=PYTHON, fake=False) as launch:
            calls = [json.loads(line) for line in launch.run(BEGINNING + program).stdout.splitlines()]
            self.assertEqual(len(launch.steps()), 9)
            for (begin_ns, end_ns), step in zip(calls[1:], launch.steps()):
                self.assertTrue(begin_ns <= step["mono_ns"] <= end_ns)

    def test_ranks_of_torchrun_and_of_spawn_are_told_apart(self):
        ways = {
            "torchrun": "if __name__ == '__main__': train(None, None, None)",
            "spawn": "if __name__ == '__main__': torch.multiprocessing.spawn(train, (2, sys.argv[0] + '.store'), 2)",
        }
        for way, last in ways.items():
            with self.subTest(way), Launch(granted=5, python=PYTHON, fake=False) as launch:
                before = ["-m", "torch.distributed.run", "--nproc-per-node=2"] if way == "torchrun" else []
                with launch.start(RANKS + last, before=before) as process:
                    for rank in (0, 1):
                        launch.wait_for("held", process, rank)
                    launch.grant(100)
                    process.communicate()
                    self.assertEqual(process.returncode, 0)
                for rank in (0, 1):
                    said = ["hello", "ready"] + ["step"] * 4 + ["held"] + ["step"] * 5
                    self.assertEqual([name for name in launch.names(rank) if name != "finished"], said)

    def test_what_ends_a_program_has_its_kind(self):
        for last, kind in (
            ("torch.empty(2**60)", "out-of-memory"),
            ("model(torch.randn(3, 3))", "internal"),
        ):
            program = "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\nfor _ in range(3): optimizer.step()\n"
            with self.subTest(last), Launch(python=PYTHON, fake=False) as launch:
                self.assertEqual(launch.run(BEGINNING + program + last).returncode, 1)
                self.assertEqual(launch.events()[-1][1]["kind"], kind)


if __name__ == "__main__":
    unittest.main()
