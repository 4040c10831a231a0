"""The loss of a problem, its heads, its optimizers, and the plain learners' own ways."""

from __future__ import annotations

import re

import pytest
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.hypernet.task_buffers import TaskBuffers
from mnemon.learners.base import Counts
from mnemon.learners.bounds import FinetunedTarget, FromScratch, Joint
from mnemon.optimizer import OPTIMIZERS, OptimizerConfig
from mnemon.problem import Batch

CL1, CL2, CL3 = Scenario


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("smoothing", [0.0, 0.05, 0.3])
def test_smoothed_labels_give_the_true_class_the_rest_and_the_others_even_shares(classes, smoothing, problem, double):
    outputs, targets = torch.randn(20, classes), torch.randint(classes, (20,))
    aim = torch.full((20, classes), smoothing / (classes - 1))
    aim[torch.arange(20), targets] = 1 - smoothing  # 0.95 in the paper
    wanted = -(aim * outputs.log_softmax(1)).sum(1).mean()
    found = problem(label_smoothing=smoothing).loss(outputs, targets)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_regression_takes_the_mean_squared_error(problem):
    outputs, targets = torch.randn(20, 3), torch.randn(20, 3)
    found = problem(kind=TaskKind.REGRESSION).loss(outputs, targets)
    torch.testing.assert_close(found, ((outputs - targets) ** 2).mean())


def test_the_log_likelihood_is_summed_and_knows_no_smoothing(problem, double):
    outputs, targets = torch.randn(20, 3), torch.randint(3, (20,))
    wanted = sum(row.exp()[y].div(row.exp().sum()).log() for row, y in zip(outputs, targets, strict=True))
    found = problem(label_smoothing=0.1).log_likelihood(outputs, targets)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)


def test_the_log_likelihood_of_numbers_is_that_of_a_gaussian_of_unit_variance(problem, double):
    outputs, targets = torch.randn(20, 3), torch.randn(20, 3)
    normal = torch.distributions.Normal(outputs, 1.0)
    wanted = normal.log_prob(targets).sum() - normal.log_prob(outputs).sum()
    found = problem(kind=TaskKind.REGRESSION).log_likelihood(outputs, targets)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("scenario", "columns", "places"),
    [(CL1, [2, 3], [0, 1]), (CL2, [0, 1], [0, 1]), (CL3, [0, 1, 2, 3], [2, 3])],
)
def test_targets_are_places_among_the_competing_outputs(scenario, columns, places, problem):
    made = problem(scenario=scenario)
    outputs = torch.arange(made.outputs.total).expand(2, -1)
    assert made.competing_outputs(outputs, 1, 2).tolist() == [columns, columns]
    assert made.competing_targets(torch.tensor([0, 1]), 1, 2).tolist() == places


def test_numbers_have_no_place_among_outputs(problem):
    targets = torch.randn(4, 1)
    assert problem(kind=TaskKind.REGRESSION, outputs=1).competing_targets(targets, 1, 2) is targets


def test_the_own_outputs_of_a_task_are_its_columns(problem):
    outputs = torch.arange(12).view(2, 6)
    assert problem().own_outputs(outputs, 1).tolist() == [[2, 3], [8, 9]]


def test_compression_counts_all_that_is_kept():
    assert Counts(learned=50, per_task=5, target=200, n_tasks=10).compression == 0.5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_the_settings_it_knows(name):
    config = OptimizerConfig(name=name, lr=0.3, beta1=0.5, beta2=0.6, momentum=0.7, weight_decay=0.1)
    optimizer = config.build([torch.zeros(2, requires_grad=True)])
    (group,) = optimizer.param_groups
    assert type(optimizer) is OPTIMIZERS[name]
    assert (group["lr"], group["weight_decay"]) == (0.3, 0.1)
    assert group.get("betas", (0.5, 0.6)) == (0.5, 0.6)
    assert group.get("momentum", 0.7) == 0.7
    assert "betas" in group or "momentum" in group


