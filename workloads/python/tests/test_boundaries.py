"""Which calls of optimizers are steps."""

import unittest

from harness import Launch

MODEL = """
import torch
SGD, Optimizer, Parameter = torch.optim.SGD, torch.optim.Optimizer, torch.Parameter
"""

PROGRAMS = {
    # Name, text, number of steps, number of steps without a time, and whether optimizers take turns.
    "gradients of four micro-batches are added up": (
        """
optimizer = SGD()
for micro_batch in range(40):
    if micro_batch % 4 == 3: optimizer.step()
""",
        10,
        1,
        False,
    ),
    "a GAN whose discriminator is trained five times as often": (
        """
generator, discriminator = SGD([Parameter(3)]), SGD([Parameter(4)])
for _ in range(10):
    generator.step()
    for _ in range(5): discriminator.step()
""",
        10,
        1,
        True,
    ),
    "an optimizer for each parameter": (
        """
optimizers = [SGD([Parameter(1)]) for _ in range(200)]
for _ in range(10):
    for optimizer in reversed(optimizers): optimizer.step()
""",
        10,
        1,
        True,
    ),
    "a subclass that calls super().step()": (
        """
class Clipped(SGD):
    def step(self, closure=None): return super().step(closure)
class Noisy(Clipped):
    def step(self, closure=None): return super().step(closure)
optimizer = Noisy()
for _ in range(10): optimizer.step()
""",
        10,
        1,
        False,
    ),
    "a subclass that calls super().step() again and again": (
        """
class Eager(SGD):
    def step(self, closure=None):
        for _ in range(5): super().step(closure)
optimizer = Eager()
for _ in range(10): optimizer.step()
""",
        10,
        1,
        False,
    ),
    "an optimizer of optimizers": (
        """
class Several(Optimizer):
    def __init__(self): super().__init__(); self.of = [SGD() for _ in range(7)]
    def step(self, closure=None):
        for optimizer in self.of: optimizer.step()
optimizer = Several()
for _ in range(10): optimizer.step()
""",
        10,
        1,
        False,
    ),
    "a closure that trains another optimizer": (
        """
outer, inner = SGD(), SGD()
for _ in range(10): outer.step(inner.step)
""",
        10,
        1,
        False,
    ),
    "exceptions in step, which leave it open": (
        """
def overflow(): raise OverflowError
class Clipped(SGD):
    def step(self, closure=None): return super().step(closure)
optimizer = Clipped()
for index in range(13):
    try: optimizer.step(overflow if index in (1, 5, 6) else None)
    except OverflowError: pass
""",
        10,
        1,
        False,
    ),
    "a scaler that skips the optimizer when gradients overflow": (
        """
optimizer, scaler = SGD(), torch.amp.GradScaler()
for index in range(10):
    scaler.overflowed = index in (3, 4, 9)
    scaler.step(optimizer)
""",
        10,
        1,
        False,
    ),
    "two optimizers of one scaler, of which one overflows": (
        """
optimizers, scaler = [SGD(), SGD()], torch.amp.GradScaler()
for index in range(10):
    for which, optimizer in enumerate(optimizers):
        scaler.overflowed = which == 0 and index in (3, 4)
        scaler.step(optimizer)
""",
        10,
        1,
        True,
    ),
    "a first training whose optimizer is gone": (
        """
def train(steps):
    optimizer = SGD()
    for _ in range(steps): optimizer.step()
train(4)
train(6)
""",
        10,
        2,
        False,
    ),
    "trainings one after the other whose optimizers stay": (
        """
for optimizer in [SGD() for _ in range(3)] * 2:
    kept = globals().setdefault("kept", [])
    kept.append(optimizer)
    for _ in range(20): optimizer.step()
""",
        6 * 20,
        6,
        False,
    ),
    "a training of a few steps, of which nothing is known, before one of many": (
        """
first, second = SGD(), SGD()
for _ in range(3): first.step()
for _ in range(128 + 8): second.step()
""",
        3 + 128 + 8,
        1 + 129,
        False,
    ),
    "folds of a GAN, whose optimizers stay": (
        """
kept = [(SGD(), SGD()) for _ in range(2)]
for generator, discriminator in kept:
    for _ in range(20):
        generator.step()
        for _ in range(5): discriminator.step()
""",
        # The discriminator of the second training takes over after twice five calls plus four.
        20 + 100,
        1 + 15,
        True,
    ),
    "a generator that is trained alone, then both": (
        """
generator, discriminator = SGD(), SGD()
for _ in range(10): generator.step()
for _ in range(10):
    for _ in range(5): discriminator.step()
    generator.step()
""",
        10 + 50,
        2,
        True,
    ),
    "turns of two steps each": (
        """
one, other = SGD(), SGD()
for _ in range(20):
    for optimizer in (one, other):
        for _ in range(2): optimizer.step()
""",
        40,
        1,
        True,
    ),
    "several threads, each with an optimizer": (
        """
import threading
def train(optimizer):
    for _ in range(10): optimizer.step()
optimizers = [SGD() for _ in range(4)]
threads = [threading.Thread(target=train, args=[optimizer]) for optimizer in optimizers]
for thread in threads: thread.start(); thread.join()
""",
        10 + 3 * 10,
        4,
        False,
    ),
}


