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

from abc import ABC, abstractmethod
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
        self.embeddings = embeddings.detach()
        with torch.no_grad():
            self.features = frozen.features(self.embeddings[self.task], self.row)
        ranges = kept if kept is not None else [[(0, frozen.size)]] * n_tasks
        self.blocks = _blocks(ranges, n_rows, frozen.chunk, device)
        self.importance = importance
        self._grams: dict[Range, Tensor] = {}

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

    def weight(self, rows: Tensor) -> Tensor:
        """Return the importance [rows, chunk] of each weight that counts, 0 for the others."""
        weight = torch.zeros(len(self.task), self.chunk, dtype=self.readout.dtype, device=self.task.device)
        for block in self.blocks:
            weight[block.rows, block.start : block.stop] = 1
        if self.importance is not None:
            flat = weight.view(self.n_tasks, -1)
            flat[:, : self.importance.shape[1]] *= self.importance
        return weight[rows]


def plain_penalty(
    moved: AbstractHypernet, anchors: Anchors, draw: Draw, embeddings: Tensor | None = None
) -> Tensor:
    """Sum the squared drifts weight by weight: the slow twin of `exact_penalty`, and the weighted penalty."""
    rows = slice(None) if draw.rows is None else draw.rows
    h = _moved_features(moved, anchors, draw, embeddings)
    with torch.no_grad():
        old = with_one(anchors.features[rows]) @ anchors.readout
        weight = anchors.weight(torch.arange(len(anchors.task), device=h.device)[rows])
    return ((moved.read(h) - old).square() * weight).sum() * draw.factor


def exact_penalty(
    moved: AbstractHypernet, anchors: Anchors, draw: Draw, embeddings: Tensor | None = None
) -> Tensor:
    """Sum the squared drifts by Gram matrices; see the equations on top of this file."""
    rows = slice(None) if draw.rows is None else draw.rows
    h = _moved_features(moved, anchors, draw, embeddings)
    blocks = anchors.drawn_blocks(draw.rows)
    total: Tensor = _SquaredDrift.apply(h, moved.readout, anchors.features[rows], anchors, blocks)
    return total * draw.factor


def _moved_features(
    moved: AbstractHypernet, anchors: Anchors, draw: Draw, embeddings: Tensor | None
) -> Tensor:
    rows = slice(None) if draw.rows is None else draw.rows
    embeddings = anchors.embeddings if embeddings is None else embeddings
    return moved.features(embeddings[anchors.task[rows]], anchors.row[rows])


def gram_is_cheaper(n_rows: int, width: int) -> bool:
    """Compare the multiplications per column of the two ways to take a block's sum and its gradient.

    Directly, drift and gradients are four products of n_rows * width; by Gram matrices, two products of
    width * width give the value and two the gradient.
    """
    return n_rows > width


