"""Steps on an asynchronous device: its own times, and a job that never waits while it may continue."""

import unittest

from harness import Launch

TRAINING = """
import torch
optimizer = torch.optim.SGD([torch.Parameter(8, "cuda:0")])
def train(steps, seconds):
    for _ in range(steps):
        torch.cuda.work(seconds)
        optimizer.step()
"""


class DeviceTest(unittest.TestCase):
    def assert_said(self, launch: Launch, steps: int) -> None:
        """There is this number of steps, and a report of memory after the third. Others follow every two seconds."""
        names = launch.names()
        self.assertEqual(names[:6], ["hello", "ready"] + ["step"] * 3 + ["memory"])
        self.assertEqual([name for name in names if name != "memory"], ["hello", "ready"] + ["step"] * steps + ["finished"])

    def test_steps_are_as_long_as_the_device_took(self):
        with Launch() as launch:
            at_once = "torch.cuda.pause()\ntrain(12, 0.01)\nprint(torch.cuda.Event.made)\ntorch.cuda.go_on()\n"
            ended = launch.run(TRAINING + at_once)
            self.assert_said(launch, 11)
            steps = launch.steps()
            self.assertEqual({step["timing"] for step in steps}, {"hook-device-event"})
            for step in steps:
                self.assertAlmostEqual(step["dur_ns"] / 1e6, 10, delta=0.01)
            ends_ns = [step["mono_ns"] for step in steps]
            self.assertEqual(ends_ns, sorted(ends_ns))
            self.assertEqual(int(ended.stdout), 12, "an event for each boundary that the device has not passed")

    def test_events_are_used_again(self):
        with Launch() as launch:
            in_turns = "for _ in range(50): train(1, 0.001); torch.cuda.synchronize()\n"
            ended = launch.run(TRAINING + in_turns + "print(torch.cuda.Event.made)")
            self.assertEqual(len(launch.steps()), 49)
            self.assertLess(int(ended.stdout), 10)

    def test_a_job_is_held_when_its_device_is_done(self):
        with Launch(granted=4) as launch, launch.start(TRAINING + "train(8, 0.02)") as process:
            launch.wait_for("held", process)
            self.assertEqual(launch.names()[2:], ["step"] * 3 + ["memory", "held"])
            held, last = launch.lines()[-1], launch.steps()[-1]
            self.assertGreaterEqual(held["mono_ns"], last["mono_ns"])
            launch.grant(100)
            process.communicate()
            after = launch.steps()[3]
            self.assertGreater(after["mono_ns"] - after["dur_ns"], held["mono_ns"], "time held belongs to no step")

    def test_memory_is_what_the_allocator_says(self):
        with Launch() as launch:
            launch.run(TRAINING + "train(12, 0)")
            memory = dict(launch.events())["memory"]
            self.assertEqual(memory, {"allocated_bytes": 10, "reserved_bytes": 40, "peak_bytes": 30, "allocator_retries": 0})
            self.assertEqual(dict(launch.events())["ready"]["peak_bytes"], 30)

    def test_a_graph_takes_its_steps_when_it_is_replayed(self):
        program = """
torch.cuda.pause()
train(3, 0.001)
whole, part = torch.cuda.graphs.CUDAGraph(), torch.cuda.graphs.CUDAGraph()
whole.capture_begin()
optimizer.step()
whole.capture_end()
part.capture_begin()
part.capture_end()
for _ in range(5):
    part.replay()
    whole.replay()
torch.cuda.go_on()
"""
        with Launch() as launch:
            self.assertEqual(launch.run(TRAINING + program).stderr, "")
            self.assert_said(launch, 7)
            for step in launch.steps()[2:]:
                self.assertAlmostEqual(step["dur_ns"] / 1e6, 2 * 5, delta=0.01)

    def test_a_device_that_fails_ends_nothing_but_the_events(self):
        with Launch() as launch:
            ended = launch.run(TRAINING + "torch.cuda.breaks_after = 9\ntrain(30, 0)\nprint('done')")
            self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "done\n", ""))
            name, failed = launch.events()[-1]
            self.assertEqual((name, failed["kind"]), ("failed", "internal"))
            self.assertIn("illegal memory access", failed["error"])

    def test_the_program_s_own_error_is_the_one_that_is_told(self):
        last = "torch.cuda.breaks_after = 0\nraise torch.OutOfMemoryError('2 GiB')"
        with Launch() as launch:
            launch.run(TRAINING + "train(5, 0.001)\n" + last)
            self.assertEqual(launch.events()[-1][1]["kind"], "out-of-memory")


if __name__ == "__main__":
    unittest.main()
