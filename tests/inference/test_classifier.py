"""The task classifier: a softmax that grows, half real and half replayed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
import tiny
import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import UsageError
from mnemon.inference.classifier import TaskClassifier
from mnemon.problem import Batch, Terms
from mnemon.replay.source import AbstractReplay, Replayed, spread

pytestmark = pytest.mark.usefixtures("double")


class Fixed(AbstractReplay):
    """Draws the same inputs again and again."""

    n_ready = 3

    def __init__(self, inputs: Tensor):
        super().__init__()
        self.inputs, self.asked = inputs, []

    def train_step(self, batch: Batch) -> Terms:
        return {"learned": torch.tensor(float(batch.task_id))}

    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        self.asked.append((n, list(tasks)))
        names = torch.cat([torch.full((count,), task) for task, count in spread(n, tasks)])
        return Replayed(self.inputs[:n], names)


@pytest.fixture
def classifier(problem):
    """A classifier of four tasks that are told apart by pictures, while the third of them is learned."""

    def make(n_begun: int = 3, **optimizer) -> TaskClassifier:
        made = problem(n_tasks=4, shape=(9,), scenario=Scenario.CL3, **optimizer)
        classifier = TaskClassifier(made, Fixed(torch.rand(16, 9)))
        classifier.n_begun = n_begun
        classifier.start_learning()
        return classifier

    return make


def cross_entropy_twin(logits: Tensor, targets: Sequence[int]) -> float:
    """Mean over the batch, by hand."""
    each = [math.log(sum(map(math.exp, row))) - row[t] for row, t in zip(logits.tolist(), targets, strict=True)]
    return sum(each) / len(each)


def test_the_loss_is_half_real_and_half_replayed(classifier, picture_batch):
    inference, batch = classifier(), picture_batch(2, 0)
    with torch.no_grad():
        real, fake = (inference.network(x)[:, :3] for x in (batch.inputs, inference.replay.inputs))
    terms = inference.train_step(batch)
    wanted = (cross_entropy_twin(real, [2] * 16) + cross_entropy_twin(fake, [0] * 8 + [1] * 8)) / 2
    assert terms["inference_loss"].item() == pytest.approx(wanted, rel=1e-10)
    assert inference.replay.asked == [(16, [0, 1])]
    assert terms["learned"] == 2, "the replay model learns beside"


def test_a_step_goes_down_that_loss(classifier, picture_batch):
    inference, batch = classifier(name="sgd", lr=0.1), picture_batch(2, 0)
    parameters = list(inference.network.parameters())
    real, fake = (inference.network(x)[:, :3].log_softmax(1) for x in (batch.inputs, inference.replay.inputs))
    loss = -(real[:, 2].mean() + (fake[:8, 0].sum() + fake[8:, 1].sum()) / 16) / 2
    gradients = torch.autograd.grad(loss, parameters)
    wanted = [p.detach() - 0.1 * g for p, g in zip(parameters, gradients, strict=True)]
    inference.train_step(batch)
    for parameter, value in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


def test_outputs_of_tasks_to_come_get_no_gradient(classifier, picture_batch):
    inference = classifier(n_begun=2)
    last = list(inference.network.parameters())[-2:]
    before = [p.detach().clone() for p in last]
    for step in range(3):
        inference.train_step(picture_batch(1, step))
    for parameter, value in zip(last, before, strict=True):
        assert torch.equal(parameter[2:], value[2:])
        assert not torch.equal(parameter[:2], value[:2])


def test_with_one_task_there_is_nothing_to_tell_apart(classifier, picture_batch):
    inference = classifier(n_begun=1)
    before = [p.detach().clone() for p in inference.network.parameters()]
    assert list(inference.train_step(picture_batch(0, 0))) == ["learned"]
    assert inference.replay.asked == []
    assert all(torch.equal(p, b) for p, b in zip(inference.network.parameters(), before, strict=True))


def test_scores_are_log_probabilities_of_the_tasks_begun(classifier):
    inference, inputs = classifier(n_begun=3), torch.rand(5, 9)
    scores = inference.scores(inputs, None)
    assert scores.shape == (5, 3)
    assert not scores.requires_grad
    torch.testing.assert_close(scores.exp().sum(1), torch.ones(5))
    torch.testing.assert_close(scores, inference.network(inputs)[:, :3].detach().log_softmax(1))


@pytest.mark.parametrize("model", ["plain-vae", "present"])
def test_a_replay_model_that_cannot_name_the_tasks_is_refused(model):
    message = (
        f"Replay by {model} does not know the task of a sample, and cannot train a task classifier: "
        "set method.replay.model to vae, gan or real."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        tiny.config_of("hypernet-tir", {"replay.model": model})
