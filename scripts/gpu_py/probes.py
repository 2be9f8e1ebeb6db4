"""Probes of a machine beyond the commands of `profile`: the list of them, and the program that runs one.

    python3 probes.py NAME DEVICE [--quick]

prints one JSON line per answer, at once, so that an interrupted probe keeps its answers.
"""

import importlib
import importlib.util
import json
import signal
import sys
from dataclasses import dataclass

import nvml


@dataclass(frozen=True)
class Probe:
    name: str
    about: str
    full_limit_s: int
    needs: str = ""
    """`gpu`: the probe needs a GPU. `torch`: the probe needs PyTorch in this Python."""

    def limit_s(self, quick: bool) -> int:
        """As for parts, a probe that takes longer in a quick check hangs."""
        return 3 * self.full_limit_s if quick else self.full_limit_s

    def reason_not_to(self, place) -> str | None:
        if "gpu" in self.needs and not place.is_gpu:
            return f"{place.device} is no GPU"
        if "torch" in self.needs and importlib.util.find_spec("torch") is None:
            return "this python3 has no PyTorch"
        return None

    def not_asked(self, reason: str) -> dict:
        return {"probe": self.name, "question": self.about, "answer": f"not possible here: {reason}", "numbers": {}}


PROBES = [
    Probe("machine", "which libraries, MPS programs, cgroups and counters there are", 10),
    Probe("driver", "how the driver's buffers, counters and metrics behave", 25, "gpu torch"),
    Probe("mps", "whether MPS works, and what a thread percentage does", 40, "gpu torch"),
    Probe("corunners", "what the driver attributes to two processes that share the device", 40, "gpu torch"),
    Probe("steps", "what a hook on optimizer steps costs", 60, "torch"),
    Probe("gate", "how fast a hook on optimizer steps pauses a job", 50, "torch"),
    Probe("drain", "how long a stopped process keeps the device busy", 20, "gpu torch"),
    Probe("checkpoint", "whether the driver moves a process off the device and back", 60, "gpu torch"),
    # Last, because its clients fault and are killed with kernels in flight, which can break a device.
    Probe("mps_ends", "what limits clients of MPS, and who fails when a client, the server or the daemon ends", 75, "gpu"),
]


def answers_of(probe: Probe, ran) -> list[dict]:
    """The output of a probe, with the reason if it did not complete."""
    answers = [{"probe": probe.name, **json.loads(line)} for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.torn:
        answers.append(probe.not_asked("not done when its time was up"))
    elif ran.code and not any(answer["answer"].startswith("failed: ") for answer in answers):
        answers.append(probe.not_asked(ran.last_line))
    return answers


class NotPossible(Exception):
    """The reason why a question cannot be answered on this machine."""


def tell(question: str, answer: str, **numbers) -> None:
    """One answer: a text, and the numbers behind it with their units in the names."""
    print(json.dumps({"question": question, "answer": answer, "numbers": numbers}), flush=True)


def ask(question: str, asked, *arguments) -> bool:
    """Prints the answer of a function, or the reason why there is none. A failure does not end other questions.

    Returns False for an unexpected failure.
    """
    try:
        return asked(*arguments) is not False
    except (NotPossible, nvml.Error) as reason:
        tell(question, f"not possible here: {reason}")
        return True
    except Exception as error:
        tell(question, f"failed: {type(error).__name__}: {error}")
        return False


def main() -> None:
    name, device, *rest = sys.argv[1:]
    # SIGTERM must undo the effects of a probe: daemons, pauses, checkpoints.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    module = importlib.import_module(f"probe_{name}")
    about = next(probe.about for probe in PROBES if probe.name == name)
    sys.exit(0 if ask(about, module.probe, device, "--quick" in rest) else 1)


if __name__ == "__main__":
    # The probes import this module by its name, and must share one NotPossible.
    importlib.import_module("probes").main()
