"""Worker processes that leave the user's script alone.

Python starts a worker by importing the script of its parent once more. A script that calls `mnemon.run` on its top
level would begin the run again in every worker, and in a notebook, or with `python -`, there is no script to import.
A run needs nothing of it: what a script registers is imported where it is needed (see `plugins`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NAMED_BY = ("__spec__", "__file__")
"""What Python finds the script by."""


@contextmanager
def not_imported_again() -> Iterator[None]:
    """Let processes that are started meanwhile not import the script of this one."""
    script = vars(sys.modules["__main__"])
    before = {name: script.pop(name) for name in _NAMED_BY if name in script}
    script["__spec__"] = None
    try:
        yield
    finally:
        del script["__spec__"]
        script.update(before)
