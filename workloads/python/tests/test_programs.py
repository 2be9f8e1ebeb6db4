"""Programs in the styles of public ones, with the real PyTorch: counts and times of the hook against those of the programs."""

import json
import os
import subprocess
import unittest

from harness import HERE, LONG_S, Launch, asked_of, python_with_torch, version_of_torch

PYTHON = python_with_torch()
PROGRAMS = HERE / "programs"
TORCHRUN = "-m torch.distributed.run --nproc-per-node=2"

# The program and its arguments, the steps of each training, and the oldest PyTorch.
STEPS = [
    ("accelerated.py", [60], (2, 0)),
    ("classifier.py --workers 2", [60], (2, 0)),
    ("classifier.py --optimizer foreach", [60], (2, 0)),
    ("classifier.py --optimizer fused", [60], (2, 4)),
    ("classifier.py --optimizer foreach --lr 1e30", [2], (2, 0)),
    (f"{TORCHRUN} ddp.py", [60], (2, 0)),
    ("ema.py", [60], (2, 1)),
    ("fabric.py", [60], (2, 1)),
    ("folds.py", [40, 40, 40], (2, 0)),
    ("folds.py --keep", [40, 40, 40], (2, 0)),
    ("gpt.py", [60], (2, 0)),
    ("gpt.py --bf16", [60], (2, 0)),
    ("gpt.py --compile", [60], (2, 3)),
    ("hogwild.py", [60], (2, 0)),
    ("in_backward.py", [240], (2, 1)),
    ("layers.py", [30, 30, 30], (2, 0)),
    ("lbfgs.py", [60], (2, 0)),
    ("scaler.py", [60], (2, 3)),
    ("trainer.py", [60], (2, 1)),
    ("translation.py", [60], (2, 0)),
    ("wgan.py", [60], (2, 0)),
]
WITHOUT_STEPS = ["inference.py", "manual_sgd.py"]

NEEDS = {"accelerated.py": "accelerate", "fabric.py": "lightning", "trainer.py": "lightning"}
RACES = {"hogwild.py"}
"""Programs whose losses differ from run to run."""


class Ended:
    """The output of a program, without the parts that differ from run to run."""

    def __init__(self, launch: Launch, command: str):
        words = command.split()
        name = next(word for word in words if word.endswith(".py"))
        words[words.index(name)] = str(PROGRAMS / name)
        # Otherwise Python would write bytecode into the checkout.
        environment = {**launch.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run([PYTHON, *words], env=environment, capture_output=True, text=True, timeout=LONG_S)
        self.returncode, self.errors = ended.returncode, ended.stderr
        told, self.printed = [], []
        for line in ended.stdout.splitlines():
            if line.startswith("{"):
                told.append(line)
            else:
                # A program may print its speed before its loss.
                self.printed.append(line.rpartition("| loss")[2])
        self.told = [json.loads(line) for line in told]

    def losses(self) -> list:
        """The losses of each process, sorted, because processes begin in any order."""
        processes = {line["pid"] for line in self.told}
        return sorted([line["loss"] for line in self.told if line["pid"] == pid and "loss" in line] for pid in processes)

    def trainings(self, pid: int) -> list:
        """The begin of each training of a process, followed by the ends of its steps, by its own clock."""
        trainings = []
        for line in self.told:
            if line["pid"] == pid and "begin_ns" in line:
                trainings.append([line["begin_ns"]])
            elif line["pid"] == pid:
                trainings[-1].append(line["end_ns"])
        return trainings


@unittest.skipUnless(os.environ.get("TANDEM_SLOW") == "1", "slow: set TANDEM_SLOW=1")
@unittest.skipUnless(PYTHON, "pytorch: neither this Python nor .venv-parity has it")
class ProgramsTest(unittest.TestCase):
    def both_ways(self, command: str, launch: Launch) -> Ended:
        """Runs a program without the hook and with it, and compares its behaviour."""
        with Launch(python=PYTHON, fake=False) as bare:
            del bare.environment["PYTHONPATH"], bare.environment["TANDEM_EVENTS"]
            alone = Ended(bare, command)
        hooked = Ended(launch, command)
        self.assertEqual((hooked.returncode, hooked.printed), (alone.returncode, alone.printed), hooked.errors)
        self.assertNotIn("tandem", hooked.errors)
        if command not in RACES:
            self.assertEqual(hooked.losses(), alone.losses())
        return hooked

    def test_counts_and_times_are_the_programs_own(self):
        version = version_of_torch(PYTHON)
        for command, trainings, least in STEPS:
            with self.subTest(command):
                needs = NEEDS.get(command)
                if version < least:
                    self.skipTest("pytorch: %s needs %d.%d" % (command, *least))
                if needs and not asked_of(PYTHON, f"import {needs}; print('here')"):
                    self.skipTest(f"{needs}: this Python does not have it")
                with Launch(python=PYTHON, fake=False) as launch:
                    ended = self.both_ways(command, launch)
                    for rank in range(2 if TORCHRUN in command else 1):
                        self.steps_are(trainings, ended, launch, rank)

    def steps_are(self, trainings: list, ended: Ended, launch: Launch, rank: int) -> None:
        (name, hello), *_, (last, finished) = launch.events(rank)
        own = ended.trainings(hello["pid"])
        self.assertEqual((name, [len(ends) for _, *ends in own]), ("hello", trainings))
        # A process that leaves by os._exit, as those of torch.multiprocessing do, has no last event.
        self.assertIn(last, ("finished", "step"))
        if last == "finished":
            self.assertEqual(finished["steps"], sum(trainings))
        steps, begun = {step["index"]: step for step in launch.steps(rank)}, 0
        for training_ns, *ends in own:
            # The hook cannot know when the first step of a training began.
            self.assertNotIn(begun, steps)
            for index, (begin_ns, end_ns) in enumerate(zip(ends, ends[1:]), begun + 1):
                ends_ns = steps[index]["mono_ns"]
                self.assertTrue(begin_ns < ends_ns <= end_ns, f"step {index} ends elsewhere")
                begins_ns = ends_ns - steps[index]["dur_ns"]
                if index == begun + 1:
                    self.assertTrue(training_ns < begins_ns <= begin_ns, f"step {index} begins elsewhere")
                else:
                    self.assertEqual(begins_ns, steps[index - 1]["mono_ns"], f"step {index} begins elsewhere")
            begun += len(ends)
        self.assertEqual(len(steps), sum(trainings) - len(trainings))

    def test_of_several_trainers_all_but_one_are_named(self):
        with Launch(python=PYTHON, fake=False) as launch:
            ended = Ended(launch, "hogwild.py")
            self.assertEqual(len({line["pid"] for line in ended.told}), 2)
            self.assertEqual((ended.returncode, launch.notes().count("unheard")), (0, 1))

    def test_programs_without_an_optimizer_are_left_alone(self):
        for command in WITHOUT_STEPS:
            with self.subTest(command), Launch(python=PYTHON, fake=False) as launch:
                self.both_ways(command, launch)
                self.assertEqual((launch.names(), launch.notes()), ([], ["loaded"]))


if __name__ == "__main__":
    unittest.main()
