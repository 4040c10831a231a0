"""One thread at a time works on a model: others wait."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mnemon.seeding import lent_random_numbers

F = TypeVar("F", bound=Callable[..., Any])


class ModelLock:
    """A lock that a thread may take again; it is of no interest to copies of a model, which have their own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; who waits for it does not keep the random numbers from its holder."""
        if not self._lock.acquire(blocking=False):
            with lent_random_numbers():
                self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelLock:
        return ModelLock()

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()


def alone(method: F) -> F:
    """Let a method of a model work on it alone."""

    @functools.wraps(method)
    def locked(self: Any, *arguments: Any, **options: Any) -> Any:
        with self.state.lock.held():
            return method(self, *arguments, **options)

    return locked  # type: ignore[return-value]
