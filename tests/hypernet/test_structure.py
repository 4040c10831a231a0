"""Chunks that follow layers and filters: where they end, and that the penalty stays exact."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.structure import structured_edges
from mnemon.hypernet.target import Slot, Target
from mnemon.memory.penalty import Anchors, exact_penalty, plain_penalty
from mnemon.models import TargetConfig, build_network
from mnemon.models.resnet import ResNet


def slots_of(shapes: list[tuple[int, ...]]) -> list[Slot]:
    slots, start = [], 0
    for i, shape in enumerate(shapes):
        slots.append(Slot(str(i), torch.Size(shape), start))
        start = slots[-1].stop
    return slots


SHAPES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple), min_size=1, max_size=8)


@given(shapes=SHAPES, more=st.integers(0, 20), chunk=st.integers(1, 60))
def test_chunks_cover_all_weights_and_split_no_filter_that_fits(shapes, more, chunk):
    slots = slots_of(shapes)
    size = slots[-1].stop + more
    edges = structured_edges(slots, size, chunk)
    assert edges[0] == 0
    assert edges[-1] == size
    assert all(0 < b - a <= chunk for a, b in itertools.pairwise(edges))
    for slot in slots:
        inside = [edge for edge in edges if slot.start < edge < slot.stop]
        if len(slot.shape) > 1:
            assert slot.start in edges, "a layer begins a chunk"
            filter_size = math.prod(slot.shape[1:])
            if filter_size <= chunk:
                assert all((edge - slot.start) % filter_size == 0 for edge in inside)
        elif slot.stop - slot.start <= chunk:
            assert not inside


def test_filters_are_spread_evenly():
    assert structured_edges(slots_of([(64, 10)]), 640, 120) == [0, 110, 220, 330, 440, 550, 640]


@pytest.mark.parametrize("chunk", [6336, 6989])
def test_the_readout_is_as_wide_as_the_widest_chunk(chunk):
    with torch.device("meta"):
        target = Target(build_network(TargetConfig("resnet32"), (3, 32, 32), 60))
        flat = build_hypernet(HypernetConfig("chunked", (), "relu", 32, 7000, 32), target)
        structured = build_hypernet(HypernetConfig("structured", (), "relu", 32, chunk, 32), target)
    assert flat.count() == 457_144
    assert structured.readout.shape == (65, 6336)
    assert structured.n_rows == 88
    assert structured.count() == 414_656


@pytest.fixture
def target(double) -> Target:
    return Target(ResNet((1, 8, 8), 6, blocks_per_stage=1))


@pytest.mark.parametrize("own_head", [False, True])
@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.parametrize("drawn", ["all", "tasks", "rows"])
def test_the_exact_penalty_equals_the_plain_sum(target, own_head, hidden, drawn):
    hypernet = build_hypernet(HypernetConfig("structured", hidden, "relu", 4, 400, 3), target)
    moved = copy.deepcopy(hypernet)
    for parameter in moved.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    head = target.slots[-2]
    first = [(0, head.start), (head.start, head.start + 128), (head.stop, head.stop + 2)]
    kept = [first, [(0, target.size)], [(17, 2000)]] if own_head else None
    anchors = Anchors(hypernet, torch.randn(3, 4), kept)
    draw = {"all": anchors.everything, "tasks": lambda: anchors.draw_tasks(2), "rows": lambda: anchors.draw_rows(9)}
    drawn = draw[drawn]()
    (exact, found), plain = exact_penalty(moved, anchors, drawn), plain_penalty(moved, anchors, drawn)
    torch.testing.assert_close(exact, plain.detach(), rtol=1e-11, atol=0)
    for one, other in zip(found, torch.autograd.grad(plain, list(moved.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_the_plain_sum_is_that_of_the_generated_weights(target):
    hypernet = build_hypernet(HypernetConfig("structured", (), "relu", 4, 400, 3), target)
    moved = copy.deepcopy(hypernet)
    moved.readout.data.add_(0.1)
    embeddings = torch.randn(2, 4)
    anchors = Anchors(hypernet, embeddings, importance=torch.rand(2, target.size))
    drifts = torch.stack([(moved(e) - hypernet(e)).square() for e in embeddings])
    wanted = (drifts * anchors.importance).sum() / 2
    torch.testing.assert_close(plain_penalty(moved, anchors, anchors.everything()), wanted)


def test_layers_of_one_form_take_the_same_columns():
    target = Target(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)))
    hypernet = build_hypernet(HypernetConfig("structured", (), "relu", 4, 18, 3), target)
    columns = (hypernet.places() % hypernet.chunk).tolist()
    one, other = (target.slots[i] for i in (0, 2))
    assert columns[one.start : one.stop] == columns[other.start : other.stop]
