"""The loss on replayed inputs against a slow twin: soft targets of the network as it was before the task."""

from __future__ import annotations

import math
import re

import pytest
import tiny
import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.learners.replay import ReplayLearner, Shares
from mnemon.replay.source import Replayed

pytestmark = pytest.mark.usefixtures("double")

CL1, CL2, CL3 = Scenario
N_TASKS = 4
"""One more than is learned, so that there are outputs that nobody has asked for yet."""


@pytest.fixture
def learn(problem, picture_batch, pictures):
    """A learner in the middle of the third of four tasks, on real data of the earlier ones."""

    def make(scenario: Scenario, optimizer: dict | None = None, **changes) -> ReplayLearner:
        made = problem(n_tasks=N_TASKS, shape=(9,), scenario=scenario, **(optimizer or {"lr": 0.05}))
        learner = ReplayLearner(tiny.config_of("replay", {"replay.model": "real", **changes}), made)
        for task in range(3):
            learner.begin_task(task)
            for step in range(2):
                learner.train_step(picture_batch(task, step))
            if task < 2:
                learner.end_task(pictures.tasks[task].train)
        return learner

    return make


def softmax(row: list[float], among: list[int], t: float) -> dict[int, float]:
    total = sum(math.exp(row[output_index] / t) for output_index in among)
    return {output_index: math.exp(row[output_index] / t) / total for output_index in among}


def distillation(new: list[float], old: list[float], among: list[int], known: list[int], t: float = 2.0) -> float:
    """For one input: t^2 times the cross entropy; outputs among the new ones that were not known should have 0."""
    aim, found = softmax(old, known, t), softmax(new, among, t)
    return -(t**2) * sum(aim.get(output_index, 0.0) * math.log(found[output_index]) for output_index in among)


def twin(scenario: Scenario, new: Tensor, old: Tensor, tasks: list[int] | None, t: float = 2.0) -> float:
    """The mean over replayed inputs while the third task is learned."""
    each = []
    for i, (a, b) in enumerate(zip(new.tolist(), old.tolist(), strict=True)):
        if scenario is CL2:
            each.append(distillation(a, b, [0, 1], [0, 1], t))
        elif scenario is CL3:
            each.append(distillation(a, b, [0, 1, 2, 3, 4, 5], [0, 1, 2, 3], t))
        else:
            heads = [0, 1] if tasks is None else [tasks[i]]
            losses = [distillation(a, b, [2 * h, 2 * h + 1], [2 * h, 2 * h + 1], t) for h in heads]
            each.append(sum(losses) / len(losses))
    return sum(each) / len(each)


@pytest.mark.parametrize("temperature", [2.0, 1.0, 3.5])
@pytest.mark.parametrize("scenario", Scenario)
def test_the_loss_on_replayed_inputs_equals_a_slow_twin(scenario, temperature, learn, picture_batch):
    learner = learn(scenario, temperature=temperature)
    batch = picture_batch(2, 2)
    replayed = torch.cat([past.inputs[:8] for past in batch.past])
    with torch.no_grad():
        new, old = learner.network(replayed), learner.before(replayed)
    assert not torch.allclose(new, old)
    wanted = twin(scenario, new, old, [0] * 8 + [1] * 8, temperature)
    assert learner.train_step(batch)["replay_loss"].item() == pytest.approx(wanted, rel=1e-10)


def test_new_outputs_may_be_held_where_a_logit_of_0_would_have_them(learn, picture_batch):
    learner = learn(CL3, new_outputs="zero")
    batch = picture_batch(2, 2)
    replayed = torch.cat([past.inputs[:8] for past in batch.past])
    with torch.no_grad():
        new, old = learner.network(replayed), learner.before(replayed)
    old[:, 4:] = 0.0
    seen = list(range(6))
    each = [distillation(a, b, seen, seen) for a, b in zip(new.tolist(), old.tolist(), strict=True)]
    assert learner.train_step(batch)["replay_loss"].item() == pytest.approx(sum(each) / len(each), rel=1e-10)


@pytest.mark.parametrize("scenario", [CL1, CL2])
def test_where_no_outputs_are_new_nothing_is_asked_of_them(scenario, learn):
    learner = learn(scenario, new_outputs="zero")
    new, old = torch.randn(2, 4, learner.problem.outputs.total)
    tasks = [0, 1, 1, 0]
    loss = learner._replay_loss(new, old, torch.tensor(tasks)).item()
    assert loss == pytest.approx(twin(scenario, new, old, tasks), rel=1e-10)


def test_the_paper_takes_a_temperature_of_2_and_halves():
    config = ReplayLearner.Config()
    assert (config.temperature, config.shares) == (2.0, Shares.HALF)


@pytest.mark.parametrize("scenario", Scenario)
def test_inputs_of_no_known_task_hold_all_earlier_heads(scenario, learn, picture_batch, monkeypatch):
    learner = learn(scenario)
    inputs = torch.rand(16, 9)
    monkeypatch.setattr(learner.replay, "draw", lambda n, tasks: Replayed(inputs[:n], None))
    with torch.no_grad():
        wanted = twin(scenario, learner.network(inputs), learner.before(inputs), None)
    assert learner.train_step(picture_batch(2, 2))["replay_loss"].item() == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("scenario", Scenario)
