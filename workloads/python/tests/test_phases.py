"""Where the time of a step goes: waits for batches, backward passes, optimizers."""

import json
import unittest

from harness import Launch

PARTS = """
import json, threading, time, torch

class Clock:
    def __init__(self): self.ns = {}
    def around(self, name, work):
        began_ns = time.monotonic_ns()
        work()
        self.ns[name] = self.ns.get(name, 0) + time.monotonic_ns() - began_ns

def work(ms):
    threading.Event().wait(ms / 1000)

inner, outer, steps = Clock(), Clock(), []
"""

TRAINING = (
    PARTS
    + """
class Slow(torch.optim.SGD):
    def step(self, closure=None):
        inner.around("optimizer_ns", lambda: work(2))

optimizer = Slow([torch.Parameter(8)])

def batches():
    for number in range(8):
        inner.around("data_ns", lambda: work(4))
        yield number

batch = iter(torch.utils.data.DataLoader(batches()))
threading.Thread(target=lambda: torch.autograd.backward(lambda: work(100)), daemon=True).start()
for number in range(8):
    outer.around("data_ns", lambda: next(batch))
    work(1)
    outer.around("backward_ns", lambda: torch.autograd.backward(lambda: inner.around("backward_ns", lambda: work(3))))
    outer.around("optimizer_ns", optimizer.step)
    steps.append((inner.ns, outer.ns))
    inner.ns, outer.ns = {}, {}
print(json.dumps(steps))
"""
)

WITHIN = (
    PARTS
    + """
parameters = [torch.optim.SGD([torch.Parameter(8)]) for _ in range(3)]

def in_backward():
    for optimizer in parameters:
        work(2)
        optimizer.step()

for _ in range(8):
    torch.autograd.backward(in_backward)
    work(1)

class Closure(torch.optim.SGD):
    def step(self, closure=None):
        work(2)
        torch.autograd.backward(lambda: work(3))

del parameters
closure = Closure([torch.Parameter(8)])
for _ in range(8):
    closure.step()
"""
)


class PhasesTest(unittest.TestCase):
    def test_each_phase_is_what_the_program_measures_around_and_within_it(self):
        with Launch() as launch:
            ended = launch.run(TRAINING)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            clocks = json.loads(ended.stdout)
            steps = launch.steps()
            self.assertEqual(len(steps), 7)
            for step in steps:
                inner, outer = clocks[step["index"]]
                self.assertEqual(list(step["phases"]), ["data_ns", "backward_ns", "optimizer_ns"])
                for name, phase_ns in step["phases"].items():
                    self.assertGreaterEqual(phase_ns, inner[name], name)
                    self.assertLessEqual(phase_ns, outer[name], name)
                self.assertLessEqual(sum(step["phases"].values()), step["dur_ns"])

    def test_a_phase_within_another_is_no_part_of_it(self):
        with Launch() as launch:
            ended = launch.run(WITHIN)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
            steps = launch.steps()
            for step in steps:
                self.assertLessEqual(sum(step["phases"].values()), step["dur_ns"])
                self.assertNotIn("data_ns", step["phases"])
            # The last step is a call of the optimizer with a closure.
            last = steps[-1]["phases"]
            self.assertGreaterEqual(last["backward_ns"], 3_000_000)
            self.assertGreaterEqual(last["optimizer_ns"], 2_000_000)

    def test_what_never_happens_is_absent_and_a_device_has_no_phases(self):
        for device, phases in (("cpu", {"optimizer_ns"}), ("cuda:0", None)):
            with Launch() as launch:
                launch.run("import torch\no = torch.optim.SGD([torch.Parameter(4, '%s')])\nfor _ in range(6): o.step()\n" % device)
                for step in launch.steps():
                    self.assertEqual(set(step["phases"]) if "phases" in step else None, phases)

    def test_the_end_of_a_loader_and_errors_reach_the_program(self):
        with Launch() as launch:
            program = """
import torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
for epoch in range(2):
    for batch in torch.utils.data.DataLoader([1, 2, 3]):
        optimizer.step()
try:
    torch.autograd.backward(lambda: 1 / 0)
except ZeroDivisionError:
    print("caught")
print(torch.autograd.backward.__name__, torch.autograd.backward.__doc__)
"""
            ended = launch.run(program)
            self.assertEqual(ended.stdout, "caught\nbackward Does the work of a backward pass, a function.\n")
            self.assertEqual((ended.returncode, ended.stderr, len(launch.steps())), (0, "", 5))


if __name__ == "__main__":
    unittest.main()
