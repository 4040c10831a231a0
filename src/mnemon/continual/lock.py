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
    """A reentrant lock; copies of a model get their own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def holding(self, work: Callable[[], T], mender: Callable[[], Callable[[], None]]) -> T:
        """Run `work` while no other thread uses the model; Ctrl-C cannot leave the lock taken.

        `mender` saves what must be restored if the work fails or is interrupted. It returns a function that restores
        it.
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
        """Take the lock; a thread that waits for it does not block the random numbers of its holder."""
        if self._lock.acquire(blocking=False):
            return True
        with lent_random_numbers():
            return interrupts.taken(self._lock, asked)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelLock:
        return ModelLock()

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()


def _nothing() -> None:
    """Restore nothing."""


def alone(method: F) -> F:
    """Run a method while no other thread uses the model; if it fails or is interrupted, the modules are restored."""

    @functools.wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        return self.state.lock.holding(lambda: method(self, *arguments, **options), self.state.mender)

    return locked  # type: ignore[return-value]
