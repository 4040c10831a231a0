"""The path integral of SI by hand, where the loss is a quadratic and its gradient is known."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.learners.synaptic_intelligence import PathGradient, SynapticIntelligence
from mnemon.models import NETWORKS, TargetConfig
from mnemon.problem import Batch

pytestmark = pytest.mark.usefixtures("double")

LR, C, XI, STEPS = 0.05, 0.7, 0.2, 4


class Line(nn.Module):
    """One line for all tasks, without a head of their own: f(x) = w x."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.line, self.outputs = nn.Linear(inputs, 1, bias=False), outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.line(x).expand(-1, self.outputs)


def numbers(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


X = [numbers([1.0, 2.0], [0.5, -1.0], [-2.0, 0.3]), numbers([0.2, 1.0], [1.5, 0.4], [-1.0, 2.0])]
Y = [numbers([1.0], [0.0], [-1.0]), numbers([-1.0], [2.0], [0.5])]


def gradient(w: Tensor, task: int) -> Tensor:
    """Of the mean of (w x - y)^2 over three examples."""
    return sum((w @ x - y) * 2 * x for x, y in zip(X[task], Y[task][:, 0], strict=True)) / 3


@pytest.fixture
def make(problem, monkeypatch):
    monkeypatch.setitem(NETWORKS, "line", lambda config, shape, outputs: Line(shape[0], outputs))

    def new(settings: dict | None = None, **optimizer) -> SynapticIntelligence:
        target, moves = TargetConfig("line"), optimizer or {"name": "sgd", "lr": LR}
        made = problem(n_tasks=2, kind=TaskKind.REGRESSION, outputs=1, shape=(2,), target=target, **moves)
        return SynapticIntelligence(SynapticIntelligence.Config(strength=C, xi=XI, **(settings or {})), made)

    return new


@pytest.fixture
def learn():
    def steps(learner: SynapticIntelligence, task: int) -> None:
        learner.begin_task(task)
        for _ in range(STEPS):
            learner.train_step(Batch(task, X[task], Y[task]))

    return steps


def weight(learner: SynapticIntelligence) -> Tensor:
    return learner.network.line.weight.detach()[0].clone()


def test_the_path_sums_what_each_step_gained(make, learn):
    learner = make()
    w, path = weight(learner), torch.zeros(2)
    for _ in range(STEPS):
        g = gradient(w, 0)
        step = -LR * g
        w, path = w + step, path - g * step
    learn(learner, 0)
    torch.testing.assert_close(weight(learner), w, rtol=1e-12, atol=0)
    torch.testing.assert_close(learner.path, path, rtol=1e-12, atol=0)


def test_the_importance_is_the_path_over_the_squared_way_and_the_path_begins_anew(make, learn):
    learner = make()
    start = weight(learner)
    learn(learner, 0)
    path = learner.path.clone()
    learner.end_task(None)
    torch.testing.assert_close(learner.importance, path / ((weight(learner) - start) ** 2 + XI), rtol=1e-12, atol=0)
    assert learner.importance.all()
    assert not learner.path.any()


def test_under_a_penalty_the_path_has_the_gradient_of_the_task_alone_and_the_step_that_was_taken(make, learn):
    learner = make()
    learn(learner, 0)
    learner.end_task(None)
    omega, anchor = learner.importance.clone(), weight(learner)
    w, path, penalties = anchor, torch.zeros(2), []
    for _ in range(STEPS):
        g, pull = gradient(w, 1), 2 * C * omega * (w - anchor)
        penalties.append(C * float((omega * (w - anchor) ** 2).sum()))
        step = -LR * (g + pull)
        w, path = w + step, path - g * step
    assert penalties[-1] > 0
    learner.begin_task(1)
    terms = [learner.train_step(Batch(1, X[1], Y[1])) for _ in range(STEPS)]
    assert [term["penalty"].item() for term in terms] == pytest.approx(penalties, rel=1e-12)
    torch.testing.assert_close(weight(learner), w, rtol=1e-12, atol=0)
    torch.testing.assert_close(learner.path, path, rtol=1e-12, atol=0)
    learner.end_task(None)
    torch.testing.assert_close(learner.importance, omega + path / ((w - anchor) ** 2 + XI), rtol=1e-12, atol=0)


def test_the_path_may_have_the_gradient_of_the_whole_loss(make, learn):
    learner = make({"gradient": PathGradient.TOTAL})
    learn(learner, 0)
    learner.end_task(None)
    omega, anchor = learner.importance.clone(), weight(learner)
    w, path = anchor, torch.zeros(2)
    for _ in range(STEPS):
        total = gradient(w, 1) + 2 * C * omega * (w - anchor)
        w, path = w - LR * total, path + LR * total**2
    learn(learner, 1)
    torch.testing.assert_close(weight(learner), w, rtol=1e-12, atol=0)
    torch.testing.assert_close(learner.path, path, rtol=1e-12, atol=0)


def test_an_importance_may_be_negative_if_that_is_asked_for(make, learn):
    learner = make({"clamp": False})
    learn(learner, 0)
    learner.importance.copy_(torch.tensor([0.5, 0.5]))
    learner.path.copy_(torch.tensor([-0.01, -100.0]))
    wanted = 0.5 + learner.path / ((weight(learner) - learner.anchor) ** 2 + XI)
    learner.end_task(None)
    torch.testing.assert_close(learner.importance, wanted)
    assert learner.importance[1] < 0


def test_with_adam_the_path_has_the_step_that_adam_took(make):
    learner = make(lr=0.1)
    learner.begin_task(0)
    path = torch.zeros(2)
    for _ in range(STEPS):
        before = weight(learner)
        learner.train_step(Batch(0, X[0], Y[0]))
        path -= gradient(before, 0) * (weight(learner) - before)
    torch.testing.assert_close(learner.path, path, rtol=1e-12, atol=0)


def test_an_importance_is_never_negative(make, learn):
    learner = make()
    learn(learner, 0)
    learner.importance.copy_(torch.tensor([0.5, 0.5]))
    learner.path.copy_(torch.tensor([-0.01, -100.0]))
    gained = learner.path[0] / ((weight(learner) - learner.anchor)[0] ** 2 + XI)
    learner.end_task(None)
    torch.testing.assert_close(learner.importance, torch.stack([0.5 + gained, torch.zeros(())]))
    assert gained < 0


def test_a_larger_xi_makes_weights_seem_less_important(make, learn):
    found = []
    for xi in (0.01, 0.1, 1.0):
        torch.manual_seed(1)
        learner = make()
        learner.config = SynapticIntelligence.Config(xi=xi)
        learn(learner, 0)
        learner.end_task(None)
        found.append(learner.importance)
    assert (found[0] > found[1]).all()
    assert (found[1] > found[2]).all()


def test_a_weight_that_no_loss_reaches_is_not_important(problem, picture_batch, pictures):
    learner = SynapticIntelligence(SynapticIntelligence.Config(), problem(shape=(9,), lr=0.05))
    learner.begin_task(0)
    learner.train_step(picture_batch(0, 0))
    learner.end_task(pictures.tasks[0].train)
    head = learner.importance[-6:]
    assert head[:2].all()
    assert not head[2:].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": -1.0}, "method.strength must be a finite number of at least 0, not -1.0."),
        ({"strength": math.nan}, "method.strength must be a finite number of at least 0, not nan."),
        ({"xi": 0.0}, "method.xi must be a finite number above 0, not 0.0."),
        ({"xi": math.inf}, "method.xi must be a finite number above 0, not inf."),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        SynapticIntelligence.Config(**settings)
