"""XdG: which units are silent in a task, and that they stay so."""

from __future__ import annotations

import re

import pytest
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import UsageError
from mnemon.learners.xdg import XdG
from mnemon.models import TargetConfig

WIDTHS = (20, 7, 1)


@pytest.fixture
def make(problem):
    """Make a learner of pictures."""

    def new(silent: float = 0.8, target: TargetConfig | None = None) -> XdG:
        target = target or TargetConfig(hidden=WIDTHS)
        return XdG(XdG.Config(silent), problem(shape=(9,), target=target, lr=0.05))

    return new


def begun(learner: XdG, seed: int = 0, n_tasks: int = 3) -> XdG:
    for task in range(n_tasks):
        torch.manual_seed(100 * seed + task)
        learner.begin_task(task)
        learner.end_task(None)
    return learner


@pytest.mark.parametrize(
    ("silent", "speaking"),
    [(0.0, (20, 7, 1)), (0.5, (10, 3, 1)), (0.8, (4, 1, 1)), (0.9, (2, 1, 1)), (0.99, (1, 1, 1))],
)
def test_a_share_of_every_layer_is_silent_and_at_least_one_unit_speaks(silent, speaking, make):
    learner = begun(make(silent))
    for task in range(3):
        gates = learner.gates(task)
        assert set(gates.tolist()) <= {0.0, 1.0}
        assert tuple(int(part.sum()) for part in gates.split(WIDTHS)) == speaking


def test_each_task_has_gates_of_its_own(make):
    learner = begun(make(0.5))
    assert len({tuple(learner.gates(task).tolist()) for task in range(3)}) == 3


def test_gates_are_drawn_from_torchs_generator(make):
    one, again, other = (begun(make(0.5), seed) for seed in (1, 1, 2))
    for task in range(3):
        assert torch.equal(one.gates(task), again.gates(task))
        assert not torch.equal(one.gates(task), other.gates(task))


def test_gates_survive_being_put_away(make):
    learner = begun(make(0.5))
    state = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    torch.manual_seed(999)
    restored = make(0.5)
    restored.restore(state, 3, learning=False)
    for task in range(3):
        assert torch.equal(restored.gates(task), learner.gates(task))
        assert not restored.masks[task].requires_grad


def test_learning_moves_the_weights_and_not_the_gates(make, picture_batch):
    learner = make(0.5, TargetConfig(hidden=WIDTHS, activation="tanh"))
    learner.begin_task(0)
    gates, weight = learner.gates(0).clone(), learner.network.layers[0].weight.detach().clone()
    learner.train_step(picture_batch(0, 0))
    assert torch.equal(learner.gates(0), gates)
    speaks = gates[:20].bool()
    assert torch.equal(learner.network.layers[0].weight[~speaks], weight[~speaks])
    assert not torch.equal(learner.network.layers[0].weight[speaks], weight[speaks])


def test_a_step_says_how_many_are_silent(make, picture_batch):
    learner = make(0.5)
    learner.begin_task(0)
    terms = learner.train_step(picture_batch(0, 0))
    assert list(terms) == ["task_loss", "silent"]
    assert terms["silent"].item() == pytest.approx((10 + 4) / 28)


def test_a_task_is_answered_through_its_own_gates(make, picture_batch):
    learner, inputs = begun(make(0.5)), picture_batch(0, 0).inputs
    with torch.no_grad():
        for task in range(3):
            wanted = learner.chain.run(inputs, learner.gates(task), {})[:, 2 * task : 2 * task + 2]
            assert torch.equal(learner.predict(inputs, task), wanted)


def test_statistics_of_batch_norm_are_kept_per_task(make, picture_batch, normalized_net):
    learner = make(target=TargetConfig("normalized"))
    for task, steps in ((0, 2), (1, 3)):
        learner.begin_task(task)
        for step in range(steps):
            learner.train_step(picture_batch(task, step))
        learner.end_task(None)
    assert [int(learner.buffers_of[task]["norm.num_batches_tracked"]) for task in range(2)] == [2, 3]
    assert learner.network.norm.num_batches_tracked == 0


@pytest.mark.parametrize("scenario", ["cl2", "cl3"])
def test_where_the_task_is_not_told_it_is_refused(scenario, problem):
    message = (
        f"XdG chooses its gates by the task, which is not given in {scenario}: "
        "take training.scenario=cl1, or a method that infers the task."
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        XdG(XdG.Config(), problem(scenario=Scenario(scenario)))


def test_a_network_without_hidden_units_is_refused(make):
    with pytest.raises(UsageError, match=r"^XdG needs hidden units: set target\.hidden\.$"):
        make(target=TargetConfig(hidden=()))


@pytest.mark.parametrize("silent", [1.0, -0.1, float("nan")])
def test_an_impossible_share_is_refused(silent):
    message = f"method.silent must be at least 0 and below 1, not {silent}."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        XdG.Config(silent)
