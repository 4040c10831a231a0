"""One thread at a time works on a model: others wait."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from mnemon import interrupts
from mnemon.seeding import lent_random_numbers

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class ModelLock:
    """A lock that a thread may take again; it is of no interest to copies of a model, which have their own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def holding(self, work: Callable[[], T], mender: Callable[[], Callable[[], None]]) -> T:
        """Do a work while no other thread works on the model; Ctrl-C cannot leave the lock taken.

        `mender` takes note of what must be as it was if the work fails or is interrupted, and returns what mends it.
        """
        mend: Callable[[], None] = _nothing

        def before(asked: interrupts.Asked) -> bool:
            nonlocal mend
            taken = self._take(asked)
            if taken:
                mend = mender()
            return taken

        def after(done: bool) -> None:
            try:
                if not done:
                    mend()
            finally:
                self._lock.release()

        return interrupts.between(before, work, after)

    def _take(self, asked: interrupts.Asked) -> bool:
        """Take the lock; who waits for it does not keep the random numbers from its holder."""
        if self._lock.acquire(blocking=False):
            return True
        with lent_random_numbers():
            return interrupts.taken(self._lock, asked)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelLock:
        return ModelLock()

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()


def _nothing() -> None:
    """Nothing is to be mended."""


def alone(method: F) -> F:
    """Let a method of a model work on it alone; if it fails or is interrupted, the model's modules are whole."""

    @functools.wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        return self.state.lock.holding(lambda: method(self, *arguments, **options), self.state.mender)

    return locked  # type: ignore[return-value]
