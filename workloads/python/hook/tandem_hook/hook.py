"""The functions that PyTorch calls before and after every optimizer step, and those that are put around others of its functions. The
former catch every exception of the hook, and none of a signal handler of the program."""

import functools
import os
import sys

from tandem_hook import notes
from tandem_hook.calls import Calls
from tandem_hook.ending import is_of_program
from tandem_hook.graphs import Graphs
from tandem_hook.job import Job
from tandem_hook.phases import BACKWARD, DATA, Threads, timed

_calls = Calls()
_graphs = Graphs()
_threads = Threads()
_job = Job(_threads)


def watch_optimizers(module) -> None:
    """`module` is `torch.optim.optimizer`. It has just been loaded, and the rest of PyTorch may not be."""
    # First: PyTorch before 2.1 lacks what follows, and is PyTorch nevertheless.
    notes.write("loaded")
    register_before, register_after = module.register_optimizer_step_pre_hook, module.register_optimizer_step_post_hook
    register_before(before)
    register_after(after)
    os.register_at_fork(after_in_child=forget)


def watch_scaler(module) -> None:
    """A scaler skips its optimizer if gradients overflowed, but the mini-batch has ended nevertheless."""
    # A `step` of the base class is watched in the base class.
    step = vars(module.GradScaler).get("step")
    if step is None:
        return

    @functools.wraps(step)
    def watched(scaler, optimizer, *arguments, **keywords):
        begun = _calls.begun
        result = step(scaler, optimizer, *arguments, **keywords)
        if _calls.begun == begun:
            ended(optimizer)
        return result

    module.GradScaler.step = watched


def watch_graphs(module) -> None:
    _graphs.watch(module.CUDAGraph, ended)


def watch_backward(module) -> None:
    """`Tensor.backward` calls this function of the module, too."""
    module.backward = timed(module.backward, BACKWARD, lambda: _threads.times)


def watch_loader(module) -> None:
    base = module._BaseDataLoaderIter
    base.__next__ = timed(base.__next__, DATA, lambda: _threads.times)


def watch_compiler(module) -> None:
    """torch.compile would compile the function around `backward`, which has tensors among its arguments, and warn of its clock."""
    module.skip_code(timed(before, BACKWARD, before).__code__)


def before(optimizer, arguments, keywords) -> None:
    try:
        _calls.begin()
        if _calls.depth == 1:
            _threads.times.begin_optimizer()
    except BaseException as error:
        if is_of_program(error):
            raise


def after(optimizer, arguments, keywords) -> None:
    try:
        # The frame is that of PyTorch's wrapper around `step`.
        is_outermost = _calls.end(sys._getframe(1))
        if is_outermost:
            _threads.times.end_optimizer()
    except BaseException as error:
        if is_of_program(error):
            raise
        return
    if is_outermost:
        ended(optimizer)


# With this mark torch.compile does not compile them, and compiled code around them calls them.
before._torchdynamo_disable = after._torchdynamo_disable = True


def ended(optimizer) -> None:
    """Handles the end of an optimizer's step."""
    job = _job
    try:
        if job.is_capturing():
            _graphs.capture(optimizer)
            return
        if job.ended(optimizer):
            job.rest()
    except BaseException as error:
        if is_of_program(error):
            job.recover()
            raise
        job.give_up(error)


def forget() -> None:
    """Resets the state in a forked child, most of which train nothing."""
    global _calls, _threads, _job
    try:
        _job.abandon()
        _calls, _threads = Calls(), Threads()
        _job = Job(_threads)
    except Exception:  # Python would print it.
        pass
