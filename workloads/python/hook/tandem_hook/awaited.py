"""Waits until the program imports the modules of PyTorch that the hook instruments.

A finder at the front of `sys.meta_path` looks for their names. The other finders and loaders find and load them as usual.
Nothing is imported before, not even `importlib.util`, which would double the start-up time of Python.
"""

import sys

AWAITED = {
    "torch.optim.optimizer": "watch_optimizers",
    "torch.amp.grad_scaler": "watch_scaler",
    # Before PyTorch 2.3.
    "torch.cuda.amp.grad_scaler": "watch_scaler",
    "torch.cuda.graphs": "watch_graphs",
}
"""For each module, the function of `hook` that is called when it is loaded."""


def await_torch() -> None:
    """Has an effect once. It is called twice if the hook is installed and also on the path."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in AWAITED:
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec = find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader)
                return spec
        return None


class Loader:
    """Replaces a module's own loader until the module is loaded."""

    def __init__(self, own):
        self._own = own

    def __getattr__(self, name: str):
        return getattr(self._own, name)

    def create_module(self, spec):
        return self._own.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        try:
            from tandem_hook import hook

            getattr(hook, AWAITED[module.__name__])(module)
        except Exception:  # This PyTorch lacks the hooks, so the program is measured from outside.
            pass