def test_the_loss_is_least_where_nothing_has_changed(scenario, learn):
    learner = learn(scenario)
    wanted = torch.randn(6, learner.problem.outputs.total)
    outputs = wanted.clone()
    if scenario is CL3:
        outputs[:, 4:] = -1e3  # the new outputs should have no share of earlier inputs
    outputs.requires_grad_()
    loss = learner._replay_loss(outputs, wanted, torch.tensor([0, 1] * 3))
    loss.backward()
    assert outputs.grad.abs().max() < 1e-12
    assert loss.item() > 0, "a cross entropy, not a divergence"


SEEN = {CL1: {0, 1, 2, 3}, CL2: {0, 1}, CL3: {0, 1, 2, 3, 4, 5}}


@pytest.mark.parametrize("scenario", Scenario)
def test_only_outputs_seen_so_far_are_moved_by_replay(scenario, learn):
    learner = learn(scenario)
    shape = (6, learner.problem.outputs.total)
    outputs = torch.randn(shape, requires_grad=True)
    learner._replay_loss(outputs, torch.randn(shape), torch.tensor([0, 1] * 3)).backward()
    assert {output_index for output_index in range(shape[1]) if outputs.grad[:, output_index].any()} == SEEN[scenario]


def test_where_the_task_is_told_a_replayed_input_moves_its_own_head_alone(learn):
    learner = learn(CL1)
    outputs = torch.randn(4, 8, requires_grad=True)
    learner._replay_loss(outputs, torch.randn(4, 8), torch.tensor([1, 0, 1, 1])).backward()
    moved = [sorted({output_index // 2 for output_index in range(8) if row[output_index]}) for row in outputs.grad]
    assert moved == [[1], [0], [1], [1]]


@pytest.mark.parametrize(("shares", "share"), [("half", 1 / 2), ("even", 1 / 3)])
@pytest.mark.parametrize("scenario", Scenario)
def test_a_step_goes_down_the_shares_of_both_losses(scenario, shares, share, learn, picture_batch):
    learner = learn(scenario, {"name": "sgd", "lr": 0.1}, shares=shares)
    batch = picture_batch(2, 2)
    replayed = torch.cat([past.inputs[:8] for past in batch.past])
    parameters = list(learner.network.parameters())
    real = learner.problem.loss_among_all(learner.network(batch.inputs), batch.targets, 2, 3)
    tasks = torch.tensor([0] * 8 + [1] * 8)
    old = learner._replay_loss(learner.network(replayed), learner.before(replayed), tasks)
    gradients = torch.autograd.grad(share * real + (1 - share) * old, parameters)
    wanted = [p.detach() - 0.1 * g for p, g in zip(parameters, gradients, strict=True)]
    terms = learner.train_step(batch)
    torch.testing.assert_close(terms, {"task_loss": real.detach(), "replay_loss": old.detach()})
    for parameter, value in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


@pytest.mark.parametrize("scenario", Scenario)
def test_with_present_inputs_the_earlier_answers_to_them_are_kept(scenario, learn, picture_batch):
    learner = learn(scenario, **{"replay.model": "present"})
    batch = picture_batch(2, 2)
    assert not learner.sees_past
    with torch.no_grad():
        wanted = twin(scenario, learner.network(batch.inputs), learner.before(batch.inputs), None)
    assert learner.train_step(batch)["replay_loss"].item() == pytest.approx(wanted, rel=1e-10)


def test_the_first_task_is_learned_from_real_data_alone(problem, picture_batch):
    learner = ReplayLearner(tiny.config_of("replay"), problem(shape=(9,), scenario=CL3))
    learner.begin_task(0)
    batch = picture_batch(0, 0)
    wanted = learner.problem.loss(learner.network(batch.inputs)[:, :2], batch.targets)
    terms = learner.train_step(batch)
    assert "replay_loss" not in terms
    torch.testing.assert_close(terms["task_loss"], wanted.detach())


def test_soft_targets_are_those_of_the_network_before_the_task(learn, picture_batch, pictures):
    learner = learn(CL3)
    learner.end_task(pictures.tasks[2].train)
    assert learner.before is None
    learner.begin_task(3)
    then = [p.detach().clone() for p in learner.network.parameters()]
    batch = picture_batch(2, 0)
    learner.replay.train_step(batch)
    with torch.no_grad():
        for parameter in learner.network.parameters():
            parameter += 1
    assert all(torch.equal(a, b) for a, b in zip(learner.before.parameters(), then, strict=True))
    assert not learner.before.training, "batch norm and dropout would answer otherwise"


def test_regression_is_refused(problem):
    message = "Replay with soft targets is for classification: use method.name=hypernet for regression."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        ReplayLearner(tiny.config_of("replay"), problem(kind=TaskKind.REGRESSION))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_temperature_is_refused(temperature):
    message = f"method.temperature must be a finite number above 0, not {temperature}."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        ReplayLearner.Config(temperature=temperature)
