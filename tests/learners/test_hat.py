"""HAT: what earlier tasks use stays bit for bit, gates become hard, and gradients of steep gates are made up for."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import UsageError
from mnemon.learners.hat import HAT
from mnemon.models import NETWORKS, TargetConfig
from mnemon.models.mlp import MLP

TARGET = TargetConfig(hidden=(6, 5))
OPTIMIZERS = {
    "adam": {"lr": 0.05},
    "adam with weight decay": {"lr": 0.05, "weight_decay": 0.1},
    "adamw": {"name": "adamw", "lr": 0.05, "weight_decay": 0.1},
    "sgd": {"name": "sgd", "lr": 0.5},
    "momentum": {"name": "sgd", "lr": 0.2, "momentum": 0.9},
    "rmsprop": {"name": "rmsprop", "lr": 0.01, "momentum": 0.5},
}
STEPS = 6


@pytest.fixture
def make(problem):
    """Make a learner of pictures."""

    def new(optimizer: dict | None = None, target: TargetConfig = TARGET, **settings) -> HAT:
        return HAT(HAT.Config(**settings), problem(shape=(9,), target=target, **(optimizer or {"lr": 0.05})))

    return new


@pytest.fixture
def learn(picture_batch):
    """Let it begin a task and take some steps, while the slope rises."""

    def go(learner: HAT, task: int, steps: int = STEPS) -> HAT:
        learner.begin_task(task)
        for step in range(steps):
            learner.train_step(replace(picture_batch(task, step), progress=step / steps))
        return learner

    return go


def hard(learner: HAT) -> Tensor:
    """End the first task as if it had claimed every other unit, for good."""
    pattern = torch.arange(learner.chain.size) % 2 == 0
    with torch.no_grad():
        learner.embeddings[0].copy_(torch.where(pattern, 6.0, -6.0))
    learner.end_task(None)
    assert torch.equal(learner.used, pattern.to(learner.used)), "exactly 0 and 1"
    return pattern


def parameters_of(learner: HAT) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in learner.network.named_parameters()}


# What earlier tasks use stays


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_answers_of_an_earlier_task_with_hard_gates_stay_bit_for_bit(optimizer, make, learn, pictures):
    learner = learn(make(OPTIMIZERS[optimizer]), 0)
    hard(learner)
    inputs = pictures.tasks[0].test.inputs
    before = learner.predict(inputs, 0)
    assert before.any()
    learn(learner, 1)
    assert torch.equal(learner.predict(inputs, 0), before)
    learner.end_task(None)
    learn(learner, 2)
    assert torch.equal(learner.predict(inputs, 0), before)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_between_used_units_do_not_move_and_others_do(optimizer, make, learn):
    learner = learn(make(OPTIMIZERS[optimizer]), 0)
    first, second = hard(learner).split([6, 5])
    still = {
        "layers.0.weight": first[:, None].expand(6, 9),
        "layers.0.bias": first,
        "layers.1.weight": second[:, None] & first[None, :],
        "layers.1.bias": second,
    }
    before = parameters_of(learner)
    after = parameters_of(learn(learner, 1))
    for name, held in still.items():
        assert torch.equal(after[name][held], before[name][held]), name
        assert not torch.equal(after[name][~held], before[name][~held]), name


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_task_moves_its_own_outputs_alone(optimizer, make, learn):
    learner = learn(make(OPTIMIZERS[optimizer]), 0)
    learner.end_task(None)
    before = parameters_of(learner)
    after = parameters_of(learn(learner, 1))
    for name in ("layers.2.weight", "layers.2.bias"):
        moved = [not torch.equal(a, b) for a, b in zip(before[name], after[name], strict=True)]
        assert moved == [False, False, True, True, False, False]


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_weight_takes_the_free_share_of_its_step(share, double, make, learn, picture_batch):
    learner = learn(make({"lr": 0.05}), 0)
    learner.end_task(None)
    learner.used.fill_(share)
    learner.begin_task(1)
    before, batch = parameters_of(learner), replace(picture_batch(1, 0), progress=0.5)
    learner.train_step(batch)
    # The first step of Adam is the learning rate, up or down, wherever there is a gradient.
    for name in ("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"):
        step = (learner.network.get_parameter(name) - before[name]).abs()
        torch.testing.assert_close(
            step[step > 0], torch.full_like(step[step > 0], (1 - share) * 0.05), rtol=1e-3, atol=0
        )
        assert step.any()


def test_used_is_the_largest_gate_of_any_task(make, learn):
    learner, wanted = make(), torch.zeros(11)
    for task in range(3):
        learn(learner, task)
        assert torch.equal(learner.used, wanted), "not yet of the task that is being learned"
        wanted = torch.maximum(wanted, (400 * learner.embeddings[task].detach()).sigmoid())
        learner.end_task(None)
        assert torch.equal(learner.used, wanted)


def test_embeddings_of_earlier_tasks_do_not_move(make, learn):
    learner = learn(make(), 0)
    learner.end_task(None)
    before = learner.embeddings[0].detach().clone()
    learn(learner, 1)
    assert torch.equal(learner.embeddings[0], before)


def test_from_the_second_task_on_a_step_says_how_much_is_held(make, learn, picture_batch):
    learner = learn(make(), 0)
    assert list(learner.train_step(picture_batch(0, 0))) == ["task_loss", "sparsity"]
    hard(learner)
    learner.begin_task(1)
    terms = learner.train_step(picture_batch(1, 0))
    assert list(terms) == ["task_loss", "sparsity", "held"]
    # 3 of 6 units with 9 weights and a bias each; 3 of 5 units with 3 weights from those and a bias each.
    assert terms["held"].item() == pytest.approx((3 * 9 + 3 + 3 * 3 + 3) / (6 * 9 + 6 + 5 * 6 + 5))


# Gates


@pytest.mark.parametrize(
    ("cycles", "progress", "share"),
    [
        (1, 0.0, 0.0), (1, 0.25, 0.25), (1, 0.5, 0.5), (1, 1 - 1e-9, 1 - 1e-9),
        (4, 0.0, 0.0), (4, 0.125, 0.5), (4, 0.25, 0.0), (4, 0.625, 0.5), (4, 1 - 1e-9, 1 - 4e-9),
        (10, 0.05, 0.5), (10, 0.1, 0.0), (10, 0.3, 0.0), (10, 0.75, 0.5), (10, 0.999, 0.99),
    ],
)  # fmt: skip
def test_the_slope_rises_in_every_cycle_from_the_least_to_the_largest(cycles, progress, share, make):
    found = make(s_max=400.0, cycles=cycles).slope(progress)
    assert found == pytest.approx(1 / 400 + share * (400 - 1 / 400), rel=1e-6)


def test_a_cycle_begins_with_the_least_slope_whatever_their_number(make):
    assert make(s_max=400.0, cycles=49).slope(1 / 49) == pytest.approx(1 / 400)


def test_a_step_takes_the_slope_of_its_moment_and_an_answer_the_largest(double, make, picture_batch):
    learner = make(s_max=20.0, cycles=2)
    learner.begin_task(0)
    e = learner.embeddings[0].detach().clone()
    batch = replace(picture_batch(0, 0), progress=0.25)
    middle = 1 / 20 + 0.5 * (20 - 1 / 20)
    with torch.no_grad():
        outputs = learner.chain.run(batch.inputs, (middle * e).sigmoid(), {})
        wanted = learner.problem.loss(outputs[:, :2], batch.targets)
        answers = learner.chain.run(batch.inputs, (20.0 * e).sigmoid(), {})[:, :2]
    assert torch.equal(learner.predict(batch.inputs, 0), answers)
    torch.testing.assert_close(learner.train_step(batch)["task_loss"], wanted)


def by_the_paper(q: Tensor, e: Tensor, s: float, s_max: float) -> Tensor:
    """Number by number: q' = s_max / s * (cosh(s e) + 1) / (cosh(e) + 1) * q."""
    pairs = zip(q.tolist(), e.tolist(), strict=True)
    return torch.tensor([s_max / s * (math.cosh(s * x) + 1) / (math.cosh(x) + 1) * y for y, x in pairs])


