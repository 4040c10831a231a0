"""Change a value somewhere within nested tables and lists, as nobody would expect."""

from __future__ import annotations

import copy
import random
from typing import Any

STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 10**9, 10**30, 2**63, -(10**12), 1e308, -1e308, 0.5, float("nan"), float("inf"),
    "", "x", "none", "\0", "\x1b[31m", "../..", "/etc/passwd", "é" * 300, "9" * 5000, [], {}, [[]], [[[[]]]],
    {"": {}}, [None], ["x"], [1, 2, 3], [[1.0, 2.0]], {"name": "x"}, {"a": {"b": {"c": 1}}},
)  # fmt: skip


def changed(value: Any, draw: random.Random) -> Any:
    """Return a copy with one to three changes: values replaced, removed, added, repeated or swapped."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        holders = [holder for holder in _holders(value) if holder]
        if not holders:
            return _strange(draw)
        _change(draw.choice(holders), draw)
    return value


def _holders(value: Any) -> list[Any]:
    """Return all tables and lists within a value."""
    found, left = [], [value]
    while left:
        item = left.pop()
        if isinstance(item, (dict, list)):
            found.append(item)
            left += item.values() if isinstance(item, dict) else item
    return found


def _change(holder: Any, draw: random.Random) -> None:
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key, kind = draw.choice(keys), draw.randrange(6)
    if kind <= 2:
        holder[key] = _strange(draw)
    elif kind == 3:
        del holder[key]
    elif kind == 4 and isinstance(holder, list):
        holder += holder * draw.choice((1, 1, 50))
    elif kind == 4:
        holder[draw.choice(("x", "", "format", "name", "é"))] = _strange(draw)
    else:
        other = draw.choice(keys)
        holder[key], holder[other] = holder[other], holder[key]


def _strange(draw: random.Random) -> Any:
    """Return a strange value of its own: later changes must not reach those that follow."""
    return copy.deepcopy(draw.choice(STRANGE))
