"""Random numbers as a function of what they are for, so that nothing depends on what was drawn before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

PURPOSES = ("weights", "batches", "step", "permutation", "toy", "replay", "samples", "held-out")


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


@contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """Seed torch's random numbers, of all devices; afterwards they go on as if none had been drawn within."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    gpus = list(range(torch.cuda.device_count())) if there["cuda"] else []
    before = torch.mps.get_rng_state() if there["mps"] else None  # fork_rng forks one kind of device
    try:
        with torch.random.fork_rng(devices=gpus):
            for kind in ("cpu", *(kind for kind in there if there[kind])):
                seed_all(seed, torch.device(kind))
            yield
    finally:
        if before is not None:
            torch.mps.set_rng_state(before)
