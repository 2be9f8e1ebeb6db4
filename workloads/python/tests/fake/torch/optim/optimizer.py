"""The global hooks of PyTorch 2.11, and the wrapper that calls them, patched into each class at its first instance."""

import functools
from itertools import chain

from torch import profiler

_pre_hooks = {}
_post_hooks = {}


def register_optimizer_step_pre_hook(hook):
    _pre_hooks[len(_pre_hooks)] = hook


def register_optimizer_step_post_hook(hook):
    _post_hooks[len(_post_hooks)] = hook


class Optimizer:
    def __init__(self, parameters=()):
        self.param_groups = [{"params": list(parameters)}]
        step = type(self).step
        if not getattr(step, "hooked", None):
            type(self).step = self.profile_hook_step(step)
            type(self).step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            self, *_ = args
            for pre_hook in chain(_pre_hooks.values()):
                result = pre_hook(self, args, kwargs)
                if result is not None:
                    raise RuntimeError("a hook of ours changes the arguments")
            out = func(*args, **kwargs)
            profiler.note(type(self).__name__)
            for post_hook in chain(_post_hooks.values()):
                post_hook(self, args, kwargs)
            return out

        return wrapper