class _SquaredDrift(torch.autograd.Function):
    """Sum of squared drifts over blocks, with an analytic backward pass."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, readout: Tensor, h_star: Tensor, anchors: Anchors, blocks: list[Block]
    ) -> Tensor:
        moved_by = readout - anchors.readout
        sums = []
        for block in blocks:
            rows = slice(None) if len(block.rows) == len(h) else block.rows
            way = _ByGram if gram_is_cheaper(len(block.rows), h.shape[1]) else _Directly
            sums.append(way(h[rows], h_star[rows], moved_by, anchors, block))
        ctx.sums, ctx.blocks, ctx.n_rows = sums, blocks, len(h)
        return torch.stack([s.value for s in sums]).sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # one output, so one gradient
        grad_h = grad_readout = None
        for block, s in zip(ctx.blocks, ctx.sums, strict=True):
            # Rows and columns that one block covers whole are taken as they are, without a sum over zeros.
            grad_h = _add(grad_h, s.grad_h(), block.rows, ctx.n_rows)
            grad_readout = s.add_grad_readout(grad_readout)
        factor = 2 * grads[0]
        return grad_h * factor, grad_readout.mul_(factor), None, None, None


def _add(total: Tensor | None, part: Tensor, rows: Tensor, n_rows: int) -> Tensor:
    if len(rows) == n_rows:
        return part if total is None else total + part
    if total is None:
        total = part.new_zeros(n_rows, part.shape[1])
    return total.index_add_(0, rows, part)


class _BlockSum(ABC):
    """The sum of squared drifts over one block, and half of its gradients."""

    value: Tensor

    def __init__(self, h: Tensor, h_star: Tensor, moved_by: Tensor, anchors: Anchors, block: Block):
        self.start, self.stop, self.chunk = block.start, block.stop, anchors.chunk
        self.h, self.delta = with_one(h), h - h_star
        self.d = moved_by[:, self.start : self.stop]
        self.w_star = anchors.readout[:-1, self.start : self.stop]
        self.take(anchors)

    @abstractmethod
    def take(self, anchors: Anchors) -> None:
        """Compute the value and what the gradients need."""

    @abstractmethod
    def grad_h(self) -> Tensor:
        """Return half of the gradient of the features."""

    @abstractmethod
    def half_grad(self, out: Tensor | None) -> Tensor:
        """Return half of the gradient of the block's columns of the readout, added to `out` if given."""

    def add_grad_readout(self, total: Tensor | None) -> Tensor:
        """Add half of the gradient of the readout to a total."""
        if total is None:
            if self.stop - self.start == self.chunk:
                return self.half_grad(None)
            total = self.d.new_zeros(len(self.d), self.chunk)
        self.half_grad(total[:, self.start : self.stop])
        return total


class _ByGram(_BlockSum):
    def take(self, anchors: Anchors) -> None:
        self.dd, self.dw, self.ww = self.d @ self.d.T, self.d @ self.w_star.T, anchors.gram(self.start, self.stop)
        self.hh, self.hd = self.h.T @ self.h, self.h.T @ self.delta
        both = (self.dd * self.hh).sum() + 2 * (self.dw * self.hd).sum()
        self.value = both + (self.ww * (self.delta.T @ self.delta)).sum()

    def grad_h(self) -> Tensor:
        # d/dh~ reaches h through h~ = [h, 1]; d/d(delta) reaches it directly.
        return self.h @ (self.dd[:, :-1] + self.dw) + self.delta @ (self.dw[:-1].T + self.ww)

    def half_grad(self, out: Tensor | None) -> Tensor:
        out = self.hh @ self.d if out is None else out.addmm_(self.hh, self.d)
        return out.addmm_(self.hd, self.w_star)


class _Directly(_BlockSum):
    def take(self, anchors: Anchors) -> None:
        self.drift = torch.addmm(self.h @ self.d, self.delta, self.w_star)
        self.value = self.drift.square().sum()

    def grad_h(self) -> Tensor:
        return self.drift @ (self.d[:-1] + self.w_star).T

    def half_grad(self, out: Tensor | None) -> Tensor:
        return self.h.T @ self.drift if out is None else out.addmm_(self.h.T, self.drift)


def _blocks(
    kept: Sequence[Sequence[Range]], n_rows: int, chunk: int, device: torch.device
) -> list[Block]:
    """Group the rows of all tasks by the columns of theirs that count."""
    groups: dict[Range, list[int]] = defaultdict(list)
    for task, ranges in enumerate(kept):
        for start, stop in ranges:
            for row in range(start // chunk, -(-stop // chunk)):
                columns = (max(start - row * chunk, 0), min(stop - row * chunk, chunk))
                groups[columns].append(task * n_rows + row)
    # Whole rows first: their gradient is then written, not added.
    ordered = sorted(groups.items(), key=lambda item: item[0][0] - item[0][1])
    return [Block(torch.tensor(rows, device=device), *columns) for columns, rows in ordered]
