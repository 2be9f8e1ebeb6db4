"""Imported by `tandem_hook.pth` where the hook was installed, before any `sitecustomize`, as soon as a harness asks for it."""

try:
    from tandem_hook import awaited

    awaited.await_torch()
except Exception:  # Whatever is wrong with us, the program starts.
    pass
