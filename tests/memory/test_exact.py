"""Codes of networks: each comes back bit for bit, whatever is learned or dropped around it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mnemon.errors import CheckpointError
from mnemon.memory import fineness
from mnemon.memory.buffers import BufferForm
from mnemon.memory.code import CodeError
from mnemon.memory.exact import DEEPEST, ExactMemory, Start, TaskCode
from mnemon.optimizer import OptimizerConfig


def form() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 2))


def memory(start: Start = Start.KEPT) -> ExactMemory:
    return ExactMemory(form(), ["*"], OptimizerConfig(lr=0.01), start)


def teach(found: ExactMemory, seed: int, origin: int = -1, steps: int = 6) -> None:
    """Learn a task of chance, from where another one ended."""
    random = torch.Generator().manual_seed(seed)
    inputs, targets = torch.randn(40, 6, generator=random), torch.randint(0, 2, (40,), generator=random)
    found.n_begun = found.n_tasks + 1
    found.start_learning()
    if origin >= 0:
        found.start_from(origin)
    newest = found.n_tasks - 1
    for step in range(steps):
        found.advance(step / steps)
        found.descend(nn.functional.cross_entropy(found.run(newest, inputs, training=True), targets))
    found.finish_learning(None)


def networks(found: ExactMemory) -> list[dict[str, Tensor]]:
    found._cache = {}
    return [{**found.network_weights(t), **found.network_buffers(t)} for t in range(found.n_tasks)]


def assert_same(one: list[dict[str, Tensor]], other: list[dict[str, Tensor]]) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_earlier_networks_stay_bit_for_bit():
    found = memory()
    teach(found, 0)
    first = networks(found)
    for seed in range(1, 12):
        teach(found, seed, origin=seed - 1 if seed % 2 else -1)
    assert_same(networks(found)[:1], first)


def test_a_task_that_starts_from_another_is_coded_beside_it():
    found = memory()
    teach(found, 0, steps=60)
    teach(found, 0, origin=0, steps=2)
    assert found.codes[1].reference == 0
    assert len(found.codes[1].code) < len(found._code(found._decode_verified(1), -1))


def line_of_four() -> ExactMemory:
    found = memory()
    for seed in range(4):
        teach(found, seed, origin=seed - 1, steps=20)
    assert [code.reference for code in found.codes] == [-1, 0, 1, 2]
    return found


@pytest.mark.parametrize("order", [[1, 2, 3], [0, 2, 3], [3], [3, 2, 1, 0], [2, 0], [0, 0, 1]])
def test_what_was_predicted_from_a_dropped_network_is_coded_anew(order):
    found = line_of_four()
    before, codes = networks(found), found.codes
    found.select_tasks(order)
    assert_same(networks(found), [before[t] for t in order])
    for code, old in zip(found.codes, order, strict=True):
        kept = codes[old].reference in (*order, -1)
        assert (code.code == codes[old].code) == kept


def test_networks_in_a_row_are_not_too_many():
    found = memory()
    for seed in range(DEEPEST + 3):
        teach(found, seed, origin=seed - 1, steps=20)
    assert max(found._depth(t) for t in range(found.n_tasks)) == DEEPEST


@pytest.mark.parametrize("start", Start)
def test_what_a_file_holds_gives_everything_back(start):
    found, again = line_of_four(), memory(start)
    if start is Start.GIVEN:
        found = memory(start)
        teach(found, 0)
    else:
        with torch.no_grad():
            again.own.add_(1.0)  # any module of the form will do
    again.take_coded(found.coded(), found.n_tasks)
    assert_same(networks(again), networks(found))
    assert torch.equal(again.own, found.own)


def test_other_weights_to_start_from_are_refused():
    found, again = memory(Start.GIVEN), memory(Start.GIVEN)
    teach(found, 0)
    with torch.no_grad():
        again.own[7] += 1e-6
    with pytest.raises(CheckpointError, match="The starting weights are not those of the saved model"):
        again.take_coded(found.coded(), 1)


CODE = TaskCode(-1, b"", bytes(8))
DAMAGED = {
    "too many tasks": lambda codes: codes + bytes(8),
    "cut short": lambda codes: codes[:-1],
    "no codes": lambda codes: codes[:8],
    "a reference to nobody": lambda codes: codes[:8] + b"\x09" + codes[9:],
    "a circle": lambda codes: codes[:8] + b"\x00\x00\x00\x00" + codes[12:],
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_directory_of_codes_is_refused(kind):
    found, again = memory(), memory()
    teach(found, 0)
    coded = found.coded()
    codes = DAMAGED[kind](coded["codes"].numpy().tobytes())
    coded["codes"] = torch.frombuffer(bytearray(codes), dtype=torch.uint8)
    with pytest.raises(CodeError):
        again.take_coded(coded, 1)


def test_a_damaged_code_is_the_network_or_our_error():
    found, chance = memory(), np.random.default_rng(0)
    teach(found, 0)
    (whole,), refused = networks(found), 0
    code = found.codes[0]
    for _ in range(200):
        at, byte = int(chance.integers(len(code.code))), int(chance.integers(256))
        found.codes = (TaskCode(-1, code.code[:at] + bytes([byte]) + code.code[at + 1 :], code.digest),)
        try:
            assert_same(networks(found), [whole])
        except CodeError:
            refused += 1
    assert refused > 150


def test_ever_finer_steps_end_where_little_enough_is_lost():
    tried, rounded = [np.array([8]), np.array([4]), np.array([0])], []
    scores = {None: 90.0, 8: 80.0, 4: 89.9, 0: 90.0}

    def settle(tolerance: float) -> bool:
        rounded.clear()
        return fineness.settle(
            lambda: scores[rounded[-1]],
            lambda steps: rounded.append(None if steps is None else int(steps[0])),
            iter(tried),
            lambda found, plain: fineness.loses(found, plain, tolerance, True),
        )

    assert settle(0.2)
    assert rounded == [None, 8, 4]
    assert not settle(0.05)
    assert rounded[-1] == 0


@pytest.mark.parametrize(
    ("rounded", "plain", "higher", "lost"),
    [(89.9, 90, True, False), (89.7, 90, True, True), (1.009, 1, False, False), (1.02, 1, False, True),
     (float("nan"), 1, False, True)],
)  # fmt: skip
def test_what_is_tolerated_is_points_of_accuracy_or_a_share_of_an_error(rounded, plain, higher, lost):
    assert fineness.loses(rounded, plain, fineness.usual_tolerance(1000, higher), higher) == lost


class Odd(nn.Module):
    """Buffers of many types."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.norm_in_all = nn.BatchNorm1d(2, momentum=None)
        self.register_buffer("table", torch.arange(4.0, dtype=torch.float64))
        self.register_buffer("flags", torch.tensor([True, False]))
        self.register_buffer("nothing", torch.zeros(0))


