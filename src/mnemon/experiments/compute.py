"""Where a run computes and reads: its device, its data, its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from mnemon.errors import UsageError, choose


@dataclass(frozen=True)
class Compute:
    """Where a run computes and reads."""

    device: str = "auto"
    data: Path | None = None
    threads: int = 1
    tensorboard: bool = False
    """Whether event files for TensorBoard are written beside the record."""


def check_device_name(name: str) -> None:
    """Refuse a word that names no device, here or elsewhere."""
    choose("device", name.partition(":")[0], dict.fromkeys(("cpu", "cuda", "mps", "auto")))


def pick_device(name: str) -> torch.device:
    """Return a device by name; auto takes the best that is there."""
    check_device_name(name)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(d for d in ("cuda", "mps", "cpu") if there[d]))
    kind, _, index = name.partition(":")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if not there.get(kind) or (index and (not index.isdigit() or int(index) >= count)):
        raise UsageError(
            f"Device '{name}' is not available here. Choose one of: auto, {', '.join(d for d in there if there[d])}."
        )
    return torch.device(name)


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    """Let torch compute with so many threads; afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
