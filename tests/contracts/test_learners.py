"""What holds for every learner in the registry, and for the variants of the hypernetwork learner."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mnemon import config as settings
from mnemon.errors import CheckpointError
from mnemon.hypernet import HypernetConfig
from mnemon.learners import LEARNERS
from mnemon.learners.base import AbstractLearner, Counts
from mnemon.learners.hypernet import Heads, HypernetLearner
from mnemon.models import TargetConfig
from mnemon.regularizers.lookahead import LookaheadMode
from mnemon.regularizers.protected import NewEmbedding, OldEmbeddings, PenaltyForm, Sample

SMALL = HypernetConfig(hidden=(8,), embedding_size=4, chunk=19, chunk_embedding_size=3)
FULL = HypernetConfig(form="full", hidden=(8,), embedding_size=4)

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"penalty": PenaltyForm.PLAIN},
    "full": {"hypernet": FULL},
    "own heads": {"heads": Heads.OWN},
    "own heads penalised": {"penalized_heads": Heads.OWN},
    "weighted": {"penalty": PenaltyForm.WEIGHTED, "beta": 10.0},
    "sampled tasks": {"sample": Sample.TASKS, "sample_size": 1},
    "sampled rows": {"sample": Sample.ROWS, "sample_size": 3},
    "plastic": {"old_embeddings": OldEmbeddings.PLASTIC},
    "from previous": {"new_embedding": NewEmbedding.PREVIOUS},
    "lookahead off": {"lookahead": LookaheadMode.OFF},
    "differentiated": {"lookahead": LookaheadMode.DIFFERENTIATED},
    "batch norm": {},
    "batch norm, weighted": {"penalty": PenaltyForm.WEIGHTED, "beta": 10.0},
}
OPTIMIZED: dict[str, dict[str, Any]] = {
    "adamw": {"name": "adamw", "weight_decay": 0.1},
    "sgd": {"name": "sgd", "lr": 0.1},
    "momentum": {"name": "sgd", "lr": 0.05, "momentum": 0.5},
    "rmsprop": {"name": "rmsprop", "lr": 0.005, "momentum": 0.5},
}
NAMES = [*LEARNERS, *(f"hypernet, {name}" for name in [*VARIANTS, *OPTIMIZED])]

Make = Callable[[], AbstractLearner]


@pytest.fixture(params=NAMES)
def make(request, problem, normalized_net) -> Make:
    """Make new learners of one kind, each from other random numbers."""
    name, _, variant = request.param.partition(", ")
    network = "normalized" if "batch norm" in variant else "mlp"
    optimizer = {"lr": 0.03, **OPTIMIZED.get(variant, {})}
    own = {"hypernet": SMALL} if issubclass(LEARNERS[name], HypernetLearner) else {}
    if name == "hypernet":
        own = {"beta": 0.1, **own, **VARIANTS.get(variant, {})}

    def build() -> AbstractLearner:
        learner = LEARNERS[name]
        return learner(learner.Config(**own), problem(target=TargetConfig(network, hidden=(6,)), **optimizer))

    return build


@pytest.fixture
def train(batch_of, blobs):
    """Let a learner learn from one moment to another; a moment is (task, step), with (t, 0) before task t begins."""

    def go(
        learner: AbstractLearner, start: tuple[int, int], stop: tuple[int, int], steps: int = 6
    ) -> AbstractLearner:
        task, step = start
        while (task, step) != stop:
            if step == 0:
                torch.manual_seed(1000 * task)
                learner.begin_task(task)
            torch.manual_seed(1000 * task + step + 1)
            terms = learner.train_step(batch_of(task, step))
            assert all(value.isfinite() for value in terms.values())
            assert "task_loss" in terms
            step += 1
            if step == steps:
                torch.manual_seed(1000 * task + 999)
                learner.end_task(blobs.tasks[task].train)
                task, step = task + 1, 0
        return learner

    return go


def put_away(learner: AbstractLearner) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in learner.tensors().items()}


def accuracy(learner: AbstractLearner, blobs, task: int) -> float:
    inputs, targets = blobs.tasks[task].test.batch(slice(None))
    return float((learner.predict(inputs, task).argmax(1) == targets).double().mean())


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_there_are_five_learners():
    assert list(LEARNERS) == ["hypernet", "finetuned-target", "from-scratch", "joint"]


def test_it_learns_two_tasks_one_after_the_other(make, train, blobs, request):
    learner = train(make(), (0, 0), (1, 0), steps=30)
    assert accuracy(learner, blobs, 0) > 0.75
    train(learner, (1, 0), (2, 0), steps=30)
    assert accuracy(learner, blobs, 1) > 0.75
    if "finetuned" not in request.node.callspec.params["make"]:
        assert accuracy(learner, blobs, 0) > 0.75, "it has forgotten the first task"


@pytest.mark.parametrize("moment", [(0, 2), (1, 0), (1, 2), (2, 1)])
def test_resuming_changes_nothing(moment, make, train, batch_of):
    whole = train(make(), (0, 0), moment)
    state = put_away(whole)
    resumed = make()
    resumed.restore(state, whole.n_begun, learning=moment[1] > 0)
    assert_same(put_away(resumed), state)
    for learner in (whole, resumed):
        train(learner, moment, (3, 0))
    assert_same(put_away(resumed), put_away(whole))
    for task in range(3):
        inputs = batch_of(task, 0).inputs
        assert torch.equal(resumed.predict(inputs, task), whole.predict(inputs, task))


def test_a_state_that_was_put_away_does_not_move_with_the_learner_that_took_it(make, train):
    state = put_away(train(make(), (0, 0), (1, 2)))
    before = {name: tensor.clone() for name, tensor in state.items()}
    resumed = make()
    resumed.restore(state, 2, learning=True)
    train(resumed, (1, 2), (2, 0))
    assert_same(state, before)


def test_a_state_that_does_not_fit_is_refused_by_name(make, train):
    state = put_away(train(make(), (0, 0), (1, 0)))
    name = sorted(key for key in state if key.startswith("learner/"))[0]
    without = {key: value for key, value in state.items() if key != name}
    longer = torch.zeros(*state[name].shape, 2)
    shapes = f"has shape {list(longer.shape)} instead of {list(state[name].shape)}"
    for tensors, problem in (
        (without, f"'{name}' is missing"),
        ({**state, "learner/foreign": torch.zeros(2)}, "'learner/foreign' is not known"),
        ({**state, name: longer}, f"'{name}' {shapes}"),
    ):
        message = f"The checkpoint does not fit this learner: {problem}."
        with pytest.raises(CheckpointError, match=re.escape(message)):
            make().restore(tensors, 1, learning=False)


def test_what_is_counted_is_what_is_kept_after_the_last_task(make, train):
    learner = make()
    counts = learner.counts()
    train(learner, (0, 0), (3, 0))
    assert isinstance(counts, Counts)
    assert learner.counts() == counts, "the counts do not depend on how far it is"
    assert counts.target > 0
    assert counts.n_tasks == 3
    assert counts.learned + 3 * counts.per_task == sum(tensor.numel() for tensor in put_away(learner).values())


def test_it_answers_with_the_outputs_of_one_task_and_does_not_change_by_it(make, train, batch_of):
    learner = train(make(), (0, 0), (1, 2))
    before = put_away(learner)
    for task in range(2):
        answer = learner.predict(batch_of(task, 0).inputs, task)
        assert answer.shape == (16, 2)
        assert not answer.requires_grad
        alone = learner.predict(batch_of(task, 0).inputs[:1], task)
        torch.testing.assert_close(answer[:1], alone, msg="an answer must not depend on the rest of its batch")
    assert_same(put_away(learner), before)


def test_asking_between_steps_does_not_change_what_is_learned(make, train, batch_of):
    asked, silent = make(), make()
    silent.load_state_dict(asked.state_dict())
    for start, stop in (((0, 0), (0, 2)), ((0, 2), (1, 0)), ((1, 0), (1, 2)), ((1, 2), (2, 0))):
        train(asked, start, stop)
        train(silent, start, stop)
        for task in range(start[0] + 1):
            asked.predict(batch_of(task, 0).inputs, task)
    assert_same(put_away(asked), put_away(silent))


def test_it_says_whether_it_answers_for_tasks_that_it_has_not_begun(make, batch_of):
    learner = make()
    if learner.answers_unseen:
        assert learner.predict(batch_of(2, 0).inputs, 2).shape == (16, 2)
    else:
        with pytest.raises(IndexError):
            learner.predict(batch_of(2, 0).inputs, 2)


def test_only_upper_bounds_see_the_past():
    assert [name for name, learner in LEARNERS.items() if learner.sees_past] == ["joint"]


@pytest.mark.parametrize("name", LEARNERS)
def test_settings_are_frozen_explained_and_survive_being_written_down(name):
    config = LEARNERS[name].Config()
    assert dataclasses.is_dataclass(config)
    assert all(settings.setting_paths(type(config)).values())
    assert settings.build(type(config), settings.plain(config), "method") == config
    for field in dataclasses.fields(config)[:1]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, field.name, None)
