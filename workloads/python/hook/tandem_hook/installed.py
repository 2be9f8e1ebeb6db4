"""Imported by `tandem_hook.pth` of an installed hook, before any `sitecustomize`, if a harness requests it."""

try:
    from tandem_hook import awaited

    awaited.await_torch()
except Exception:  # An error of the hook must not keep the program from starting.
    pass
