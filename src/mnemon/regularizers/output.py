r"""Hold what a hypernetwork generates for earlier tasks in place.

$$\frac{1}{|S|}\sum_{t \in S} \lVert f_h(e^{(t)}, \Theta_h^*) - f_h(e^{(t)}, \Theta_h + \Delta\Theta_h) \rVert^2$$

von Oswald et al. (2020), second term of the total loss, without its factor beta. With the snapshot
$(R^*, h^*)$, the moved parameters $(R, h)$, $D = R - R^*$, $\tilde h = [h, 1]$ and $\delta = h - h^*$ a row drifts by

$$\tilde h R - \tilde h^* R^* = \tilde h D + \delta W^*, \qquad W^* = R^* \text{ without its bias row},$$

$$\sum_{rows} \lVert \cdot \rVert^2 = \langle D D^T, \Sigma \tilde h \tilde h^T \rangle
  + 2 \langle D W^{*T}, \Sigma \tilde h \delta^T \rangle + \langle W^* W^{*T}, \Sigma \delta \delta^T \rangle,$$

so that only matrices of the features' width appear, whatever the number of tasks: no old weight is generated and
none is stored. Every term is a product of differences, so float32 is enough.

Which rows are drawn (`Draw`) makes the penalty stochastic, which columns count (`Anchors.blocks`) leaves out the
tail of the last chunk and other tasks' heads, an importance makes it weighted.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemon.hypernet.base import AbstractHypernet, with_one

Range = tuple[int, int]


class Block(NamedTuple):
    """Rows (of all tasks, numbered through) of which the same columns count."""

    rows: Tensor
    start: int
    stop: int


class Draw(NamedTuple):
    """The rows on which the penalty is taken in a step, and the factor that keeps its expectation."""

    rows: Tensor | None
    """Numbers of the rows, task * n_rows + row; None for all."""
    factor: float
    """Multiplies the sum over the rows; 1 / number of tasks for all rows."""


class Anchors:
    """What has to stay: the rows of earlier tasks under the frozen hypernetwork.

    `kept` names for each task the ranges of flat weights that count (all, if not given);
    `importance` [tasks, size] weighs them, in the plain penalty only.
    """

    def __init__(
        self,
        frozen: AbstractHypernet,
        embeddings: Tensor,
        kept: Sequence[Sequence[Range]] | None = None,
        importance: Tensor | None = None,
    ):
        n_tasks, n_rows = len(embeddings), frozen.n_rows
        device = embeddings.device
        self.n_tasks, self.n_rows, self.chunk = n_tasks, n_rows, frozen.chunk
        self.task = torch.arange(n_tasks, device=device).repeat_interleave(n_rows)
        self.row = torch.arange(n_rows, device=device).repeat(n_tasks)
        self.readout = frozen.readout.detach()
        self.stacked = torch.cat([torch.zeros_like(self.readout), self.readout[:-1]])
        """[D; W*]: room for D = R - R* above W*, so that D D^T and D W*^T are one product."""
        self.embeddings = embeddings.detach()
        with torch.no_grad():
            self.features = frozen.features(self.embeddings[self.task], self.row)
        ranges = kept if kept is not None else [[(0, frozen.size)]] * n_tasks
        self.blocks = _blocks(ranges, frozen.edges, device)
        self._places = frozen.places().to(device)
        self.importance = importance
        self._grams: dict[Range, Tensor] = {}

    @property
    def moved_by(self) -> Tensor:
        """D, as the penalty has last taken it."""
        return self.stacked[: len(self.readout)]

    def everything(self) -> Draw:
        """Draw all rows of all tasks."""
        return Draw(None, 1 / self.n_tasks)

    def draw_tasks(self, count: int) -> Draw:
        """Draw so many tasks without replacement, each with all its rows."""
        if count >= self.n_tasks:
            return self.everything()
        tasks = torch.randperm(self.n_tasks)[:count].sort().values
        rows = (tasks[:, None] * self.n_rows + torch.arange(self.n_rows)).flatten()
        return Draw(rows.to(self.task.device), 1 / count)

    def draw_rows(self, count: int) -> Draw:
        """Draw so many single rows without replacement."""
        total = self.n_tasks * self.n_rows
        if count >= total:
            return self.everything()
        rows = torch.randperm(total)[:count].sort().values
        return Draw(rows.to(self.task.device), total / count / self.n_tasks)

    def gram(self, start: int, stop: int) -> Tensor:
        """Return W* W*^T over some columns; kept, since it does not change within a task."""
        if (start, stop) not in self._grams:
            w = self.readout[:-1, start:stop]
            self._grams[start, stop] = w @ w.T
        return self._grams[start, stop]

    def drawn_blocks(self, rows: Tensor | None) -> list[Block]:
        """Return the blocks with their rows renumbered to the drawn ones."""
        if rows is None:
            return self.blocks
        place = torch.full((len(self.task),), -1, device=self.task.device)
        place[rows] = torch.arange(len(rows), device=self.task.device)
        found = (Block((p := place[b.rows])[p >= 0], b.start, b.stop) for b in self.blocks)
        return [block for block in found if len(block.rows)]

    def weights(self) -> Tensor:
        """Return the importance of each weight, row by row: [rows of all tasks, chunk]."""
        assert self.importance is not None
        rows = self.importance.new_zeros(self.n_tasks, self.n_rows * self.chunk)
        return rows.index_copy_(1, self._places, self.importance).view(-1, self.chunk)


def plain_penalty(moved: AbstractHypernet, anchors: Anchors, draw: Draw, embeddings: Tensor | None = None) -> Tensor:
    """Sum the squared drifts weight by weight: the slow twin of `exact_penalty`, and the weighted penalty."""
    rows = slice(None) if draw.rows is None else draw.rows
    h = _moved_features(moved, anchors, draw, embeddings)
    with torch.no_grad():
        old = with_one(anchors.features[rows]) @ anchors.readout
    squares = (moved.read(h) - old).square()
    if anchors.importance is not None:
        squares = squares * anchors.weights()[rows]
    blocks = anchors.drawn_blocks(draw.rows)
    parts = (squares[b.rows, b.start : b.stop].sum() for b in blocks)
    return sum(parts, squares[:0].sum()) * draw.factor  # with a graph, even if no block was drawn


def exact_penalty(
    moved: AbstractHypernet,
    anchors: Anchors,
    draw: Draw,
    embeddings: Tensor | None = None,
    add_to: Tensor | None = None,
) -> Tensor:
    """Sum the squared drifts by Gram matrices; see the equations on top of this file.

    With `add_to`, the backward pass adds the gradient of the readout (nearly all of the parameters) to that tensor
    and gives autograd none: it spares a tensor of the readout's size in every step.
    """
    rows = slice(None) if draw.rows is None else draw.rows
    h = _moved_features(moved, anchors, draw, embeddings)
    blocks = anchors.drawn_blocks(draw.rows)
    total: Tensor = _SquaredDrift.apply(h, moved.readout, anchors.features[rows], anchors, blocks, add_to)
    return total * draw.factor


def _moved_features(moved: AbstractHypernet, anchors: Anchors, draw: Draw, embeddings: Tensor | None) -> Tensor:
    rows = slice(None) if draw.rows is None else draw.rows
    embeddings = anchors.embeddings if embeddings is None else embeddings
    return moved.features(embeddings[anchors.task[rows]], anchors.row[rows])


def gram_is_cheaper(n_rows: int, width: int) -> bool:
    """Compare the operations per column of the two ways to take the sum and its gradient.

    Directly, drift and gradients are four products of n_rows * width; by Gram matrices, two products of
    width * width give the value and two the gradient. Writing and reading the drifts costs about as much as 24 more
    features would.
    """
    return n_rows * (width + 24) > width * width


class _SquaredDrift(torch.autograd.Function):
    """Sum of squared drifts over blocks, with an analytic backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        readout: Tensor,
        h_star: Tensor,
        anchors: Anchors,
        blocks: list[Block],
        add_to: Tensor | None,
    ) -> Tensor:
        way = _ByGram if gram_is_cheaper(len(h), h.shape[1]) else _Directly
        torch.sub(readout, anchors.readout, out=anchors.moved_by)
        ctx.way, ctx.add_to = way(h, h_star, anchors, blocks), add_to
        ctx.save_for_backward(anchors.stacked)  # so that autograd notices if it is overwritten before its use
        # Not kept in ctx: a value that knows its own graph would be a circle, with the gradients in it.
        return ctx.way.value()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # one output, so one gradient
        if torch.is_grad_enabled():  # the sums are constants to autograd: a second derivative would be wrong
            raise RuntimeError("exact_penalty has no second derivative; take plain_penalty with create_graph.")
        _ = ctx.saved_tensors
        factor = 2 * grads[0]
        total = torch.zeros_like(ctx.way.anchors.readout) if ctx.add_to is None else ctx.add_to
        ctx.way.add_grad_readout(factor, total)
        return ctx.way.grad_h() * factor, total if ctx.add_to is None else None, None, None, None, None


