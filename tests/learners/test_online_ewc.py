"""The penalty of Online EWC against autograd, and its importances against a loop over examples."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples, TaskKind
from mnemon.errors import UsageError
from mnemon.learners.online_ewc import Labels, OnlineEWC
from mnemon.models import TargetConfig

pytestmark = pytest.mark.usefixtures("double")

CL1, CL2, CL3 = Scenario
SGD = {"name": "sgd", "lr": 0.1}


def flat(tensors) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def weights_of(learner: OnlineEWC) -> Tensor:
    return flat(learner.network.parameters())


def fisher_twin(learner: OnlineEWC, inputs: Tensor, log_likelihood) -> Tensor:
    """The mean over examples of the squared gradient, one example after the other."""
    parameters = list(learner.network.eval().parameters())
    total = torch.zeros(learner.size())
    for i, x in enumerate(inputs):
        total += flat(torch.autograd.grad(log_likelihood(learner.network(x[None])[0], i), parameters)).square()
    return total / len(inputs)


@pytest.fixture
def learn(problem, picture_batch, pictures):
    """A learner that has finished some tasks, each after a few steps."""

    def make(n_finished: int, scenario: Scenario = CL1, target: TargetConfig | None = None, **settings) -> OnlineEWC:
        made = problem(shape=(9,), scenario=scenario, target=target, **SGD)
        learner = OnlineEWC(OnlineEWC.Config(**settings), made)
        for task in range(n_finished):
            learner.begin_task(task)
            for step in range(2):
                learner.train_step(picture_batch(task, step))
            learner.end_task(pictures.tasks[task].train)
        return learner

    return make


# The penalty


@pytest.mark.parametrize("scenario", Scenario)
def test_a_step_goes_down_the_task_loss_and_half_lambda_times_the_weighted_drift(scenario, learn, picture_batch):
    learner = learn(1, scenario, strength=3.0)
    learner.begin_task(1)
    learner.train_step(picture_batch(1, 0))  # so that there is a drift
    learner.importance.copy_(torch.rand(learner.size()))
    parameters, batch = list(learner.network.parameters()), picture_batch(1, 1)
    now = torch.cat([p.flatten() for p in parameters])
    penalty = 3.0 / 2 * (learner.importance * (now - learner.anchor).square()).sum()
    loss = learner.problem.loss_among_all(learner.network(batch.inputs), batch.targets, 1, 2)
    wanted = weights_of(learner) - 0.1 * flat(torch.autograd.grad(loss + penalty, parameters))
    terms = learner.train_step(batch)
    torch.testing.assert_close(terms, {"task_loss": loss.detach(), "penalty": penalty.detach()})
    assert terms["penalty"] > 0
    torch.testing.assert_close(weights_of(learner), wanted, rtol=1e-12, atol=1e-14)


def test_the_anchor_is_where_the_task_began(learn, picture_batch):
    learner = learn(1, strength=3.0)
    before = weights_of(learner)
    learner.begin_task(1)
    assert learner.train_step(picture_batch(1, 0))["penalty"] == 0, "nothing has moved yet"
    learner.train_step(picture_batch(1, 1))
    assert torch.equal(learner.anchor, before)


def test_the_first_task_has_no_penalty(learn, picture_batch):
    learner = learn(0)
    learner.begin_task(0)
    assert list(learner.train_step(picture_batch(0, 0))) == ["task_loss"]


# The importances


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0])
def test_importances_are_summed_with_a_decay(gamma, learn, picture_batch, pictures):
    learner = learn(0, labels=Labels.TRUE, gamma=gamma, strength=1.0)
    wanted = torch.zeros(learner.size())
    for task in range(3):
        learner.begin_task(task)
        for step in range(3):
            learner.train_step(picture_batch(task, step))
        inputs, targets = pictures.tasks[task].train.batch(slice(None))

        def log_likelihood(row: Tensor, i: int, task=task, targets=targets) -> Tensor:
            return row[2 * task : 2 * task + 2].log_softmax(0)[targets[i]]

        wanted = gamma * wanted + fisher_twin(learner, inputs, log_likelihood)
        learner.end_task(pictures.tasks[task].train)
        torch.testing.assert_close(learner.importance, wanted, rtol=1e-10, atol=1e-14)
        assert learner.importance.any()


def test_where_all_classes_compete_a_true_label_stands_behind_those_of_earlier_tasks(learn, picture_batch, pictures):
    learner = learn(1, CL3, labels=Labels.TRUE, gamma=0.0)
    learner.begin_task(1)
    learner.train_step(picture_batch(1, 0))
    inputs, targets = pictures.tasks[1].train.batch(slice(None))
    wanted = fisher_twin(learner, inputs, lambda row, i: row[:4].log_softmax(0)[2 + targets[i]])
    learner.end_task(pictures.tasks[1].train)
    torch.testing.assert_close(learner.importance, wanted, rtol=1e-10, atol=1e-14)


def test_predicted_labels_are_the_likeliest_of_the_competing(learn, picture_batch, pictures):
    learner = learn(1, CL3, labels=Labels.PREDICTED, gamma=0.0)
    learner.begin_task(1)
    inputs, _ = pictures.tasks[0].train.batch(slice(None))  # of which the network takes some for the first task
    with torch.no_grad():
        likeliest = learner.network(inputs)[:, :4].argmax(1)
    assert torch.equal(learner._labels(inputs, None), likeliest)
    wanted = fisher_twin(learner, inputs, lambda row, i: row[:4].log_softmax(0)[likeliest[i]])
    learner.end_task(pictures.tasks[0].train)
    torch.testing.assert_close(learner.importance, wanted, rtol=1e-10, atol=1e-14)


HEADS = {CL1: (2, 4), CL2: (0, 2), CL3: (0, 4)}
"""The outputs that compete in the second of three tasks."""


@pytest.mark.parametrize("scenario", Scenario)
def test_sampled_labels_follow_the_softmax_of_the_competing_outputs(scenario, learn):
    learner = learn(1, scenario, labels=Labels.SAMPLED)
    learner.begin_task(1)
    inputs = torch.rand(1, 9)
    with torch.no_grad():  # as if it were sure, and of different things, so that other outputs would show
        list(learner.network.parameters())[-1].copy_(torch.linspace(-1, 1, learner.problem.outputs.total).flip(0))
        wanted = learner.network(inputs)[0, slice(*HEADS[scenario])].softmax(0)
    drawn = learner._labels(inputs.expand(20_000, 9), None)
    found = drawn.bincount().double() / len(drawn)
    assert found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.02)


def test_sampled_labels_are_drawn_anew_for_each_example_and_task(learn, pictures):
    learner = learn(1, CL3)
    learner.begin_task(1)
    inputs = pictures.tasks[1].train.inputs
    one, other = learner._labels(inputs, None), learner._labels(inputs, None)
    assert one.shape == (64,)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("labels", Labels)
def test_where_the_task_is_told_weights_of_other_heads_do_not_matter(labels, learn):
    learner = learn(1, labels=labels)
    parts = dict(zip(dict(learner.network.named_parameters()), learner.importance.split([54, 6, 36, 6]), strict=True))
    assert parts["layers.1.weight"].view(6, 6)[:2].any()
    assert not parts["layers.1.weight"].view(6, 6)[2:].any()
    assert parts["layers.1.bias"][:2].all()
    assert not parts["layers.1.bias"][2:].any()
    assert parts["layers.0.weight"].any()


def test_importances_are_taken_on_as_many_examples_as_asked_for(learn, picture_batch, pictures, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "mnemon.learners.online_ewc.fisher_of_network",
        lambda network, log_likelihood, inputs, targets: seen.append(inputs) or torch.zeros(102),
    )
    for fisher_examples, n in ((5, 5), (64, 64), (1000, 64), (None, 64)):
        learn(1, fisher_examples=fisher_examples)
        assert len(seen[-1]) == n
        assert len({tuple(row) for row in seen[-1].tolist()}) == n, "none of them twice"
    learn(2, fisher_examples=5)
    assert not torch.equal(seen[-1], seen[0]), "any of them, not the first"


def test_the_network_is_taken_as_it_answers_and_left_as_it_was(learn, normalized_net, pictures):
    learner = learn(1, labels=Labels.SAMPLED, target=TargetConfig("normalized"))
    learner.begin_task(1)
    before = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
    learner.end_task(pictures.tasks[1].train)
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.network.state_dict().items())


# Regression


@pytest.fixture
def numbers() -> Examples:
    return Examples(torch.randn(30, 4), torch.randn(30, 1))


def test_for_regression_the_true_numbers_are_told(problem, numbers):
    learner = OnlineEWC(OnlineEWC.Config(labels=Labels.TRUE), problem(kind=TaskKind.REGRESSION, outputs=1))
    learner.begin_task(0)
    wanted = fisher_twin(learner, numbers.inputs, lambda row, i: -0.5 * (row[0] - numbers.targets[i, 0]).square())
    learner.end_task(numbers)
    torch.testing.assert_close(learner.importance, wanted, rtol=1e-10, atol=1e-14)


def test_for_regression_numbers_are_drawn_around_the_answers(problem):
    learner = OnlineEWC(OnlineEWC.Config(), problem(kind=TaskKind.REGRESSION, outputs=1))
    learner.begin_task(0)
    learner.end_task(Examples(torch.randn(2, 4), torch.randn(2, 1)))
    learner.begin_task(1)
    inputs = torch.randn(5000, 4)
    with torch.no_grad():
        noise = learner._labels(inputs, None) - learner.network(inputs)[:, 1:2]
    assert abs(noise.mean()) < 0.05
    assert abs(noise.std() - 1) < 0.05


def test_for_regression_the_likeliest_answers_are_refused(problem):
    message = "In a regression the most likely answer has no gradient: set method.labels to true or sampled."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        OnlineEWC(OnlineEWC.Config(labels=Labels.PREDICTED), problem(kind=TaskKind.REGRESSION, outputs=1))


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": -1.0}, "method.strength must be a finite number of at least 0, not -1.0."),
        ({"strength": math.inf}, "method.strength must be a finite number of at least 0, not inf."),
        ({"strength": math.nan}, "method.strength must be a finite number of at least 0, not nan."),
        ({"gamma": 1.5}, "method.gamma must lie between 0 and 1, not 1.5."),
        ({"gamma": -0.1}, "method.gamma must lie between 0 and 1, not -0.1."),
        ({"fisher_examples": 0}, "method.fisher_examples must be at least 1, not 0."),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        OnlineEWC.Config(**settings)
