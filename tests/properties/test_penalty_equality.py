"""The exact penalty is the plain sum, in value and in every gradient, whatever the shapes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mnemon.hypernet import base
from mnemon.hypernet.base import AbstractHypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.full import FullHypernet
from mnemon.memory import penalty
from mnemon.memory.penalty import Anchors, Draw, exact_penalty, plain_penalty

Found = tuple[Tensor, dict[str, Tensor]]
ACTIVATIONS = [nn.ELU, nn.ReLU, nn.Tanh, nn.Sigmoid]
WAYS = {"by gram": True, "directly": False}


@dataclass
class Case:
    """A frozen hypernetwork, a moved one, embeddings of old tasks, and what the penalty is taken on."""

    frozen: AbstractHypernet
    moved: AbstractHypernet
    old: Tensor
    """Embeddings under which the frozen hypernetwork is asked."""
    present: Tensor | None
    """Plastic embeddings, which have moved; None where they are fixed."""
    kept: list[list[tuple[int, int]]] | None
    sample: str
    count: int
    seed: int

    def to(self, dtype: torch.dtype) -> Case:
        nets = (copy.deepcopy(net).to(dtype) for net in (self.frozen, self.moved))
        present = None if self.present is None else self.present.detach().to(dtype).requires_grad_()
        return Case(*nets, self.old.to(dtype), present, self.kept, self.sample, self.count, self.seed)

    def anchors(self) -> Anchors:
        return Anchors(self.frozen, self.old, self.kept)

    def draw(self, anchors: Anchors) -> Draw:
        torch.manual_seed(self.seed)
        if self.sample == "tasks":
            return anchors.draw_tasks(self.count)
        return anchors.draw_rows(self.count) if self.sample == "rows" else anchors.everything()

    def variables(self) -> dict[str, Tensor]:
        """Everything of which the penalty has a gradient."""
        present = {} if self.present is None else {"old embeddings": self.present}
        return {**dict(self.moved.named_parameters()), **present}

    def exact(self, draw: Draw, anchors: Anchors, beta: float = 1.0, add_to: Tensor | None = None) -> Found:
        """The exact penalty and its gradients by name."""
        old = [] if self.present is None else list(self.present.unbind())
        value, found = exact_penalty(self.moved, anchors, draw, old, beta, add_to)
        parameters = dict(self.moved.named_parameters())
        gradients = dict(zip(parameters, found, strict=False))
        zeros = {name: torch.zeros_like(p) for name, p in parameters.items()}
        if old:
            each = [torch.zeros_like(e) if g is None else g for e, g in zip(old, found[len(zeros) :], strict=True)]
            zeros["old embeddings"] = gradients["old embeddings"] = torch.stack(each)
        return value, {name: zero if gradients[name] is None else gradients[name] for name, zero in zeros.items()}

    def plain(self, draw: Draw, anchors: Anchors) -> Found:
        """The plain penalty and its gradients by name."""
        value = plain_penalty(self.moved, anchors, draw, () if self.present is None else self.present.unbind())
        return value, self.gradients(value)

    def gradients(self, value: Tensor) -> dict[str, Tensor]:
        variables = self.variables()
        found = torch.autograd.grad(value, list(variables.values()), allow_unused=True)
        pairs = zip(variables.items(), found, strict=True)
        return {name: torch.zeros_like(v) if g is None else g for (name, v), g in pairs}

    def slow_twin(self, draw: Draw) -> Tensor:
        """The sum over whole generated networks, which knows neither blocks nor the split into features."""
        present = self.old if self.present is None else self.present
        size, chunk, n_rows = self.frozen.size, self.frozen.chunk, self.frozen.n_rows
        rows = set(range(len(self.old) * n_rows) if draw.rows is None else draw.rows.tolist())
        total = self.old.new_zeros(())
        for task in range(len(self.old)):
            ranges = [(0, size)] if self.kept is None else self.kept[task]
            counts = [any(a <= i < b for a, b in ranges) and task * n_rows + i // chunk in rows for i in range(size)]
            drift = self.moved(present[task]) - self.frozen(self.old[task]).detach()
            total = total + drift[torch.tensor(counts)].square().sum()
        return total * draw.factor


@st.composite
def ranges_within(draw: st.DrawFn, size: int) -> list[tuple[int, int]]:
    """Some disjoint ranges, as the own head of a task leaves them; perhaps none."""
    borders = draw(st.lists(st.integers(0, size), max_size=6, unique=True).map(sorted))
    return [(a, b) for a, b in zip(borders[::2], borders[1::2], strict=False)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size, embedding = draw(st.integers(1, 40)), draw(st.integers(1, 5))
    hidden = draw(st.lists(st.integers(1, 7), max_size=2))
    activation = draw(st.sampled_from(ACTIVATIONS))
    seed = draw(st.integers(0, 2**31))
    torch.manual_seed(seed)
    if draw(st.booleans()):
        chunk, chunk_embedding = draw(st.integers(1, 45)), draw(st.integers(1, 4))
        frozen: AbstractHypernet = ChunkedHypernet(size, embedding, hidden, activation, chunk, chunk_embedding)
    else:
        frozen = FullHypernet(size, embedding, hidden, activation)
    n_tasks = draw(st.integers(1, 5))
    for parameter in frozen.parameters():
        nn.init.normal_(parameter, std=0.7)
    moved = copy.deepcopy(frozen)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    old = torch.randn(n_tasks, embedding)
    present = (old + 0.3 * torch.randn_like(old)).requires_grad_() if draw(st.booleans()) else None
    kept = [draw(ranges_within(size)) for _ in range(n_tasks)] if draw(st.booleans()) else None
    sample = draw(st.sampled_from(["all", "tasks", "rows"]))
    count = draw(st.integers(1, 1 + n_tasks * (frozen.n_rows if sample == "rows" else 1)))
    return Case(frozen, moved, old, present, kept, sample, count, seed)


def forced(way: str):
    return mock.patch.object(penalty, "gram_is_cheaper", return_value=WAYS[way])


AT_ONCE = [(1, 1), (4, 1), (4, 10**6), (10**6, 1), (10**6, 10**6)]
"""Rows that are held at a time, and from how many on widths are rounded up."""


@contextmanager
def taken(at_once: tuple[int, int]) -> Iterator[None]:
    """Take few rows at a time, as if there were many."""
    with mock.patch.object(penalty, "AT_ONCE", at_once[0]), mock.patch.object(base, "MANY", at_once[1]):
        yield


def assert_near(found: Tensor, wanted: Tensor, tolerance: float, what: str) -> None:
    """Compare relative to the largest entry."""
    found, wanted = found.detach().double(), wanted.detach().double()
    atol = tolerance * float(wanted.abs().max())
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol, msg=lambda text: f"{what}: {text}")


@pytest.mark.parametrize("way", WAYS)
@given(case=cases(), at_once=st.sampled_from(AT_ONCE))
@settings(max_examples=150)
def test_exact_penalty_equals_the_plain_sum_in_value_and_every_gradient(way, case, at_once):
    case = case.to(torch.float64)
    anchors = case.anchors()
    draw = case.draw(anchors)
    wanted, (plain, by_plain) = case.slow_twin(draw), case.plain(draw, anchors)
    with forced(way), taken(at_once):
        exact, by_exact = case.exact(draw, anchors)
    assert_near(plain, wanted, 1e-10, "plain value")
    assert_near(exact, wanted, 1e-10, "exact value")
    for name, gradient in case.gradients(wanted).items():
        assert_near(by_plain[name], gradient, 1e-10, f"plain gradient of {name}")
        assert_near(by_exact[name], gradient, 1e-10, f"exact gradient of {name}")


@pytest.mark.parametrize("way", WAYS)
@given(case=cases(), at_once=st.sampled_from(AT_ONCE))
@settings(max_examples=100)
def test_float32_is_enough_for_the_exact_penalty(way, case, at_once):
    case = case.to(torch.float32)
    precise = case.to(torch.float64)
    wanted, gradients = precise.plain(case.draw(anchors := precise.anchors()), anchors)
    with forced(way), taken(at_once):
        exact, found = case.exact(case.draw(anchors := case.anchors()), anchors)
    assert_near(exact, wanted, 1e-4, "value")
    for name, gradient in gradients.items():
        assert_near(found[name], gradient, 1e-4, f"gradient of {name}")


@pytest.mark.parametrize("way", WAYS)
@given(case=cases(), beta=st.floats(0.01, 10))
@settings(max_examples=30)
def test_the_readout_gradient_is_added_where_asked_for(way, case, beta):
    case = case.to(torch.float64)
    anchors = case.anchors()
    draw = case.draw(anchors)
    before = torch.randn_like(case.moved.readout)
    total = before.clone()
    with forced(way):
        value, wanted = case.exact(draw, anchors, beta)
        plain = beta * case.plain(draw, anchors)[0]
        added, found = case.exact(draw, anchors, beta, total)
    assert_near(value, plain, 1e-9, "value")
    assert_near(added, plain, 1e-9, "value of what is added")
    assert_near(total - before, wanted.pop("readout"), 1e-9, "added")
    assert not found.pop("readout").any(), "it must not be added a second time"
    for name, gradient in wanted.items():
        assert_near(found[name], gradient, 1e-12, name)


@pytest.mark.parametrize("penalty", [Case.exact, Case.plain])
@given(case=cases())
@settings(max_examples=30)
def test_the_unused_tail_of_the_last_chunk_is_free(penalty, case):
    case = case.to(torch.float64)
    case.kept = None
    used = case.frozen.size - (case.frozen.n_rows - 1) * case.frozen.chunk
    anchors = case.anchors()
    alone = Draw(torch.arange(len(case.old)) * case.frozen.n_rows + case.frozen.n_rows - 1, 1.0)
    before, gradients = penalty(case, alone, anchors)
    with torch.no_grad():
        case.moved.readout[:, used:] += 100.0
    after, _ = penalty(case, alone, anchors)
    assert not gradients["readout"][:, used:].any()
    torch.testing.assert_close(after, before, rtol=1e-12, atol=0)


@given(case=cases())
@settings(max_examples=30)
def test_nothing_is_penalised_before_anything_has_moved(case):
    case = case.to(torch.float64)
    anchors = case.anchors()
    value, gradients = exact_penalty(case.frozen, anchors, case.draw(anchors))
    assert value.item() == 0
    assert not any(gradient.any() for gradient in gradients if gradient is not None)
