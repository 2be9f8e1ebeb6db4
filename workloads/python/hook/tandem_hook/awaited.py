"""Waits until the program imports the modules of PyTorch that the hook instruments.

A finder at the front of `sys.meta_path` looks for their names. The finders behind it find them, and their own loaders load
them, as usual. Nothing is imported before, not even `importlib.util`, which would double the start-up time of Python.
"""

import _thread
import sys

AWAITED = {
    "torch.optim.optimizer": "watch_optimizers",
    "torch.amp.grad_scaler": "watch_scaler",
    # Before PyTorch 2.3.
    "torch.cuda.amp.grad_scaler": "watch_scaler",
    "torch.cuda.graphs": "watch_graphs",
    "torch.autograd": "watch_backward",
    "torch.utils.data.dataloader": "watch_loader",
    "torch._dynamo.eval_frame": "watch_compiler",
}
"""For each module, the function of `hook` that is called when it is loaded."""


def await_torch() -> None:
    """Has an effect once. It is called twice if the hook is installed and also on the path."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


class Finder:
    def __init__(self):
        self._sought = set()
        """The modules that are being sought, each with its thread."""

    def find_spec(self, name, path=None, target=None):
        search = (name, _thread.get_ident())
        # A finder of the program may itself ask all others, and so this one.
        if name not in AWAITED or search in self._sought:
            return None
        self._sought.add(search)
        try:
            spec = self._found_by_others(name, path, target)
        finally:
            self._sought.discard(search)
        if spec is not None:
            try:
                watch(spec.loader)
            except Exception:  # This loader cannot be watched, so the program is measured from outside.
                pass
        return spec

    def _found_by_others(self, name, path, target):
        """Asks the finders behind this one. Python has asked the others, or one of them asks this one."""
        finders = list(sys.meta_path)
        places = [place for place, finder in enumerate(finders) if finder is self]
        if not places:
            # The program keeps all finders in one of its own.
            finders, places = [sys.modules["_frozen_importlib_external"].PathFinder], [-1]
        for finder in finders[places[0] + 1 :]:
            find_spec = getattr(finder, "find_spec", None)
            spec = None if find_spec is None else find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def watch(loader) -> None:
    """Calls a function of `hook` when this loader has loaded an awaited module. The loader stays the same object."""
    own = vars(loader)
    if isinstance(loader, type) or getattr(own.get("exec_module"), "is_of_tandem", False):
        return
    exec_module = loader.exec_module

    def exec_watched(module) -> None:
        name = module.__name__
        if name in AWAITED:
            own.pop("exec_module", None)
        exec_module(module)
        if name in AWAITED:
            tell_hook(module, AWAITED[name])

    exec_watched.is_of_tandem = True
    loader.exec_module = exec_watched


def tell_hook(module, function: str) -> None:
    try:
        from tandem_hook import hook

        getattr(hook, function)(module)
    except Exception:  # This PyTorch lacks the hooks, so the program is measured from outside.
        pass