class _ByGram:
    """The sum over segments: columns between two borders of blocks, which all rows of a block have in common."""

    def __init__(self, h: Tensor, h_star: Tensor, anchors: Anchors, blocks: list[Block]):
        self.anchors, self.blocks = anchors, blocks
        width = h.shape[1]
        self.h, self.delta = with_one(h), h - h_star
        self.rows = [slice(None) if len(b.rows) == len(h) else b.rows for b in blocks]
        # [sum h~ h~^T, sum h~ delta^T] and sum delta delta^T of each block
        parts = [(self.h[r], self.delta[r]) for r in self.rows]
        self.sums = [(x.T @ torch.cat([x, d], dim=1), d.T @ d) for x, d in parts]
        self.grams = [h.new_zeros(width + 1, 2 * width + 1) for _ in blocks]  # [D D^T, D W*^T] over each block
        borders = sorted({b.start for b in blocks} | {b.stop for b in blocks})
        self.segments: list[tuple[int, int, list[int]]] = []
        for start, stop in itertools.pairwise(borders):
            inside = [i for i, b in enumerate(blocks) if b.start <= start and stop <= b.stop]
            if inside:
                self.segments.append((start, stop, inside))
                p = anchors.stacked[:, start:stop]
                gram = p[: width + 1] @ p.T
                for i in inside:
                    self.grams[i] += gram

    def value(self) -> Tensor:
        """Return the sum of squared drifts."""
        total = sum((self._value(i) for i in range(len(self.blocks))), self.delta.new_zeros(()))
        # Where the readout moved far, but not along the old features, rounding can leave a little less than 0.
        return total.clamp(min=0)

    def _value(self, i: int) -> Tensor:
        width = self.delta.shape[1]
        (hp, dd), gram = self.sums[i], self.grams[i]
        products = hp * gram
        ww = self.anchors.gram(self.blocks[i].start, self.blocks[i].stop)
        return products.sum() + products[:, width + 1 :].sum() + (dd * ww).sum()

    def grad_h(self) -> Tensor:
        """Return half of the gradient of the features; h counts in h~ = [h, 1] and in delta."""
        width = self.delta.shape[1]
        total = torch.zeros_like(self.delta)
        for block, rows, gram in zip(self.blocks, self.rows, self.grams, strict=True):
            dd, dw, ww = gram[:, :width], gram[:, width + 1 :], self.anchors.gram(block.start, block.stop)
            total[rows] += self.h[rows] @ (dd + dw) + self.delta[rows] @ (dw[:-1].T + ww)
        return total

    def add_grad_readout(self, factor: Tensor, total: Tensor) -> None:
        """Add half of the gradient of the readout, times a factor, to a total."""
        d, w_star = self.anchors.moved_by, self.anchors.readout[:-1]
        for start, stop, inside in self.segments:
            hp = torch.stack([self.sums[i][0] for i in inside]).sum(0) * factor
            part = total[:, start:stop]
            part.addmm_(hp[:, : len(d)], d[:, start:stop])
            part.addmm_(hp[:, len(d) :], w_star[:, start:stop])


