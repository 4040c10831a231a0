r"""The penalty on changes of the weights that a hypernetwork generates for earlier tasks.

$$\frac{1}{|S|}\sum_{t \in S} \lVert f_h(e^{(t)}, \Theta_h^*) - f_h(e^{(t)}, \Theta_h + \Delta\Theta_h) \rVert^2$$

von Oswald et al. (2020), second term of the total loss, without its factor beta. With the snapshot
$(R^*, h^*)$, the moved parameters $(R, h)$, $D = R - R^*$, $\tilde h = [h, 1]$, $\delta = h - h^*$ and $W$, which is
$R$ without its bias row, a row drifts by

$$\tilde h R - \tilde h^* R^* = \tilde h^* D + \delta W,$$

$$\sum_{rows} \lVert \cdot \rVert^2 = \langle D D^T, \Sigma \tilde h^* \tilde h^{*T} \rangle
  + 2 \langle D W^T, \Sigma \tilde h^* \delta^T \rangle + \langle W W^T, \Sigma \delta \delta^T \rangle,$$

so that only matrices of the features' width appear, whatever the number of tasks: no old weight is generated and
none is stored. Every term is a product of differences, so float32 is enough. Half of the gradients are

$$\nabla_h = \tilde h^* D W^T + \delta W W^T, \qquad
  \nabla_R = \Sigma \tilde h \tilde h^{*T} D + \Sigma \tilde h \delta^T W,$$

The products over the columns are of $[D; W^*]$ alone, $W^* W^{*T}$ is constant within a task, and $W = W^* + D$.

Which rows are drawn (`Draw`) makes the penalty stochastic, which columns count (`Block`) leaves out the
tail of the last chunk and other tasks' heads, an importance makes it weighted (in the plain sum).
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemon.hypernet.base import AbstractHypernet, with_one
from mnemon.memory.lookahead import Gradients

WeightRange = tuple[int, int]

AT_ONCE = 4096
"""Rows of earlier tasks that are processed at a time: few enough for the cache, enough for full speed."""


class Block(NamedTuple):
    """Rows of a group for which the same columns count."""

    rows: slice | Tensor
    columns: WeightRange


class RowGroup(NamedTuple):
    """Rows whose drifts are summed at a time: all rows of some tasks, or single rows."""

    tasks: Tensor
    """Tasks with all their rows, in row order; or the task of each single row."""
    row: Tensor | None
    """Number of each single row within its task; None for all rows of the tasks."""
    blocks: list[Block]
    fixed: Tensor | None = None
    """h~* of these rows, if it is cached."""


class Draw(NamedTuple):
    """The rows of a step's penalty, and the factor that keeps its expectation unbiased."""

    rows: Tensor | None
    """Numbers of the rows, task * n_rows + row; None for all."""
    factor: float
    """Multiplies the sum over the rows; 1 / number of tasks for all rows."""
    tasks: list[int] | None = None
    """The tasks, if whole tasks were drawn."""


