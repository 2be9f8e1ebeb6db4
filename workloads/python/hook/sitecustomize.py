"""Python imports this file when it starts, because its folder is on PYTHONPATH.

The program does not notice the folder: it is removed from the search path, and the next `sitecustomize` on the path
runs as usual. Children of the program inherit the PYTHONPATH and start here as well, under any Python,
so this file must run in every version.
"""

import os
import sys


def begin():
    if sys.version_info < (3, 8):
        return
    try:
        if os.environ.get("TANDEM_EVENTS") and os.environ.get("TANDEM_CONTROL"):
            from tandem_hook import awaited

            awaited.await_torch()
    except Exception:  # An error of the hook must not keep the program from starting.
        pass


def leave_search_path():
    """Later imports find the modules of `tandem_hook` through their package."""
    try:
        here = os.path.abspath(os.path.dirname(__file__))
        sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    except Exception:  # There is no path to a working folder that was removed.
        pass


def run_the_next():
    """Python reports an exception in it, as without the hook."""
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
        sys.modules[__name__] = ours


begin()
leave_search_path()
run_the_next()
