"""Streams that are handed over as objects, not by a name: this process gives them one, and they travel with jobs."""

from __future__ import annotations

import functools
import itertools
import pickle
import re
from typing import NamedTuple

from mnemon.benchmarks.registry import BENCHMARKS, settings_of
from mnemon.benchmarks.task import TaskStream
from mnemon.errors import UsageError

_GIVEN: dict[str, TaskStream] = {}


class Packed(NamedTuple):
    """A stream on its way to another process."""

    name: str
    content: bytes


def give_name(stream: TaskStream) -> str:
    """Return the name by which this process knows a stream from now on: its own, made different if it is taken."""
    known = next((name for name, one in _GIVEN.items() if one is stream), None)
    if known is not None:
        return known
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", stream.name).strip("-_") or "own"
    names = itertools.chain([base], (f"{base}-{i}" for i in itertools.count(2)))
    name = next(name for name in names if name not in BENCHMARKS)
    _add(name, stream)
    return name


def pack(name: str) -> Packed | None:
    """Return a stream for another process; None if the benchmark of this name was not given as a stream."""
    return _packed(name) if name in _GIVEN else None


def unpack(packed: Packed | None) -> None:
    """Take a stream that another process has sent."""
    if packed is not None and packed.name not in _GIVEN:
        _add(packed.name, pickle.loads(packed.content))


def _add(name: str, stream: TaskStream) -> None:
    _GIVEN[name] = stream
    BENCHMARKS[name] = settings_of(lambda data, seed: stream)


@functools.cache
def _packed(name: str) -> Packed:
    try:
        return Packed(name, pickle.dumps(_GIVEN[name]))
    except Exception as error:  # whatever a transform of the user is made of
        raise UsageError(
            f"The tasks of '{name}' cannot be sent to other processes ({error}): register the benchmark in a .py "
            "file, or compute with workers=1."
        ) from error
