"""Tasks inferred by likelihood: scores, the vote against every task, and the falling learning rate."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig
from mnemon.inference import likelihood
from mnemon.inference.likelihood import DensityConfig, LikelihoodInference
from mnemon.learners.hypernet_lik import HypernetLIK
from mnemon.memory.config import NewEmbedding, PenaltyForm
from mnemon.problem import Batch

LINEAR = HypernetConfig(form="full", hidden=(), embedding_size=2)
SMALL = HypernetConfig(hidden=(8,), embedding_size=4, chunk=40, chunk_embedding_size=3)


@pytest.fixture
def learn(problem):
    """Learn three tasks whose inputs are bright in different thirds of nine pixels."""

    def make(steps: int = 60, **settings) -> HypernetLIK:
        density = DensityConfig(
            **{
                "encoder": (8,), "decoder": (8,), "latent": 2, "samples": 4, "clip": 50.0, "beta": 1.0,
                "new_embedding": NewEmbedding.APART, "hypernet": LINEAR, **settings,
            }
        )  # fmt: skip
        made = problem(shape=(9,), scenario=Scenario.CL3, lr=0.02)
        learner = HypernetLIK(HypernetLIK.Config(hypernet=SMALL, density=density), made)
        for task in range(3):
            learner.begin_task(task)
            for step in range(steps):
                learner.train_step(batch_of(task, step / steps))
            inputs = batch_of(task, 0.0)
            learner.inference.finish_learning(Examples(inputs.inputs, inputs.targets))
            learner.inference.memory.finish_learning(Examples(inputs.inputs, inputs.targets))
        return learner

    return make


def batch_of(task: int, progress: float) -> Batch:
    """Two classes: the task's third of the pixels is bright on the left or on the right."""
    targets = torch.randint(2, (32,))
    inputs = 0.1 * torch.rand(32, 9)
    inputs[:, 3 * task + 1] = 1
    inputs[torch.arange(32), 3 * task + 2 * targets] = 1
    return Batch(task, inputs, targets, progress=progress)


def no_logits(task_id: int):
    raise AssertionError("likelihood needs no logits")


def test_it_tells_tasks_apart_and_forgets_none(learn):
    inference = learn().inference
    for task in range(3):
        scores = inference.scores(batch_of(task, 0.0).inputs, no_logits)
        assert scores.shape == (32, 3)
        assert (scores.argmax(1) == task).double().mean() > 0.9


def test_what_no_task_has_seen_is_unknown(learn):
    learner = learn()
    strange = torch.tensor([[0.0, 1.0, 0.0] * 3, [1.0] * 9])
    assert learner.unknown(strange).tolist() == [True, True]
    known = [learner.unknown(batch_of(task, 0.0).inputs) for task in range(3)]
    assert torch.cat(known).double().mean() < 0.2  # one in twenty training inputs, and these are new


def test_one_in_twenty_training_examples_is_below_the_floor(learn):
    inference, inputs = learn(steps=3).inference, batch_of(2, 0.0).inputs
    inference.finish_learning(Examples(inputs, torch.zeros(len(inputs), dtype=torch.int64)))
    scores = inference.scores(inputs, no_logits)[:, 2]
    torch.testing.assert_close(inference.floors[2].detach(), scores.quantile(0.05))


def test_no_inputs_have_no_scores(learn):
    assert learn(steps=1).inference.scores(torch.zeros(0, 9), no_logits).shape == (0, 3)


def test_a_score_does_not_depend_on_the_company(learn, monkeypatch):
    inference, inputs = learn(steps=3).inference, batch_of(1, 0.0).inputs
    together = inference.scores(inputs, no_logits)
    torch.testing.assert_close(inference.scores(inputs[5:6], no_logits), together[5:6])
    monkeypatch.setattr(likelihood, "AT_ONCE", 7)
    torch.testing.assert_close(inference.scores(inputs, no_logits), together)


def test_a_task_is_as_likely_as_its_classes_together(learn):
    inference, inputs = learn(steps=3).inference, batch_of(0, 0.0).inputs
    noise = torch.randn(4, 1, 2, generator=torch.Generator().manual_seed(0))
    weights = inference.memory.weights(2)
    hot = torch.eye(2)
    each = [inference.memory.target(weights, inputs, hot[c].expand(32, -1), noise).exp() for c in range(2)]
    wanted = ((each[0] + each[1]) / 2).log()
    torch.testing.assert_close(inference.scores(inputs, no_logits)[:, 2], wanted)


@pytest.mark.parametrize(("anneal", "wanted"), [(True, 0.01), (False, 0.02)])
def test_the_rate_falls_along_a_cosine(anneal, wanted, learn):
    learner = learn(steps=1, anneal=anneal)
    learner.inference.n_begun = 3
    learner.inference.memory.start_learning()
    learner.inference.memory.rebuild()
    learner.inference.train_step(batch_of(2, 0.5))
    for optimizer in learner.inference.memory.optimizers.values():
        assert math.isclose(optimizer.param_groups[0]["lr"], wanted)


def test_a_schedule_of_the_optimizer_goes_before_the_cosine(learn, problem):
    inference = learn(steps=1).inference
    inference._optimizer = replace(problem().optimizer, lr=0.02, warmup=0.5)
    inference.memory.start_learning()
    inference.memory.rebuild()
    for optimizer in inference.memory.optimizers.values():
        optimizer.param_groups[0]["lr"] = 0.007  # as the trainer sets it before a step
    inference.train_step(batch_of(2, 0.5))
    assert {optimizer.param_groups[0]["lr"] for optimizer in inference.memory.optimizers.values()} == {0.007}


def test_inputs_that_are_no_probabilities_are_refused(learn):
    learner = learn(steps=1)
    message = (
        "Images must have values from 0 to 1; these run from 0 to 255: scale them "
        "(in experiments with CIFAR: benchmark.scaling=unit)."
    )
    for ask in (learner.answer, learner.unknown):
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            ask(torch.linspace(0, 255, 18).view(2, 9))


def test_settings_that_make_no_density_are_refused():
    with pytest.raises(UsageError, match=r"density\.samples must be at least 1, not 0\."):
        DensityConfig(samples=0)
    with pytest.raises(UsageError, match=r"density\.decoder must hold widths of at least 1, not \[0\]\."):
        DensityConfig(decoder=(0,))
    with pytest.raises(UsageError, match="weighted is for classifiers only"):
        DensityConfig(penalty=PenaltyForm.WEIGHTED)


def test_in_cl1_there_is_nothing_to_infer(problem):
    with pytest.raises(UsageError, match=r"In cl1 the task is given and there is nothing to infer: .*=hypernet\."):
        HypernetLIK(HypernetLIK.Config(hypernet=SMALL), problem())


def test_more_tasks_than_corners_are_refused(problem):
    config = DensityConfig(encoder=(3,), decoder=(3,), latent=2, new_embedding=NewEmbedding.APART, hypernet=LINEAR)
    message = "density.hypernet.embedding_size must be at least 3 for 4 embeddings with new_embedding=apart, not 2."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        LikelihoodInference(config, 9, 2, problem().optimizer, capacity=4)


def test_corners_with_a_one_are_orthogonal(double):
    from mnemon.hypernet.init import simplex_corner

    corners = torch.stack([torch.cat([simplex_corner(4, i), torch.ones(1)]) for i in range(5)])
    torch.testing.assert_close(corners @ corners.T, 5 * torch.eye(5))
