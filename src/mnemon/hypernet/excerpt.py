"""Of all that is generated for a task, the rows that a network with only some of its outputs needs."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.hypernet.base import AbstractHypernet
from mnemon.hypernet.target import Slot, Target

WORTH = 0.9
"""Share of the rows above which all of them are generated."""


class Excerpt(NamedTuple):
    """Some rows of a task, joined, and where the network's tensors lie in them."""

    row: Tensor
    """Numbers of the rows."""
    slots: list[Slot]


def excerpt(target: Target, hypernet: AbstractHypernet, outputs: tuple[int, int]) -> Excerpt | None:
    """Return what a network with these outputs (first, last + 1) needs; None if that is nearly everything."""
    if not hypernet.rows_are_full:
        return None
    heads = {slot.name for slot in target.head_slots()}
    slots = [_cut(slot, *outputs) if slot.name in heads else slot for slot in target.slots]
    chunk = hypernet.chunk
    needed = sorted({row for s in slots for row in range(s.start // chunk, (s.stop - 1) // chunk + 1)})
    if len(needed) > WORTH * hypernet.n_rows:
        return None
    position = {row: i for i, row in enumerate(needed)}
    # Rows of a slot follow on each other, and so they do where only needed rows are left.
    moved = [s._replace(start=position[s.start // chunk] * chunk + s.start % chunk) for s in slots]
    return Excerpt(torch.tensor(needed, device=hypernet.readout.device), moved)


def _cut(slot: Slot, first: int, last: int) -> Slot:
    """Return the part of a slot of the last layer that belongs to some outputs."""
    each = math.prod(slot.shape[1:])
    return slot._replace(shape=torch.Size((last - first, *slot.shape[1:])), start=slot.start + first * each)