def test_the_default_optimizer_is_the_papers_adam():
    (group,) = OptimizerConfig().build([torch.zeros(2, requires_grad=True)]).param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (1e-3, (0.9, 0.999), 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": "adan"},
            "Unknown optimizer 'adan'. Did you mean 'adam'? Choose one of: adam, adamw, sgd, rmsprop.",
        ),
        ({"lr": 0.0}, "optimizer.lr must be a finite number above 0, not 0.0."),
        ({"lr": float("nan")}, "optimizer.lr must be a finite number above 0, not nan."),
        ({"beta1": 1.0}, "optimizer.beta1 must be at least 0 and below 1, not 1.0."),
        ({"momentum": -0.1}, "optimizer.momentum must be at least 0 and below 1, not -0.1."),
        ({"weight_decay": -1.0}, "optimizer.weight_decay must be a finite number of at least 0, not -1.0."),
    ],
)
def test_wrong_settings_of_the_optimizer_are_named(settings, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        OptimizerConfig(**settings)


def test_the_joint_learner_gives_every_task_equal_weight(problem, batch_of):
    learner = Joint(Joint.Config(), problem())
    learner.begin_task(2)
    batch = batch_of(2, 0)
    parts = [batch, *batch.past]
    assert [part.task_id for part in parts] == [2, 0, 1]
    losses = [learner.problem.loss(learner.predict(p.inputs, p.task_id), p.targets) for p in parts]
    torch.testing.assert_close(learner.train_step(batch)["task_loss"], torch.stack(losses).mean())


@pytest.mark.parametrize("fresh", [False, True])
def test_the_joint_learner_begins_each_task_with_a_new_network_if_asked(problem, batch_of, fresh):
    learner = Joint(Joint.Config(fresh=fresh), problem())
    learner.begin_task(0)
    learner.train_step(batch_of(0, 0))
    inputs = batch_of(0, 0).inputs
    before = learner.predict(inputs, 0)
    learner.begin_task(1)
    assert torch.equal(learner.predict(inputs, 0), before) is not fresh
    learned = learner.predict(inputs, 0)
    learner.train_step(batch_of(1, 0))
    assert not torch.equal(learner.predict(inputs, 0), learned)


def test_the_finetuned_target_looks_at_the_present_task_alone(problem, batch_of):
    learner = FinetunedTarget(FinetunedTarget.Config(), problem())
    learner.begin_task(2)
    batch = batch_of(2, 0)
    wanted = learner.problem.loss(learner.predict(batch.inputs, 2), batch.targets)
    torch.testing.assert_close(learner.train_step(batch)["task_loss"], wanted)


def test_a_network_from_scratch_is_not_touched_by_later_tasks(problem, batch_of):
    learner = FromScratch(FromScratch.Config(), problem())
    learner.begin_task(0)
    learner.train_step(batch_of(0, 0))
    inputs = batch_of(0, 0).inputs
    before = learner.predict(inputs, 0)
    learner.begin_task(1)
    learner.train_step(batch_of(1, 0))
    assert torch.equal(learner.predict(inputs, 0), before)


def test_task_buffers_grow_by_a_fresh_set_and_are_registered(normalized_net):
    buffers = TaskBuffers(normalized_net(4, 2))
    for _ in range(2):
        buffers.add(torch.device("cpu"))
    buffers[0]["norm.running_mean"].add_(1)
    assert not buffers[1]["norm.running_mean"].any()
    assert len(buffers.state_dict()) == 2 * 3
    assert buffers.numel_per_task == 8 + 8 + 1
    assert torch.equal(buffers.state_dict()["0/norm/running_mean"], torch.ones(8))


def test_a_batch_has_no_past_unless_it_is_given():
    assert Batch(0, torch.zeros(1, 4), torch.zeros(1)).past == ()