@pytest.mark.parametrize("progress", [0.0, 0.2, 0.4, 0.9])
def test_the_gradient_of_an_embedding_is_as_if_the_slope_were_1(progress, double, make, learn, picture_batch):
    learner = learn(make({"name": "sgd", "lr": 0.01}, s_max=10.0, cycles=1, sparsity=0.5), 0)
    learner.end_task(None)
    learner.used.copy_(torch.rand(11))
    learner.begin_task(1)
    batch, e = replace(picture_batch(1, 0), progress=progress), learner.embeddings[1]
    slope = learner.slope(progress)
    gates = (slope * e).sigmoid()

    def loss(gates: Tensor) -> Tensor:
        outputs = learner.chain.run(batch.inputs, gates, {})
        price = (gates * (1 - learner.used)).sum() / (1 - learner.used).sum()
        return learner.problem.loss_among_all(outputs, batch.targets, 1, 2) + 0.5 * price

    (q,) = torch.autograd.grad(loss(gates), e)
    wanted = e.detach() - 0.01 * by_the_paper(q, e.detach(), slope, 10.0)
    # The same in other words: through gates of slope 1, times the largest slope.
    leaf = gates.detach().requires_grad_()
    (of_gates,) = torch.autograd.grad(loss(leaf), leaf)
    (through,) = torch.autograd.grad(e.sigmoid(), e, 10.0 * of_gates)
    torch.testing.assert_close(wanted, e.detach() - 0.01 * through, rtol=1e-9, atol=1e-12)
    learner.train_step(batch)
    torch.testing.assert_close(learner.embeddings[1].detach(), wanted, rtol=1e-9, atol=1e-12)