def test_buffers_come_back_rounded_or_byte_for_byte():
    module, chance = Odd(), torch.Generator().manual_seed(0)
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    buffers["norm.running_mean"] = torch.randn(3, generator=chance)
    buffers["norm.running_var"] = torch.rand(3, generator=chance) + 0.1
    buffers["norm_in_all.num_batches_tracked"] += 1234
    buffers["table"] += 0.1
    buffers["flags"] = ~buffers["flags"]
    form = BufferForm(module)
    found = form.restored(form.rounded(buffers))
    assert found["norm.running_var"].div(buffers["norm.running_var"]).sub(1).abs().max() < 1 / 30
    apart = (found["norm.running_mean"] - buffers["norm.running_mean"]) / buffers["norm.running_var"].sqrt()
    assert apart.abs().max() < 1 / 30
    for name in buffers:
        if not name.startswith("norm.running"):
            assert torch.equal(found[name], buffers[name]), name


@pytest.mark.parametrize("strange", [float("inf"), float("nan"), 1e30])
def test_statistics_that_cannot_be_rounded_are_kept_whole(strange):
    module = Odd()
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    buffers["norm.running_mean"][1] = strange
    form = BufferForm(module)
    found = form.restored(form.rounded(buffers))
    for name in buffers:
        torch.testing.assert_close(found[name], buffers[name], rtol=0, atol=0, equal_nan=True)
