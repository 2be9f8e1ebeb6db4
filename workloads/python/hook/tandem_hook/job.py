"""One rank of a job: reports the events of the worker protocol, and rests when its grant is used up."""

import atexit
import json
import os
import sys
import time
import weakref

from tandem_hook import VERSION, ending, notes, trained
from tandem_hook.boundaries import ADOPT, BEGIN, MARK, NOTHING, STEP, Boundaries
from tandem_hook.clocks import NAP_S, DeviceClock, HostClock
from tandem_hook.event_file import EventFile
from tandem_hook.grant import Grant
from tandem_hook.operators import Recording

PROTOCOL = 1

FIRST_MEMORY_STEP = 3
"""By this step gradients and workspaces have been allocated and freed once."""
MEMORY_PERIOD_NS = 2_000_000_000

LAST_STEPS_S = 10
"""The longest wait for the device at the end of a program, which would wait for it anyway."""


class Job:
    """Reports `hello` when an optimizer is first called, `ready` after the first complete step, then the steps.

    Steps are counted from the first one on. That one, and the first of each further training, has an index and no event,
    because its beginning is unknown.
    """

    def __init__(self, threads):
        """`threads` have the times of the parts of a step."""
        self._threads = threads
        self._boundaries = Boundaries()
        self._is_silent = False
        self._events = None
        self._grant = None
        self._clock = None
        self._is_ready = False
        self._device = None
        """A GPU; None on a CPU, and on devices without timing events in PyTorch."""
        self._recording = None
        """The recording of operators, in a launch that is made for it."""
        self._optimizers = {}
        """Optimizers that were called before `ready`, by their id."""
        self._noted_turns = False
        self._noted_calls = 0
        """Calls that are no steps, as last noted."""
        self._issued = 0
        """Steps that the program has taken. The device may still compute some of them."""
        self._memory_due_ns = 0
        self._peak_bytes = 0

    def ended(self, optimizer) -> bool:
        """Handles a call of an optimizer, and returns whether the job has to rest now."""
        if self._is_silent:
            return False
        call = self._boundaries.of(optimizer)
        if self._boundaries.alternate and not self._noted_turns:
            self._noted_turns = True
            notes.write("alternating")
        if not self._is_ready:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
            if self._clock is None:
                self._begin(optimizer)
                return False
        if call == STEP:
            self._clock.drop_marks()
            self._clock.end_step(self._issued)
            self._issued += 1
        elif call == NOTHING:
            return False
        else:
            if call == BEGIN:
                self._clock.drop_marks()
            self._clock.mark()
            if call == MARK:
                return False
            self._issued += 1 if call == ADOPT else self._boundaries.calls
            self._issued += self._clock.adopt_marks(self._issued)
        if not self._is_ready:
            if call == BEGIN:
                return False
            self._say_ready()
        if self._recording is not None:
            self._record_operators()
        self._say_completed()
        return not self._may_go_on()

    def is_capturing(self) -> bool:
        """Whether work is captured into a CUDA graph and not executed."""
        return self._device is not None and sys.modules["torch"].cuda.is_current_stream_capturing()

    def rest(self) -> None:
        """Sleeps until another step is granted.

        An exception in the meantime comes from a signal handler of the program, and is passed on.
        """
        while self._guarded(self._waits_for_device):
            time.sleep(NAP_S)
        if not self._guarded(self._comes_to_rest):
            return
        try:
            self._grant.wait_beyond(self._issued)
        finally:
            # The time held belongs to no step.
            self._guarded(self._clock.restart)

    def give_up(self, error: Exception) -> None:
        """Reports the error, and leaves the program alone from now on."""
        self._is_silent = True
        self._end_recording()
        try:
            self._say_failed("internal", "the hook: " + ending.words_of(error))
        except Exception:
            pass

    def abandon(self) -> None:
        """Leaves the job to the parent, in a forked child."""
        self._is_silent = True
        if self._events:
            self._events.close()

    def recover(self) -> None:
        """Begins a step now, after an exception of the program that interrupted the hook. Steps not yet reported have no event."""
        if self._is_silent or self._clock is None:
            return
        try:
            self._events.recount()
            self._clock.restart()
        except Exception as error:
            self.give_up(error)

    def _guarded(self, work):
        try:
            return work()
        except Exception as error:
            if ending.is_of_program(error):
                raise
            self.give_up(error)
            return None

    def _begin(self, optimizer) -> None:
        try:
            self._grant = Grant(os.environ["TANDEM_CONTROL"])
        except Exception as error:
            if ending.is_of_program(error):
                raise
            # The harness is out of reach, so the program is measured from outside.
            self._is_silent = True
            notes.write("ungated")
            return
        self._device = device_of(optimizer)
        self._events = EventFile.claim(os.environ["TANDEM_EVENTS"], rank())
        if self._events is None:
            self._is_silent = True
            notes.write("unheard")
            return
        self._say_hello()
        atexit.register(self._guarded, self._finish)
        self._recording = Recording.requested(rank())
        self._clock = HostClock(self._threads) if self._device is None else DeviceClock(sys.modules["torch"].cuda, self._device)
        self._issued = 1

    def _waits_for_device(self) -> bool:
        self._say_completed()
        return not self._clock.is_idle() and not self._may_go_on()

    def _comes_to_rest(self) -> bool:
        """Reports `held`, unless the grant has grown while the device completed its work."""
        if self._is_silent or self._may_go_on():
            return False
        self._say("held", {"index": self._issued})
        # The file stays short, and the program may end here.
        if self._boundaries.uncounted * 8 > self._noted_calls * 9:
            self._note_uncounted()
        return True

    def _note_uncounted(self) -> None:
        if self._noted_turns and self._noted_calls != self._boundaries.uncounted:
            self._noted_calls = self._boundaries.uncounted
            try:
                notes.write("uncounted", self._noted_calls)
            except Exception:
                # A program without descriptors, for example. Its steps count all the same.
                pass

    def _may_go_on(self) -> bool:
        return self._grant.steps() > self._issued

    def _record_operators(self) -> None:
        try:
            self._recording.after(self._issued, self._device)
        except Exception as error:
            if ending.is_of_program(error):
                raise
            # Without a trace, the harness says that the recording failed. The job goes on.
            self._recording = None

    def _end_recording(self) -> None:
        try:
            if self._recording is not None:
                self._recording.end()
        except Exception:
            # Nothing more can be done, and the program is to end as it would.
            pass

    def _say_hello(self) -> None:
        torch = sys.modules["torch"]
        hello = {"protocol": PROTOCOL, "worker": "python-hook", "version": VERSION, "libtorch": str(torch.__version__)}
        if torch.version.cuda:
            hello["cuda"] = str(torch.version.cuda)
        known = ranks()
        if known is not None:
            hello["ranks"] = known
        hello["pid"] = os.getpid()
        self._say("hello", hello)

    def _say_ready(self) -> None:
        known = [alive() for alive in list(self._optimizers.values())]
        self._optimizers.clear()
        optimizers = [optimizer for optimizer in known if optimizer is not None]
        # Optimizers do not know other parts of the model, such as buffers.
        parameters = trained.parameters(optimizers)
        ready = {"parameters": parameters} if parameters else {}
        state_bytes = trained.state_bytes(optimizers) if parameters else None
        if state_bytes is not None:
            ready["optimizer_bytes"] = state_bytes
        if self._device is not None:
            ready["peak_bytes"] = self._memory()["peak_bytes"]
        ready["startup_ns"] = process_age_ns()
        self._say("ready", ready)
        self._is_ready = True

    def _say_completed(self) -> None:
        for index, end_ns, dur_ns, phases in self._clock.completed():
            parts = b"" if phases is None else b'"phases":%b,' % phases
            step = (index, dur_ns, parts, self._clock.timing)
            self._events.say(end_ns, b'{"step":{"index":%d,"dur_ns":%d,%b"timing":"%b"}}' % step)
            if self._device is not None and end_ns >= self._memory_due_ns and index >= FIRST_MEMORY_STEP:
                self._memory_due_ns = end_ns + MEMORY_PERIOD_NS
                self._say("memory", self._memory())

    def _memory(self) -> dict:
        stats = sys.modules["torch"].cuda.memory_stats(self._device)
        # The program may have reset the allocator's peak.
        self._peak_bytes = max(self._peak_bytes, stats.get("allocated_bytes.all.peak", 0))
        return {
            "allocated_bytes": stats.get("allocated_bytes.all.current", 0),
            "reserved_bytes": stats.get("reserved_bytes.all.current", 0),
            "peak_bytes": self._peak_bytes,
            "allocator_retries": stats.get("num_alloc_retries", 0),
        }

    def _finish(self) -> None:
        if self._is_silent:
            return
        error = ending.uncaught()
        self._end_recording()
        try:
            self._note_uncounted()
            self._say_last_steps()
        except Exception as of_device:
            error = error or of_device
        if error is None:
            finished = json.dumps({"finished": {"steps": self._issued}})
            self._events.say_last(time.monotonic_ns(), finished.encode())
        else:
            self._say_failed(ending.kind_of(error), ending.words_of(error))
        self._is_silent = True

    def _say_last_steps(self) -> None:
        until_s = time.monotonic() + LAST_STEPS_S
        while self._is_ready:
            self._say_completed()
            if self._clock.is_idle() or time.monotonic() > until_s:
                return
            time.sleep(NAP_S)

    def _say_failed(self, kind: str, error: str) -> None:
        failed = json.dumps({"failed": {"kind": kind, "error": error}})
        self._events.say_last(time.monotonic_ns(), failed.encode())

    def _say(self, name: str, fields: dict) -> None:
        self._events.say(time.monotonic_ns(), json.dumps({name: fields}).encode())


def rank() -> int:
    """The rank of this process in PyTorch's process group, else the one that torchrun set, else 0."""
    group = process_group()
    return group.get_rank() if group else int(os.environ.get("RANK") or 0)


def ranks():
    """The number of ranks, from the same sources; None if unknown."""
    group = process_group()
    if group:
        return group.get_world_size()
    size = os.environ.get("WORLD_SIZE", "")
    return int(size) if size.isdecimal() else None


def process_group():
    """Returns `torch.distributed` if the program is in a process group."""
    distributed = getattr(sys.modules["torch"], "distributed", None)
    is_in_one = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if is_in_one else None


def device_of(optimizer):
    """The GPU of the optimizer's parameters, if any."""
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    return next((parameter.device for parameter in parameters if parameter.is_cuda), None)


def process_age_ns() -> int:
    """Time since the kernel started this process, with a resolution of 10 ms."""
    with open("/proc/self/stat", "rb") as file:
        # The program's name is the second field, in parentheses, and may contain anything.
        started_ticks = int(file.read().rpartition(b")")[2].split()[19])
    started_ns = started_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return max(0, time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ns)
