"""The events of a job under the hook, and its rest at the end of its grant."""

import re
import signal
import time
import unittest

from harness import HOOK, ROOT, Launch

TRAINING = """
import time, torch
def work():
    until_ns = time.monotonic_ns() + 1_000_000
    while time.monotonic_ns() < until_ns: pass
optimizer = torch.optim.SGD([torch.Parameter(1000), torch.Parameter(24), torch.Parameter(5, requires_grad=False)])
for _ in range(6):
    work()
    optimizer.step()
"""


def fields_in_the_wire(name: str) -> dict:
    """The fields of an event in `wire.rs`, and whether each may be absent, as an empty list is."""
    wire = (ROOT / "workloads/schema/src/wire.rs").read_text()
    patterns = [pattern % name.capitalize() for pattern in (r"pub struct %s \{(.*?)\n\}", r"\n    %s \{(.*?)\n    \}")]
    body = next(filter(None, (re.search(pattern, wire, re.DOTALL) for pattern in patterns)))
    return {field: bool(optional) for field, optional in re.findall(r"(?m)^ +(?:pub )?(\w+): (Option<|Vec<)?", body[1])}


class ProtocolTest(unittest.TestCase):
    def test_a_program_says_what_a_worker_says(self):
        with Launch() as launch:
            before_ns = time.monotonic_ns()
            with launch.start(TRAINING) as process:
                started_ns = time.monotonic_ns()
                printed = process.communicate()
            self.assertEqual((process.returncode, *printed), (0, "", ""))
            self.assertEqual(launch.names(), ["hello", "ready"] + ["step"] * 5 + ["finished"])
            (_, hello), (_, ready), *_, (_, finished) = launch.events()
            self.assertEqual((hello["protocol"], hello["worker"], hello["libtorch"]), (1, "python-hook", "2.11.0+fake"))
            self.assertNotIn("cuda", hello)
            self.assertEqual(ready["parameters"], 1024)
            hello_ns, ready_ns = (line["mono_ns"] for line in launch.lines()[:2])
            # The age of a process has a resolution of 10 ms.
            self.assertGreaterEqual(ready["startup_ns"] + 10_000_000, hello_ns - started_ns)
            self.assertLessEqual(ready["startup_ns"], ready_ns - before_ns + 10_000_000)
            self.assertEqual(finished, {"steps": 6})

    def test_what_the_hook_cannot_know_is_absent(self):
        not_trained = """
import torch
optimizer = torch.optim.SGD()
for _ in range(4): optimizer.step()
"""
        for program, parameters in ((TRAINING, {"parameters": 1024}), (not_trained, {})):
            with Launch() as launch:
                launch.run(program)
                (_, hello), (_, ready), *steps, (_, finished) = launch.events()
                self.assertNotIn("ranks", hello)
                del ready["startup_ns"]
                self.assertEqual(ready, parameters)
                for _, step in steps:
                    self.assertEqual(set(step), {"index", "dur_ns", "phases", "timing"})
                    self.assertEqual(set(step["phases"]), {"optimizer_ns"})
                self.assertEqual(set(finished), {"steps"})

    def test_the_state_of_optimizers_is_what_this_process_holds(self):
        program = """
import torch
class Divided:
    _local_tensor = torch.Parameter(12)
    def numel(self): return 24
    def element_size(self): return 4
parameters = [torch.Parameter(1000), torch.Parameter(24)]
optimizer = torch.optim.SGD(parameters)
optimizer.state = {parameters[0]: {"step": 7, "mean": torch.Parameter(1000), "square": torch.Parameter(1000)},
                   parameters[1]: {"mean": Divided()}, "fraction": 0.5}
shared = torch.optim.SGD(parameters)
shared.state = {parameters[0]: {"mean": optimizer.state[parameters[0]]["mean"]}}
for _ in range(3): optimizer.step(), shared.step()
"""
        with Launch() as launch:
            launch.run(program)
            ready = dict(launch.events())["ready"]
            self.assertEqual((ready["parameters"], ready["optimizer_bytes"]), (1024, 4 * (2 * 1000 + 12)))
        ends = {
            "": 0,
            "class Outer(torch.optim.SGD): pass\no = Outer(o.parameters)\no.state = {}": None,
            "o.state = [1]": None,
        }
        for change, expected in ends.items():
            program = "import torch\no = torch.optim.SGD([torch.Parameter(8)])\no.state = {}\no.parameters = [torch.Parameter(8)]\n"
            with self.subTest(change), Launch() as launch:
                launch.run(program + change + "\nfor _ in range(3): o.step()\n")
                self.assertEqual(dict(launch.events())["ready"].get("optimizer_bytes"), expected)

    def test_steps_lie_from_boundary_to_boundary(self):
        with Launch() as launch:
            launch.run(TRAINING)
            steps = launch.steps()
            self.assertEqual([step["index"] for step in steps], [1, 2, 3, 4, 5])
            self.assertEqual({step["timing"] for step in steps}, {"hook"})
            for earlier, later in zip(steps, steps[1:]):
                self.assertEqual(later["mono_ns"] - later["dur_ns"], earlier["mono_ns"])
                self.assertGreaterEqual(later["dur_ns"], 1_000_000)

    def test_every_event_has_the_fields_of_the_wire(self):
        cuda = "import torch\np = [torch.Parameter(4, 'cuda:0')]\no = torch.optim.SGD(p)\nfor _ in range(6): o.step()\n"
        for program in (TRAINING, cuda, cuda + "raise ValueError"):
            with Launch(granted=2) as launch:
                with launch.start(program) as process:
                    launch.wait_for("held", process)
                    launch.grant(9)
                    process.communicate()
                for name, event in launch.events():
                    fields = fields_in_the_wire(name)
                    always = {field for field, optional in fields.items() if not optional}
                    self.assertTrue(always <= set(event) <= set(fields), (name, event))

    def test_each_timing_is_a_word_of_the_wire(self):
        wire = (ROOT / "workloads/schema/src/wire.rs").read_text()
        words = re.findall(rb'timing = b"([\w-]+)"', (HOOK / "tandem_hook/clocks.py").read_bytes())
        self.assertEqual(len(words), 2)
        for word in words:
            variant = "".join(part.capitalize() for part in word.decode().split("-"))
            self.assertRegex(wire, r"(?m)^    %s,$" % variant)

    def test_the_version_is_that_of_the_harness(self):
        version = re.search(r'(?m)^version = "(.+)"$', (ROOT / "Cargo.toml").read_text())[1]
        self.assertIn('VERSION = "%s"' % version, (HOOK / "tandem_hook/__init__.py").read_text())

    def test_the_readme_names_every_file(self):
        listed = re.findall(r"(?m)^(hook/.+)$", (HOOK.parent / "README.md").read_text())
        self.assertEqual(listed, sorted(str(path.relative_to(HOOK.parent)) for path in HOOK.rglob("*.py")))


