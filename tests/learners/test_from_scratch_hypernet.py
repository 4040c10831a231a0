"""A fresh hypernetwork per task against the hypernetwork that all tasks share, while that learns its first task."""

from __future__ import annotations

import pytest
import tiny
import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.learners.from_scratch_hypernet import FromScratchHypernet
from mnemon.learners.hypernet import Heads, HypernetLearner
from mnemon.models import TargetConfig
from mnemon.problem import Problem

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def learners(problem, normalized_net):
    """Both, with the same initial values for the first task."""

    def make(scenario: Scenario, heads: Heads) -> tuple[FromScratchHypernet, HypernetLearner]:
        changes = {"heads": heads.value, "hypernet.hidden": [5], "hypernet.chunk": 13}
        made = problem(shape=(9,), scenario=scenario, target=TargetConfig("normalized"), lr=0.03)
        alone = FromScratchHypernet(tiny.config_of("from-scratch-hypernet", changes), made)
        shared = HypernetLearner(tiny.config_of("hypernet", changes), made)
        alone.begin_task(0)
        shared.begin_task(0)
        with torch.no_grad():
            network, memory = alone.networks[0], shared.memory
            memory.embeddings[0].copy_(network.embedding)
            for to, given in zip(memory.hypernet.parameters(), network.hypernet.parameters(), strict=True):
                to.copy_(given)
        return alone, shared

    return make


def outputs_of(learner, inputs: Tensor) -> Tensor:
    return learner.predict(inputs, 0)


@pytest.mark.parametrize("heads", Heads)
@pytest.mark.parametrize("scenario", Scenario)
def test_a_task_is_learned_as_the_shared_hypernetwork_learns_its_first(scenario, heads, learners, picture_batch):
    alone, shared = learners(scenario, heads)
    inputs = picture_batch(0, 9).inputs
    before = outputs_of(alone, inputs)
    for step in range(4):
        terms = [learner.train_step(picture_batch(0, step))["task_loss"] for learner in (alone, shared)]
        torch.testing.assert_close(*terms, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(outputs_of(alone, inputs), outputs_of(shared, inputs), rtol=1e-9, atol=1e-11)
    assert not torch.allclose(outputs_of(alone, inputs), before)


def test_every_task_has_a_hypernetwork_of_its_own_which_later_ones_leave_alone(learners, picture_batch, pictures):
    alone, _ = learners(Scenario.CL1, Heads.ALL)
    inputs = picture_batch(0, 0).inputs
    alone.train_step(picture_batch(0, 0))
    alone.end_task(pictures.tasks[0].train)
    before = outputs_of(alone, inputs)
    alone.begin_task(1)
    first, second = (list(network.hypernet.parameters()) for network in alone.networks)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True) if a.any() and b.any())
    alone.train_step(picture_batch(1, 0))
    assert torch.equal(outputs_of(alone, inputs), before)


def test_what_is_kept_of_each_task_are_a_hypernetwork_an_embedding_and_statistics():
    config = resolve(load_preset("cifar-resnet32-from-scratch-hypernet"))
    learner = FromScratchHypernet(
        config.method, Problem(TaskKind.CLASSIFICATION, 6, (3, 32, 32), 10, config.target, config.optimizer)
    )
    counts = learner.counts()
    statistics = 2 * 1136 + 31
    assert (counts.learned, counts.per_task, counts.target) == (0, 457_144 + 32 + statistics, 468_540)