class Anchors:
    """The remembered outputs: the rows of earlier tasks under the frozen hypernetwork.

    `kept` names for each task the ranges of flat weights that count (all, if not given);
    `importance` [tasks, size] weighs them, in the plain penalty only.
    """

    def __init__(
        self,
        frozen: AbstractHypernet,
        embeddings: Tensor,
        kept: Sequence[Sequence[WeightRange]] | None = None,
        importance: Tensor | None = None,
    ):
        self.frozen, self.embeddings, self.importance = frozen, embeddings.detach(), importance
        self.n_tasks, self.n_rows, self.chunk = len(embeddings), frozen.n_rows, frozen.chunk
        self.readout = frozen.readout.detach()
        self.stacked = torch.cat([torch.zeros_like(self.readout), self.readout[:-1]])
        """[D; W*]: room for D = R - R* above W*, so that products of both are one."""
        ranges = [tuple(of_task) for of_task in kept] if kept is not None else [((0, frozen.size),)] * self.n_tasks
        kinds = list(dict.fromkeys(ranges))
        self._kind = [kinds.index(of_task) for of_task in ranges]
        self._columns = [_columns_by_row(of_kind, frozen.edges) for of_kind in kinds]
        """For each kind of task, for each of its rows: the ranges of columns that count."""
        self._ww: dict[WeightRange, Tensor] = {}
        self._fixed_sums: dict[WeightRange, Tensor] = {}
        self._all: list[RowGroup] | None = None

    @property
    def moved_by(self) -> Tensor:
        """D, as last used by the penalty."""
        return self.stacked[: len(self.readout)]

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.readout) - 1

    # Drawing

    def everything(self) -> Draw:
        """Draw all rows of all tasks."""
        return Draw(None, 1 / self.n_tasks)

    def draw_tasks(self, count: int) -> Draw:
        """Draw `count` tasks without replacement, each with all its rows."""
        if count >= self.n_tasks:
            return self.everything()
        tasks = torch.randperm(self.n_tasks)[:count].sort().values
        rows = (tasks[:, None] * self.n_rows + torch.arange(self.n_rows)).flatten()
        return Draw(rows, 1 / count, tasks.tolist())

    def draw_rows(self, count: int) -> Draw:
        """Draw `count` single rows without replacement."""
        total = self.n_tasks * self.n_rows
        if count >= total:
            return self.everything()
        return Draw(torch.randperm(total)[:count].sort().values, total / count / self.n_tasks)

    # The drawn rows, in groups

    def groups(self, draw: Draw) -> list[RowGroup]:
        """Return the drawn rows; if all are drawn, with their features, which are cached for the next step."""
        if draw.rows is None:
            if self._all is None:
                self._all = [self._with_fixed(group) for group in self._of_tasks(range(self.n_tasks))]
            return self._all
        return self._of_tasks(draw.tasks) if draw.tasks is not None else [self._of_rows(draw.rows.tolist())]

    def _of_tasks(self, tasks: Sequence[int]) -> list[RowGroup]:
        n_at_once = max(1, AT_ONCE // self.n_rows)
        some = (tasks[i : i + n_at_once] for i in range(0, len(tasks), n_at_once))
        return [RowGroup(self._index(these), None, self._blocks_of_tasks(these)) for these in some]

    def _of_rows(self, numbers: Sequence[int]) -> RowGroup:
        tasks, rows = [n // self.n_rows for n in numbers], [n % self.n_rows for n in numbers]
        found: dict[WeightRange, list[int]] = defaultdict(list)
        for i, (task, row) in enumerate(zip(tasks, rows, strict=True)):
            for columns in self._columns[self._kind[task]][row]:
                found[columns].append(i)
        blocks = [Block(self._some(of_these, len(numbers)), columns) for columns, of_these in found.items()]
        return RowGroup(self._index(tasks), self._index(rows), blocks)

    def _blocks_of_tasks(self, tasks: Sequence[int]) -> list[Block]:
        """Return the blocks of all rows of some tasks, numbered row * tasks + task."""
        n, kinds = len(tasks), sorted({self._kind[task] for task in tasks})
        found: dict[WeightRange, list[int]] = defaultdict(list)
        for kind in kinds:
            of_kind = [i for i, task in enumerate(tasks) if self._kind[task] == kind]
            for row, ranges in enumerate(self._columns[kind]):
                for columns in ranges:
                    found[columns] += [row * n + i for i in of_kind]
        return [Block(self._some(sorted(rows), n * self.n_rows), columns) for columns, rows in found.items()]

    def _some(self, numbers: list[int], total: int) -> slice | Tensor:
        """Return ascending numbers as a slice if they are consecutive, which avoids copies."""
        if numbers[-1] - numbers[0] + 1 == len(numbers):
            return slice(numbers[0], numbers[-1] + 1) if len(numbers) < total else slice(None)
        return self._index(numbers)

    def _index(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, device=self.embeddings.device)

    def count(self, group: RowGroup) -> int:
        """Return the number of rows of a group."""
        return len(group.tasks) * (self.n_rows if group.row is None else 1)

    # What is constant within a task

    @torch.no_grad()
    def fixed(self, group: RowGroup) -> Tensor:
        """Return h~* of a group."""
        if group.fixed is not None:
            return group.fixed
        h = _features(self.frozen, self.embeddings, group)
        if h.shape[1] == self.width:
            return with_one(h)
        h[:, self.width] = 1  # rows with room for the 1
        return h

    def _with_fixed(self, group: RowGroup) -> RowGroup:
        return group._replace(fixed=self.fixed(group))

    def ww(self, start: int, stop: int) -> Tensor:
        """Return W* W*^T over some columns; cached."""
        if (start, stop) not in self._ww:
            w = self.readout[:-1, start:stop]
            self._ww[start, stop] = w @ w.T
        return self._ww[start, stop]

    def fixed_sums(self, draw: Draw, groups: Sequence[RowGroup]) -> dict[WeightRange, Tensor]:
        """Return the sums of h~* h~*^T over the rows of each range of columns; cached if all rows are drawn."""
        if draw.rows is None and self._fixed_sums:
            return self._fixed_sums
        sums: dict[WeightRange, Tensor] = {}
        for group in groups:
            h = self.fixed(group)[:, : self.width + 1]
            for block in group.blocks:
                product = h[block.rows].T @ h[block.rows]
                sums[block.columns] = product + sums[block.columns] if block.columns in sums else product
        if draw.rows is None:
            self._fixed_sums = sums
        return sums

    # For the plain sum

    def numbers(self, draw: Draw) -> Tensor:
        """Return the numbers of the drawn rows, task * n_rows + row."""
        rows = torch.arange(self.n_tasks * self.n_rows) if draw.rows is None else draw.rows
        return rows.to(self.embeddings.device)

    def weights(self) -> Tensor:
        """Return the importance of each weight, row by row: [rows of all tasks, chunk]."""
        assert self.importance is not None
        rows = self.importance.new_zeros(self.n_tasks, self.n_rows * self.chunk)
        places = self.frozen.places().to(rows.device)
        return rows.index_copy_(1, places, self.importance).view(-1, self.chunk)


def _columns_by_row(kept: Sequence[WeightRange], edges: Sequence[int]) -> list[list[WeightRange]]:
    """Return for each row of a task the ranges of its columns that count."""
    found: list[list[WeightRange]] = [[] for _ in edges[1:]]
    for start, stop in kept:
        for row in range(bisect_right(edges, start) - 1, bisect_left(edges, stop)):
            columns = (max(start, edges[row]) - edges[row], min(stop, edges[row + 1]) - edges[row])
            found[row].append(columns)
    return found


def _features(hypernet: AbstractHypernet, embeddings: Tensor, group: RowGroup) -> Tensor:
    """Return the features of a group; of many rows with widths that suit the processor (see `grid_features`)."""
    if group.row is not None:
        return hypernet.features(embeddings[group.tasks], group.row)
    return hypernet.grid_features(embeddings[group.tasks])


def plain_penalty(moved: AbstractHypernet, anchors: Anchors, draw: Draw, old: Sequence[Tensor] = ()) -> Tensor:
    """Sum the squared drifts weight by weight: the slow twin of `exact_penalty`, and the weighted penalty."""
    embeddings = torch.stack(list(old)) if old else anchors.embeddings
    numbers = anchors.numbers(draw)
    group = anchors._of_rows(numbers.tolist())
    h = _features(moved, embeddings, group)
    with torch.no_grad():
        before = anchors.fixed(group) @ anchors.readout
    squares = (moved.read(h) - before).square()
    if anchors.importance is not None:
        squares = squares * anchors.weights()[numbers]
    sums = (squares[b.rows, slice(*b.columns)].sum() for b in group.blocks)
    return sum(sums, squares[:0].sum()) * draw.factor  # with a graph, even if no block was drawn


def exact_penalty(
    moved: AbstractHypernet,
    anchors: Anchors,
    draw: Draw,
    old: Sequence[Tensor] = (),
    scale: float = 1.0,
    add_to: Tensor | None = None,
) -> tuple[Tensor, Gradients]:
    """Sum the squared drifts, times a scale, by the equations on top of this file.

    Returns the value and its gradients of the parameters, then of the plastic embeddings `old`, if there are any.

    With `add_to`, the gradient of the readout (nearly all of the parameters) is added to that tensor: it spares a
    tensor of the readout's size in every step.
    """
    torch.sub(moved.readout.detach(), anchors.readout, out=anchors.moved_by)
    groups, factor = anchors.groups(draw), 2 * scale * draw.factor
    readout = torch.zeros_like(anchors.readout) if add_to is None else add_to
    n_rows = sum(map(anchors.count, groups))
    way = _ByGram if gram_is_cheaper(n_rows, anchors.width) else _Directly
    sums = way(moved.readout.detach(), anchors, draw, groups, readout, factor)
    parameters: list[Tensor] = list(moved.parameters())
    variables = [*(p for p in parameters if p is not moved.readout), *old]
    found: list[Tensor | None] = [None] * len(variables)
    for group in groups:
        with torch.enable_grad():
            h = _features(moved, torch.stack(list(old)) if old else anchors.embeddings, group)
            known = _Known.apply(h, sums.add(group, h.detach()))
        if known.requires_grad:
            more = torch.autograd.grad(known, variables, allow_unused=True)
            found = [a if b is None else b if a is None else a.add_(b) for a, b in zip(found, more, strict=True)]
    sums.finish()
    place = [p is moved.readout for p in parameters].index(True)
    found.insert(place, readout if add_to is None else None)
    return sums.value * (scale * draw.factor), found


class _Known(torch.autograd.Function):
    """A dummy value with a known gradient.

    Passing the gradient to `torch.autograd.grad` itself would import torch's symbolic shapes: a second per process.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return h.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient, None


def gram_is_cheaper(n_rows: int, width: int) -> bool:
    """Compare the operations per column of the two ways to compute the sum and its gradient.

    Directly, drift and gradients are four products of n_rows * width; by Gram matrices, two products of
    width * width give the value and two the gradient. Writing and reading the drifts costs about as much as 24 more
    features would.
    """
    return n_rows * (width + 24) > width * width


class _ByGram:
    """The sum from products of features and of columns, whatever the number of rows.

    Columns are taken in segments: between two borders of blocks, so that a segment is in a block or not.
    """

    def __init__(
        self, moved: Tensor, anchors: Anchors, draw: Draw, groups: Sequence[RowGroup], readout: Tensor, factor: float
    ):
        self.anchors, self.readout, self.factor = anchors, readout, factor
        self.fixed_sums = anchors.fixed_sums(draw, groups)
        borders = sorted({border for columns in self.fixed_sums for border in columns})
        self.segments = [
            (start, stop, inside)
            for start, stop in itertools.pairwise(borders)
            if (inside := [c for c in self.fixed_sums if c[0] <= start and stop <= c[1]])
        ]
        grams = self._grams()
        width = anchors.width
        self.dw = {c: gram[:, width + 1 :] + gram[:, :width] for c, gram in grams.items()}
        """D W^T over each range of columns."""
        self.ww = {c: anchors.ww(*c) + grams[c][:-1, width + 1 :].T + dw[:-1] for c, dw in self.dw.items()}
        """W W^T over each."""
        self.dd = {c: gram[:, : width + 1] for c, gram in grams.items()}
        self.moments: dict[WeightRange, tuple[Tensor, Tensor]] = {}
        """Sums of h~* delta^T and of delta delta^T over the rows of each range."""
        self._padded: dict[tuple[WeightRange, int], tuple[Tensor, Tensor]] = {}
        self.value = readout.new_zeros(())

    def _grams(self) -> dict[WeightRange, Tensor]:
        """Return [D D^T, D W*^T] over each range of columns."""
        grams: dict[WeightRange, Tensor] = {}
        n = len(self.anchors.readout)
        for start, stop, inside in self.segments:
            columns = self.anchors.stacked[:, start:stop]
            gram = columns[:n] @ columns.T
            for c in inside:
                grams[c] = gram if c not in grams else grams[c] + gram
        return grams

    def add(self, group: RowGroup, h: Tensor) -> Tensor:
        """Add the rows of a group with these features; return their gradient."""
        fixed = self.anchors.fixed(group)
        delta, gradient = h - fixed[:, : h.shape[1]], torch.zeros_like(h)
        for rows, c in group.blocks:
            f, d = fixed[rows], delta[rows]
            self._add_moments(c, f.T @ d, d.T @ d)
            dw, ww = self._for_widths(c, f.shape[1], d.shape[1])
            if isinstance(rows, slice):
                gradient[rows].addmm_(f, dw).addmm_(d, ww)
            else:
                gradient.index_add_(0, rows, torch.addmm(f @ dw, d, ww))
        return gradient

    def _add_moments(self, c: WeightRange, fd: Tensor, dd: Tensor) -> None:
        n = self.anchors.width
        found, before = (fd[: n + 1, :n], dd[:n, :n]), self.moments.get(c)
        self.moments[c] = found if before is None else (before[0] + found[0], before[1] + found[1])

    def _for_widths(self, c: WeightRange, fixed: int, width: int) -> tuple[Tensor, Tensor]:
        """Return D W^T and W W^T for features of these widths (see `grid_features`), times the factor."""
        if (c, width) not in self._padded:
            n, pad = self.anchors.width, nn.functional.pad
            dw = pad(self.dw[c], (0, width - n, 0, fixed - n - 1)) * self.factor
            self._padded[c, width] = dw, pad(self.ww[c], (0, width - n, 0, width - n)) * self.factor
        return self._padded[c, width]

    def finish(self) -> None:
        """Complete the value and add the gradient of the readout."""
        factors = {c: self._factors(c, *moments) for c, moments in self.moments.items()}
        for start, stop, inside in self.segments:
            of_segment = sum((factors[c] for c in inside[1:]), factors[inside[0]]) * self.factor
            self.readout[:, start:stop].addmm_(of_segment, self.anchors.stacked[:, start:stop])
        # Where the readout moved far, but not along the old features, rounding can leave a little less than 0.
        self.value = self.value.clamp(min=0)

    def _factors(self, c: WeightRange, x: Tensor, y: Tensor) -> Tensor:
        """Add the value of a range; return what [D; W*] is multiplied by in half of the readout's gradient."""
        fixed = self.fixed_sums[c]
        self.value = self.value + (self.dd[c] * fixed).sum() + 2 * (self.dw[c] * x).sum() + (self.ww[c] * y).sum()
        of_w = x.clone()
        of_w[:-1] += y
        of_d = fixed.clone()
        of_d[:-1] += x.T
        of_d[:, :-1] += of_w
        return torch.cat([of_d, of_w], dim=1)


class _Directly:
    """The sum over the drifts themselves, block by block: cheaper for few rows."""

    def __init__(
        self, moved: Tensor, anchors: Anchors, draw: Draw, groups: Sequence[RowGroup], readout: Tensor, factor: float
    ):
        self.moved, self.anchors, self.readout, self.factor = moved, anchors, readout, factor
        self.value = readout.new_zeros(())

    def add(self, group: RowGroup, h: Tensor) -> Tensor:
        """Add the rows of a group with these features; return their gradient."""
        n = self.anchors.width
        gradient, h = torch.zeros_like(h), h[:, :n]
        both = torch.cat([with_one(h), h - self.anchors.fixed(group)[:, :n]], dim=1)
        for rows, (start, stop) in group.blocks:
            drift = both[rows] @ self.anchors.stacked[:, start:stop]
            self.value = self.value + drift.square().sum()
            self.readout[:, start:stop].addmm_(both[rows, : n + 1].T, drift, alpha=self.factor)
            gradient[rows, :n] += (drift @ self.moved[:-1, start:stop].T).mul_(self.factor)
        return gradient

    def finish(self) -> None:
        """Do nothing: everything is already added."""
