"""Random numbers as a function of what they are for, so that nothing depends on what was drawn before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from mnemon import interrupts

T = TypeVar("T")

PURPOSES = ("weights", "batches", "step", "permutation", "toy", "replay", "samples", "held-out", "pairs")


def derive(seed: int, purpose: str, *where: int) -> int:
    """Return a 63-bit seed for one purpose and place, spread by numpy's SeedSequence."""
    words = np.random.SeedSequence([seed, PURPOSES.index(purpose), *where]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def generator(seed: int, purpose: str, *where: int) -> torch.Generator:
    """Return a CPU generator for one purpose and place."""
    return torch.Generator().manual_seed(derive(seed, purpose, *where))


def seed_all(seed: int, device: torch.device) -> None:
    """Seed torch's global generators of the CPU and of one device.

    Not by `torch.manual_seed`: without a GPU that keeps a stack trace of every call, for a GPU that might come.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)  # not manual_seed, which seeds the current device: it may be another one
    elif device.type == "mps":
        torch.mps.manual_seed(seed)


_OURS = threading.RLock()
"""Held while torch's random numbers are ours: they are global, and threads would draw each other's."""


def with_random_numbers(seed: int, work: Callable[[], T]) -> T:
    """Do a work with torch's random numbers seeded, of all devices; afterwards they go on as if it had drawn none.

    Other threads wait until then, so keep it short: a step, not a whole learning. Ctrl-C interrupts the work, and
    never what comes before and after it.
    """
    before: dict[str, Any] = {}

    def take(asked: interrupts.Asked) -> bool:
        if not interrupts.taken(_OURS, asked):
            return False
        before.update(_states())
        for kind in before:
            seed_all(seed, torch.device(kind))
        return True

    def give_back(done: bool) -> None:
        _put_back(before)
        _OURS.release()

    return interrupts.between(take, work, give_back)


@contextmanager
def lent_random_numbers() -> Iterator[None]:
    """Let other threads have the random numbers while this one waits for something that they may hold.

    A context, so only where Ctrl-C is put off.
    """
    if not _OURS._is_owned():  # type: ignore[attr-defined]
        yield
        return
    before, depth = _states(), 0
    while _OURS._is_owned():  # type: ignore[attr-defined]
        _OURS.release()
        depth += 1
    try:
        yield
    finally:
        for _ in range(depth):
            _OURS.acquire()
        _put_back(before)


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Let torch's random numbers afterwards go on as if none had been drawn meanwhile."""
    before = _states()
    try:
        yield
    finally:
        _put_back(before)


def _states() -> dict[str, Any]:
    """Return the states of torch's generators by the kind of device."""
    states: dict[str, Any] = {"cpu": torch.default_generator.get_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        states["mps"] = torch.mps.get_rng_state()
    return states


def _put_back(states: dict[str, Any]) -> None:
    torch.default_generator.set_state(states["cpu"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])
    if "mps" in states:
        torch.mps.set_rng_state(states["mps"])