class _Directly:
    """The sum over the drifts themselves, block by block: cheaper for few rows."""

    def __init__(self, h: Tensor, h_star: Tensor, anchors: Anchors, blocks: list[Block]):
        self.anchors, self.blocks = anchors, blocks
        self.h, self.delta = with_one(h), h - h_star
        self.drifts = [self._drift(block) for block in blocks]

    def value(self) -> Tensor:
        """Return the sum of squared drifts."""
        return sum((drift.square().sum() for drift in self.drifts), self.delta.new_zeros(()))

    def _drift(self, block: Block) -> Tensor:
        columns = slice(block.start, block.stop)
        drift = self.h[block.rows] @ self.anchors.moved_by[:, columns]
        return drift.addmm_(self.delta[block.rows], self.anchors.readout[:-1, columns])

    def grad_h(self) -> Tensor:
        """Return half of the gradient of the features."""
        total = torch.zeros_like(self.delta)
        for block, drift in zip(self.blocks, self.drifts, strict=True):
            columns = slice(block.start, block.stop)
            w = self.anchors.moved_by[:-1, columns] + self.anchors.readout[:-1, columns]
            total[block.rows] += drift @ w.T
        return total

    def add_grad_readout(self, factor: Tensor, total: Tensor) -> None:
        """Add half of the gradient of the readout, times a factor, to a total."""
        for block, drift in zip(self.blocks, self.drifts, strict=True):
            total[:, block.start : block.stop].addmm_((self.h[block.rows] * factor).T, drift)


def _blocks(kept: Sequence[Sequence[Range]], edges: Sequence[int], device: torch.device) -> list[Block]:
    """Group the rows of all tasks by the columns of theirs that count."""
    n_rows = len(edges) - 1
    alike: dict[tuple[Range, ...], list[int]] = defaultdict(list)
    for task, ranges in enumerate(kept):
        alike[tuple(ranges)].append(task * n_rows)
    groups: dict[Range, list[Tensor]] = defaultdict(list)
    for same, firsts in alike.items():
        for start, stop in same:
            for row in range(bisect_right(edges, start) - 1, bisect_left(edges, stop)):
                columns = (max(start, edges[row]) - edges[row], min(stop, edges[row + 1]) - edges[row])
                groups[columns].append(torch.tensor(firsts) + row)
    return [Block(torch.cat(rows).sort().values.to(device), *columns) for columns, rows in groups.items()]
