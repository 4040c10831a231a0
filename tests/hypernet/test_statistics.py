"""Batch norm in four ways: statistics kept for each task, one set for all, those of the batch, or generated ones."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig
from mnemon.hypernet.statistics import REACH, Statistics
from mnemon.hypernet.target import Target
from mnemon.learners.hypernet import HypernetLearner
from mnemon.memory.config import MemoryConfig, PenaltyForm
from mnemon.memory.networks import NetworkMemory
from mnemon.models import TargetConfig
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import Batch


class Convolutional(nn.Module):
    """One convolution with batch norm, and a head."""

    def __init__(self, outputs: int = 2):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(3, outputs)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))


@pytest.fixture
def make(problem, normalized_net):
    def make(statistics: Statistics, **settings) -> HypernetLearner:
        hypernet = HypernetConfig(hidden=(8,), chunk=19, embedding_size=4, chunk_embedding_size=3)
        config = HypernetLearner.Config(beta=0.5, hypernet=hypernet, statistics=statistics, **settings)
        return HypernetLearner(config, problem(target=TargetConfig("normalized"), lr=0.03))

    return make


def learn(learner: HypernetLearner, blobs, task: int, steps: int) -> dict[str, float]:
    learner.begin_task(task)
    for step in range(steps):
        index = (torch.arange(16) * 5 + 7 * step) % 64
        terms = learner.train_step(Batch(task, *blobs.tasks[task].train.batch(index)))
    learner.end_task(blobs.tasks[task].train)
    return {name: float(value) for name, value in terms.items()}


def test_statistics_of_the_batch_are_those_that_torch_takes_in_training():
    module, images = Convolutional(), torch.rand(5, 1, 6, 6)
    wanted = module.train()(images)
    target = Target(module, statistics=Statistics.BATCH).eval()
    assert not target.fresh_buffers()
    torch.testing.assert_close(target(target.own_weights(), images), wanted)


def test_generated_statistics_are_used_when_asked_and_not_in_training():
    module, images = Convolutional(), torch.rand(5, 1, 6, 6)
    own = [parameter.detach().clone() for parameter in module.parameters()]
    target = Target(module, statistics=Statistics.GENERATED)
    assert (target.n_weights, target.size) == (sum(p.numel() for p in own), sum(p.numel() for p in own) + 6)
    mean, variance = torch.tensor([0.1, -0.2, 0.3]), torch.tensor([0.5, 2.0, 1.5])
    weights = torch.cat([*(p.flatten() for p in own), mean, variance.log()])
    plain = Convolutional()
    for parameter, value in zip(plain.parameters(), own, strict=True):
        parameter.data.copy_(value)
    plain.norm.running_mean.copy_(mean)
    plain.norm.running_var.copy_(variance)
    torch.testing.assert_close(target.eval()(weights, images), plain.eval()(images))
    buffers = target.fresh_buffers()
    torch.testing.assert_close(target.train()(weights, images, buffers=buffers), plain.train()(images))
    assert buffers["norm.running_mean"].any(), "what is measured goes on being measured"


def test_the_distance_is_0_where_the_statistics_are_those_measured():
    statistics = Target(Convolutional(), statistics=Statistics.GENERATED).statistics
    measured = {
        "norm.running_mean": torch.tensor([0.1, -0.2, 0.3]),
        "norm.running_var": torch.tensor([0.5, 2.0, 1.5]),
    }
    flat = torch.cat([measured["norm.running_mean"], measured["norm.running_var"].log()])
    assert float(statistics.distance(flat, measured)) < 1e-12
    flat[0] += 0.1
    flat[5] += 0.2
    assert float(statistics.distance(flat, measured)) == pytest.approx((0.1**2 / 0.5 + 0.2**2) / 3)


def test_deviations_of_means_count_in_standard_deviations_of_their_layer():
    statistics = Target(Convolutional(), statistics=Statistics.GENERATED).statistics
    centre = torch.cat([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 4.0, 7.0]).log()])
    assert torch.equal(statistics.around(centre, torch.zeros(6)), centre)
    moved = statistics.around(centre, torch.full((6,), 0.5 / REACH)) - centre
    torch.testing.assert_close(moved, torch.tensor([1.0, 1.0, 1.0, 0.5, 0.5, 0.5]))  # the mean variance is 4


def test_an_idle_channel_has_a_share_of_the_variance_of_its_layer():
    statistics = Target(Convolutional(), statistics=Statistics.GENERATED).statistics
    flat = statistics.flat({"norm.running_mean": torch.zeros(3), "norm.running_var": torch.tensor([0.0, 1.0, 5.0])})
    torch.testing.assert_close(flat[3:].exp(), torch.tensor([0.02, 1.0, 5.0]))
    idle = statistics.flat({"norm.running_mean": torch.zeros(3), "norm.running_var": torch.zeros(3)})
    torch.testing.assert_close(idle[3:].exp(), torch.full((3,), 1e-5))


def test_only_the_first_task_moves_the_centre_of_generated_statistics(make, blobs):
    learner = make(Statistics.GENERATED)
    learn(learner, blobs, 0, 5)
    centre = learner.memory.first_statistics.clone()
    torch.testing.assert_close(centre, learner.memory.target.statistics.flat(learner.memory.measured[0]))
    learn(learner, blobs, 1, 5)
    assert torch.equal(learner.memory.first_statistics, centre)


def test_generated_statistics_follow_those_measured_and_stay_when_more_tasks_come(make, blobs):
    learner = make(Statistics.GENERATED)
    memory = learner.memory
    first = learn(make(Statistics.GENERATED), blobs, 0, 1)["statistics"]
    assert learn(learner, blobs, 0, 400)["statistics"] < 0.01 * first

    def generated() -> torch.Tensor:
        return memory.weights(0)[memory.target.n_weights :].detach()

    before = generated()
    learn(learner, blobs, 1, 400)
    assert (generated() - before).abs().max() < 0.2
    inputs, targets = blobs.tasks[0].test.batch(slice(None))
    assert (learner.predict(inputs, 0).argmax(1) == targets).double().mean() > 0.9


@pytest.mark.parametrize(
    ("statistics", "numbers", "n_bytes"),
    [
        (Statistics.PER_TASK, 4 + 17, 4 * 4 + 2 * 8 * 4 + 8),
        (Statistics.BATCH, 4, 16),
        (Statistics.GENERATED, 4, 16),
    ],
)
def test_only_kept_statistics_are_counted(make, blobs, statistics, numbers, n_bytes):
    counts = make(statistics).counts()
    assert (counts.per_task, counts.bytes_per_task) == (numbers, n_bytes)
    assert counts.target == 4 * 8 + 8 + 16 + 8 * 6 + 6


def test_a_task_s_kept_statistics_do_not_move_when_others_are_learned(make, blobs):
    learner = make(Statistics.PER_TASK)
    learn(learner, blobs, 0, 10)
    before = {name: buffer.clone() for name, buffer in learner.memory.buffers_of[0].items()}
    learn(learner, blobs, 1, 10)
    assert all(torch.equal(before[name], buffer) for name, buffer in learner.memory.buffers_of[0].items())
    fresh = dict(Target(learner.problem.network(6)).module.named_buffers())
    assert not torch.equal(before["norm.running_mean"], fresh["norm.running_mean"])


def test_generated_statistics_have_no_importance():
    message = (
        "method.penalty=weighted has no importance for generated statistics: use method.statistics=per-task, "
        "or another penalty."
    )
    config = MemoryConfig(penalty=PenaltyForm.WEIGHTED, hypernet=HypernetConfig(chunk=19))
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        NetworkMemory(Convolutional(), config, OptimizerConfig(), statistics=Statistics.GENERATED)


def test_shared_statistics_go_on_from_task_to_task_and_are_those_of_all_tasks(make, blobs):
    learner = make(Statistics.SHARED)
    learn(learner, blobs, 0, 5)
    buffers = learner.memory.buffers_of
    after = {name: value.clone() for name, value in buffers[0].items()}
    learner.begin_task(1)
    assert all(torch.equal(buffers[1][name], value) for name, value in after.items()), "no fresh start"
    learner.train_step(Batch(1, *blobs.tasks[1].train.batch(slice(16))))
    assert buffers[1]["norm.num_batches_tracked"] == 6
    for name, value in buffers[0].items():
        assert value is buffers[1][name]
        assert not torch.equal(value, after[name]), name


def test_shared_statistics_are_kept_once(make):
    shared, each = (make(statistics).counts() for statistics in (Statistics.SHARED, Statistics.PER_TASK))
    size = 8 + 8 + 1
    assert (shared.learned - each.learned, each.per_task - shared.per_task) == (size, size)
    assert each.bytes_per_task - shared.bytes_per_task == 8 * 4 + 8 * 4 + 8