def test_gates_that_are_as_steep_as_can_be_leave_all_numbers_finite(make, picture_batch):
    learner = make(s_max=1e4, cycles=1)
    learner.begin_task(0)
    with torch.no_grad():
        learner.embeddings[0].copy_(torch.linspace(-6, 6, 11))
    for progress in (0.0, 0.5, 0.999999):
        learner.train_step(replace(picture_batch(0, 0), progress=progress))
        assert all(tensor.isfinite().all() for tensor in learner.tensors().values())


def test_embeddings_stay_within_the_range_where_they_can_be_moved(make, learn):
    learner = learn(make({"lr": 5.0}), 0)
    assert learner.embeddings[0].abs().max() == 6


def test_a_unit_that_no_task_uses_has_its_price(double, make, picture_batch):
    learner = make(s_max=3.0, cycles=1)
    learner.begin_task(0)
    for used in (torch.zeros(11), torch.rand(11)):
        learner.used.copy_(used)
        e = learner.embeddings[0].tolist()
        gates = [1 / (1 + math.exp(-learner.slope(0.5) * x)) for x in e]
        free = [1 - u for u in used.tolist()]
        wanted = sum(a * f for a, f in zip(gates, free, strict=True)) / sum(free)
        terms = learner.train_step(replace(picture_batch(0, 0), progress=0.5))
        assert terms["sparsity"].item() == pytest.approx(wanted, rel=1e-10)


def test_where_everything_is_used_nothing_has_a_price(make, picture_batch):
    learner = make()
    learner.begin_task(0)
    learner.used.fill_(1)
    assert learner.train_step(picture_batch(0, 0))["sparsity"] == 0


# Networks and scenarios


def test_statistics_of_batch_norm_are_kept_per_task(make, learn, picture_batch, normalized_net):
    learner = learn(make(target=TargetConfig("normalized")), 0)
    learner.end_task(None)
    learn(learner, 1)
    first, second = learner.buffers_of[0], learner.buffers_of[1]
    assert first["norm.num_batches_tracked"] == second["norm.num_batches_tracked"] == STEPS
    assert not torch.equal(first["norm.running_mean"], second["norm.running_mean"])
    assert learner.network.norm.num_batches_tracked == 0
    before = {name: buffer.clone() for name, buffer in first.items()}
    learner.train_step(picture_batch(1, 0))
    learner.predict(picture_batch(0, 0).inputs, 0)
    assert all(torch.equal(before[name], buffer) for name, buffer in learner.buffers_of[0].items())


def test_with_batch_norm_too_an_earlier_task_with_hard_gates_stays(make, learn, pictures, normalized_net):
    learner = learn(make(target=TargetConfig("normalized")), 0)
    hard(learner)
    inputs = pictures.tasks[0].test.inputs
    before = learner.predict(inputs, 0)
    learn(learner, 1)
    assert torch.equal(learner.predict(inputs, 0), before)


def test_a_network_without_hidden_units_is_refused(make):
    with pytest.raises(UsageError, match=r"^HAT needs hidden units: set target\.hidden\.$"):
        make(target=TargetConfig(hidden=()))


class SideBySide(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.one, self.two = MLP((inputs,), (4,), outputs, nn.ReLU), MLP((inputs,), (5,), outputs, nn.ReLU)

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.two(x)


def test_a_network_that_is_no_chain_is_refused(make, monkeypatch):
    monkeypatch.setitem(NETWORKS, "sides", lambda config, shape, outputs: SideBySide(shape[0], outputs))
    message = (
        "HAT needs a chain of linear or convolutional layers, each used once; SideBySide is another kind of network."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        make(target=TargetConfig("sides"))


@pytest.mark.parametrize("scenario", ["cl2", "cl3"])
def test_where_the_task_is_not_told_it_is_refused(scenario, problem):
    message = (
        f"HAT chooses its gates by the task, which is not given in {scenario}: "
        "take training.scenario=cl1, or a method that infers the task."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        HAT(HAT.Config(), problem(scenario=Scenario(scenario)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"s_max": 1.0}, "method.s_max must be a finite number above 1, not 1.0."),
        ({"s_max": math.inf}, "method.s_max must be a finite number above 1, not inf."),
        ({"s_max": math.nan}, "method.s_max must be a finite number above 1, not nan."),
        ({"sparsity": -0.5}, "method.sparsity must be a finite number of at least 0, not -0.5."),
        ({"sparsity": math.nan}, "method.sparsity must be a finite number of at least 0, not nan."),
        ({"cycles": 0}, "method.cycles must be at least 1, not 0."),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        HAT.Config(**settings)


def test_the_paper_takes_these_settings():
    config = HAT.Config()
    assert (config.s_max, config.sparsity) == (400.0, 0.75)