class BoundaryTest(unittest.TestCase):
    def test_steps_are_what_they_are(self):
        for what, (program, steps, untimed, take_turns) in PROGRAMS.items():
            with self.subTest(what), Launch() as launch:
                ended = launch.run(MODEL + program)
                self.assertEqual(ended.stderr, "")
                self.assertEqual(launch.names(), ["hello", "ready"] + ["step"] * (steps - untimed) + ["finished"])
                self.assertEqual(launch.events()[-1][1]["steps"], steps)
                self.assertEqual(launch.notes(), ["loaded"] + ["alternating", "uncounted"] * take_turns)
                indices = [step["index"] for step in launch.steps()]
                self.assertEqual(indices, sorted(set(indices)))
                self.assertTrue(1 <= indices[0] and indices[-1] == steps - 1, indices)

    def test_the_calls_of_others_are_noted_with_their_number(self):
        """The inner optimizer of meta-learning is a new one for each task, and the outer one stays."""
        maml = """
outer = SGD()
for _ in range(60):
    for task in range(4):
        inner = SGD()
        for _ in range(5): inner.step()
    outer.step()
"""
        two = """
critic, generator = SGD(), SGD()
for _ in range(40):
    for _ in range(5): critic.step()
    generator.step()
"""
        for what, program, steps, others in (("meta-learning", maml, 1200, 60), ("a GAN", two, 200, 40)):
            for granted in (None, 7):
                with self.subTest(what, granted=granted), Launch(**({"granted": granted} if granted else {})) as launch:
                    with launch.start(MODEL + program) as process:
                        if granted:
                            launch.wait_for_rest(process)
                            launch.grant(steps + 1)
                        self.assertEqual(process.communicate(), ("", ""))
                    self.assertEqual(launch.events()[-1], ("finished", {"steps": steps}))
                    self.assertEqual(sorted(set(launch.notes())), ["alternating", "loaded", "uncounted"])
                    self.assertEqual(launch.uncounted(), others)

    def test_the_time_between_two_trainings_is_no_step(self):
        on_cpu = """
import time
def work():
    until_ns = time.monotonic_ns() + 1_000_000
    while time.monotonic_ns() < until_ns: pass
def idle(): pass
"""
        on_cuda = """
import time
def work(): torch.cuda.work(0.001)
idle = torch.cuda.synchronize
"""
        program = """
def train(optimizer):
    idle()
    print(time.monotonic_ns())
    for _ in range(10):
        work()
        optimizer.step()
optimizers = [SGD([Parameter(1, DEVICE)]) for _ in range(3)]
for optimizer in optimizers: train(optimizer)
del optimizer, optimizers
train(SGD([Parameter(1, DEVICE)]))
"""
        for device, work in (("cpu", on_cpu), ("cuda:0", on_cuda)):
            with self.subTest(device), Launch() as launch:
                ended = launch.run(MODEL + work + program.replace("DEVICE", repr(device)))
                self.assertEqual(ended.stderr, "")
                begins_ns = [int(line) for line in ended.stdout.split()]
                steps = launch.steps()
                # The first step of each training has no time.
                timed = [index for index in range(40) if index % 10]
                self.assertEqual([step["index"] for step in steps], timed)
                for step in steps:
                    self.assertGreaterEqual(step["mono_ns"] - step["dur_ns"], begins_ns[step["index"] // 10])
                    # The device's clock is read in floating point.
                    self.assertGreaterEqual(step["dur_ns"], 999_000)

    def test_the_parameters_of_all_optimizers_count_once(self):
        program = """
shared = Parameter(5)
optimizers = [SGD([Parameter(10), shared]), SGD([Parameter(100), shared]), SGD([Parameter(1000)])]
for _ in range(3):
    for optimizer in optimizers: optimizer.step()
"""
        with Launch() as launch:
            launch.run(MODEL + program)
            self.assertEqual(launch.events()[1][1]["parameters"], 1115)

    def test_no_optimizer_is_kept_alive(self):
        program = """
import weakref
optimizer = SGD()
for _ in range(4): optimizer.step()
alive = weakref.ref(optimizer)
del optimizer
print(alive())
"""
        with Launch() as launch:
            self.assertEqual(launch.run(MODEL + program).stdout, "None\n")


if __name__ == "__main__":
    unittest.main()