class GrantTest(unittest.TestCase):
    def test_a_job_rests_at_the_boundary_where_its_grant_ends(self):
        with Launch(granted=0) as launch, launch.start(TRAINING) as process:
            launch.wait_for("held", process)
            self.assertEqual(launch.names(), ["hello", "ready", "step", "held"])
            self.assertEqual(launch.events()[-1], ("held", {"index": 2}), "two steps are over before it can be ready")
            launch.grant(4)
            launch.wait_for(("held", {"index": 4}), process)
            granted_ns = time.monotonic_ns()
            launch.grant(100)
            process.communicate()
            after = launch.steps()[3]
            self.assertGreaterEqual(after["mono_ns"] - after["dur_ns"], granted_ns, "time held belongs to no step")
            self.assertEqual(launch.names()[4:], ["step", "step", "held", "step", "step", "finished"])

    def test_a_job_that_rests_can_be_ended(self):
        with Launch(granted=1) as launch, launch.start(TRAINING) as process:
            launch.wait_for("held", process)
            process.send_signal(signal.SIGTERM)
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGTERM)
            self.assertEqual(launch.names()[-1], "held", "a killed process has no last event")

    def test_a_signal_handler_of_the_program_is_heard_while_it_rests(self):
        program = """
import signal, torch
class Late(Exception): pass
def late(*_): raise Late
signal.signal(signal.SIGALRM, late)
optimizer = torch.optim.SGD()
try:
    while True: optimizer.step()
except Late:
    print("late", flush=True)
optimizer.step()
"""
        with Launch(granted=3) as launch, launch.start(program) as process:
            launch.wait_for_rest(process)
            process.send_signal(signal.SIGALRM)
            self.assertEqual(process.stdout.readline(), "late\n")
            launch.grant(9)
            process.communicate()
            self.assertEqual(process.returncode, 0)
            self.assertEqual([name for name in launch.names() if name != "held"][2:], ["step", "step", "step", "finished"])

    def test_a_signal_handler_of_the_program_is_heard_within_the_hook(self):
        program = """
import os, signal, torch
class Late(Exception): pass
def late(number, *_): raise Late if number == signal.SIGALRM else KeyboardInterrupt
signal.signal(signal.SIGALRM, late)
signal.signal(signal.SIGUSR1, late)
optimizer = torch.optim.SGD()
write, signals = os.write, [None, None, None, signal.SIGALRM, None, signal.SIGUSR1, None, None]
def write_and_be_told(descriptor, line):
    if b'"step"' not in line: return write(descriptor, line)
    number = signals.pop(0)
    if number == signal.SIGUSR1: os.kill(os.getpid(), number)
    written = write(descriptor, line)
    if number == signal.SIGALRM: os.kill(os.getpid(), number)
    return written
os.write = write_and_be_told
heard = []
for _ in range(9):
    try: optimizer.step()
    except (Late, KeyboardInterrupt) as error: heard.append(type(error).__name__)
print(heard)
"""
        with Launch() as launch:
            process = launch.run(program)
            self.assertEqual((process.stdout, process.stderr), ("['Late', 'KeyboardInterrupt']\n", ""))
            self.assertEqual([step["index"] for step in launch.steps()], [1, 2, 3, 4, 5, 7, 8])
            self.assertEqual(launch.names()[-1], "finished", "the line of step 4 was written, and that of step 6 was not")


if __name__ == "__main__":
    unittest.main()
