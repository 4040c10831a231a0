"""The largest values that settings may have: beyond them a run would fill the memory before anybody noticed."""

from __future__ import annotations

from typing import Any

from mnemon.errors import UsageError
from mnemon.results.groups import flat

LARGEST: dict[str, int] = {
    "batch_size": 10**6,
    "n_tasks": 10**4,
    "hidden": 10**5,
    "encoder": 10**5,
    "decoder": 10**5,
    "embedding_size": 10**5,
    "chunk_embedding_size": 10**5,
    "condition_size": 10**5,
    "latent": 10**5,
    "samples": 10**5,
    "chunk": 10**8,
    "epochs": 10**6,
}
"""By the last part of a setting's name; of lists, each item."""
OTHERS = 10**9
"""Of all other whole numbers."""
LONGEST = 100
"""Items in a list, such as the layers of a network."""


def check_limits(tables: dict[str, Any]) -> None:
    """Refuse settings that are far too large, by their names."""
    for path, value in flat(tables):
        items = value if isinstance(value, list) else [value]
        if len(items) > LONGEST:
            raise UsageError(f"{path} must hold at most {LONGEST} values, not {len(items):,}.")
        name = path.rpartition(".")[2]
        for item in items:
            whole = isinstance(item, int) and not isinstance(item, bool) and not name.endswith("seed")
            limit = LARGEST.get(name, OTHERS if whole else None)
            if limit is not None and isinstance(item, (int, float)) and item > limit:
                raise UsageError(f"{path} must be at most {limit:,}, not {item}.")
