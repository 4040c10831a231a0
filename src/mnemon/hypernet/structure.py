"""Cut the flat weights of a target where its layers and filters end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mnemon.hypernet.target import Slot


def structured_edges(slots: Sequence[Slot], size: int, chunk: int) -> list[int]:
    """Return where chunks of at most `chunk` weights begin, and at last where they end.

    Every tensor with filters (a matrix, or the kernels of a convolution) begins a chunk, and its filters are spread
    evenly over as few chunks as hold them: a column of the readout has the same part in all chunks of layers of one
    form. Vectors (biases, norms) go with the layer before them. A filter larger than a chunk is cut.
    """
    edges = [0]
    for slot in slots:
        if len(slot.shape) > 1:
            _close(edges, slot.start, chunk)
            filter_size = math.prod(slot.shape[1:])
            per_chunk = chunk // filter_size
            if per_chunk:
                n_chunks = -(-slot.shape[0] // per_chunk)
                step = -(-slot.shape[0] // n_chunks) * filter_size
                edges += range(slot.start + step, slot.stop, step)
            else:
                edges += range(slot.start + chunk, slot.stop, chunk)
        elif slot.stop - edges[-1] > chunk:
            _close(edges, slot.start, chunk)
    _close(edges, size, chunk)
    return edges


def _close(edges: list[int], end: int, chunk: int) -> None:
    """End the present chunk; what does not fit into one is cut."""
    edges += range(edges[-1] + chunk, end, chunk)
    if end > edges[-1]:
        edges.append(end)
