r"""Sums over the features of inputs: all that is kept of a task in order to recognise it.

Of the classes $c$ with features $x$: $n_c = \sum 1$, $s_c = \sum x$ and, over all classes, $G = \sum x x^T$.
A Gaussian with one covariance, and a ridge classifier, need nothing else. Adding is all that is done with sums: the
order of tasks does not matter, nothing is forgotten, and what was added can be subtracted again. No input is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mnemon.errors import UsageError

BYTES = 8
"""Of a number in float64."""
LEAST_WIDTH = 16
"""Features that are kept whatever the room."""


@dataclass(frozen=True)
class ClassSums:
    """Sums over the features of examples of some classes, in float64 and on the CPU.

    The Gram matrix is packed: its lower triangle, row after row. So that of the first features is a prefix of it.
    """

    counts: Tensor
    """Examples of each class, [classes]."""
    sums: Tensor
    """Their features added up, [classes, width]."""
    gram: Tensor
    """The products of their features added up, [width (width + 1) / 2]."""

    @classmethod
    def empty(cls, n_classes: int, width: int) -> ClassSums:
        """Return the sums over nothing."""
        sizes = ((n_classes,), (n_classes, width), (packed_size(width),))
        return cls(*(torch.zeros(size, dtype=torch.float64) for size in sizes))

    @classmethod
    def of(cls, features: Tensor, classes: Tensor, n_classes: int) -> ClassSums:
        """Return the sums over some features [n, width] of examples of these classes."""
        return cls.over([(features, classes)], n_classes)

    @classmethod
    def over(cls, batches: Iterable[tuple[Tensor, Tensor]], n_classes: int) -> ClassSums:
        """Return the sums over batches of features [n, width] and classes [n]; products are of the features' type."""
        found, square = None, torch.zeros(0)
        for features, classes in batches:
            if found is None:
                found = cls.empty(n_classes, features.shape[1])
                square = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
            index, wide = classes.cpu(), features.cpu().double()
            found.counts.index_add_(0, index, torch.ones(len(index), dtype=torch.float64))
            found.sums.index_add_(0, index, wide)
            square += (features.T @ features).cpu().double()
        if found is None:
            raise UsageError("There are no examples to add up.")
        return replace(found, gram=packed(square))

    def __add__(self, other: ClassSums) -> ClassSums:
        """Return the sums over both, of the same classes."""
        return ClassSums(self.counts + other.counts, self.sums + other.sums, self.gram + other.gram)

    def __sub__(self, other: ClassSums) -> ClassSums:
        """Return the sums without those of other examples of the same classes."""
        return ClassSums(self.counts - other.counts, self.sums - other.sums, self.gram - other.gram)

    @property
    def width(self) -> int:
        """The number of features."""
        return self.sums.shape[1]

    @property
    def n_examples(self) -> float:
        """The number of examples."""
        return float(self.counts.sum())

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return self.counts.nbytes + self.sums.nbytes + self.gram.nbytes

    def narrowed(self, width: int) -> ClassSums:
        """Return the sums of the first features alone."""
        if width >= self.width:
            return self
        return ClassSums(self.counts, self.sums[:, :width].clone(), self.gram[: packed_size(width)].clone())

    def square(self) -> Tensor:
        """Return the Gram matrix [width, width]."""
        return unpacked(self.gram, self.width)

    def means(self) -> Tensor:
        """Return the mean features of each class [classes, width]; 0 for a class without examples."""
        return self.sums / self.counts.clamp_min(1)[:, None]

    def scatter_within(self) -> Tensor:
        """Return the products of deviations from the own class's mean, added up."""
        return self.square() - self.sums.T @ self.means()

    def scatter_total(self) -> Tensor:
        """Return the products of deviations from the mean of all, added up."""
        whole = self.sums.sum(0)
        return self.square() - torch.outer(whole, whole) / max(self.n_examples, 1)


def side_by_side(parts: Iterable[ClassSums]) -> ClassSums:
    """Return the sums of several tasks as those of all their classes, with one Gram matrix."""
    each = list(parts)
    if not each:
        raise UsageError("There are no sums to add.")
    gram = each[0].gram.clone()
    for part in each[1:]:
        gram += part.gram
    return ClassSums(torch.cat([part.counts for part in each]), torch.cat([part.sums for part in each]), gram)


def packed_size(width: int) -> int:
    """Return how many numbers the lower triangle of a matrix has."""
    return width * (width + 1) // 2


def packed(square: Tensor) -> Tensor:
    """Return the lower triangle of a matrix, row after row."""
    return square[_lower(len(square))]


def unpacked(triangle: Tensor, width: int) -> Tensor:
    """Return the symmetric matrix of a lower triangle."""
    square = triangle.new_zeros(width, width)
    square[_lower(width)] = triangle
    return square + square.T - torch.diag(square.diagonal())


def _lower(width: int) -> Tensor:
    """Return which entries of a matrix are in its lower triangle."""
    return torch.ones(width, width, dtype=torch.bool).tril()


def width_within(room: float, wanted: int, n_classes: int, n_grams: int = 1, gram_bytes: int = BYTES) -> int:
    """Return how many features, at most `wanted`, have sums that fit into so many bytes.

    $b g\\,w(w+1)/2 + 8 C w \\le$ room, for $g$ Gram matrices of $b$ bytes a number, and $C$ classes.
    """
    square = max(n_grams, 1) * gram_bytes / 2
    linear = square + BYTES * n_classes
    width = int(((linear * linear + 4 * square * room) ** 0.5 - linear) / (2 * square))
    return max(min(wanted, width), min(wanted, LEAST_WIDTH))
