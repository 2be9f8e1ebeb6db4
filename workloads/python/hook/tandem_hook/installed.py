"""Imported by `tandem_hook.pth` where the hook was installed, before any `sitecustomize`, as soon as a harness asks for it."""

try:
    from tandem_hook import awaited

    awaited.await_torch()
except Exception:  # An error of the hook must not keep the program from starting.
    pass
