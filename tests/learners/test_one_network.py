"""One network for all tasks: its optimizer goes on from task to task, or each task starts with a new one."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from mnemon.errors import UsageError
from mnemon.learners.bounds import FinetunedTarget, Joint
from mnemon.learners.hat import HAT

pytestmark = pytest.mark.usefixtures("double")

STEPS = 3


@pytest.fixture
def learn(picture_batch, pictures):
    """Let a learner learn two tasks; return its weights."""

    def go(learner) -> Tensor:
        for task in range(2):
            learner.begin_task(task)
            for step in range(STEPS):
                learner.train_step(picture_batch(task, step))
            learner.end_task(pictures.tasks[task].train)
        return weights_of(learner)

    return go


def weights_of(learner) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])


@pytest.mark.parametrize("keep", [True, False])
def test_an_optimizer_that_goes_on_is_one_adam_over_all_steps(keep, learn, problem, picture_batch):
    torch.manual_seed(1)
    learner = FinetunedTarget(FinetunedTarget.Config(keep_optimizer=keep), problem(shape=(9,), lr=0.05))
    torch.manual_seed(1)
    twin = FinetunedTarget(FinetunedTarget.Config(), problem(shape=(9,), lr=0.05))
    adam = torch.optim.Adam(twin.network.parameters(), lr=0.05)
    for task in range(2):
        if not keep:
            adam = torch.optim.Adam(twin.network.parameters(), lr=0.05)
        for step in range(STEPS):
            batch = picture_batch(task, step)
            adam.zero_grad()
            twin.problem.loss_among_all(twin.network(batch.inputs), batch.targets, task, task + 1).backward()
            adam.step()
    torch.testing.assert_close(learn(learner), weights_of(twin), rtol=1e-10, atol=1e-12)


def test_what_goes_on_is_the_network_s_optimizer_alone(learn, problem):
    learner = HAT(HAT.Config(keep_optimizer=True), problem(shape=(9,), lr=0.05))
    learn(learner)
    assert list(learner.optimizers) == ["target"]
    kept = learner.optimizers["target"]
    learner.begin_task(2)
    assert learner.optimizers["target"] is kept
    assert list(learner.optimizers) == ["target", "embedding"]
    learner.end_task(None)
    assert learner.optimizers == {}, "nothing comes after the last task"


def test_a_new_network_cannot_have_the_optimizer_of_the_one_before():
    message = "A new network needs a new optimizer: leave out method.keep_optimizer, or fresh."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        Joint.Config(fresh=True, keep_optimizer=True)
