"""Python imports this by itself when it starts, because this folder is on PYTHONPATH.

To the program it is as if the folder were not: it goes from the search path, and a `sitecustomize` that stands behind it is
run as it would have been. Children of the program have the folder on their PYTHONPATH and begin here as well, whatever Python
runs them; so this file alone is written for all of them.
"""

import os
import sys


def begin():
    if sys.version_info < (3, 8):
        return
    try:
        if os.environ.get("WORKER_EVENTS") and os.environ.get("WORKER_CONTROL"):
            from tandem_hook import awaited

            awaited.await_torch()
    except Exception:  # Whatever is wrong with us, the program starts.
        pass


def leave_search_path():
    """Modules of `tandem_hook` are found through their package from now on."""
    here = os.path.abspath(os.path.dirname(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]


def run_the_next():
    """An exception in it is Python's to report, as without us."""
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
