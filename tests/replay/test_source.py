"""What holds for every replay model: what it may be asked for, and that it answers as it was before the task."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemon.errors import UsageError
from mnemon.memory.config import PenaltyForm
from mnemon.memory.networks import NetworkMemory
from mnemon.problem import Batch
from mnemon.replay import REPLAYS
from mnemon.replay.gan import GAN
from mnemon.replay.source import Replayed, spread

GENERATORS = ["vae", "gan", "plain-vae"]
PROTECTED = ["vae", "gan"]


def refused(message: str):
    return pytest.raises(UsageError, match=f"^{re.escape(message)}$")


def frozen_state(learner) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in learner.tensors().items()}


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def images(learner, n_tasks: int = 1) -> torch.Tensor:
    """What it draws of the first tasks, always from the same noise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        return torch.stack([learner.replay.sample(20, [task]).inputs for task in range(n_tasks)])


def test_there_are_five_replay_models():
    assert list(REPLAYS) == ["vae", "gan", "plain-vae", "real", "present"]


# How many of each


@given(st.integers(0, 500), st.lists(st.integers(0, 300), min_size=1, max_size=60, unique=True))
def test_samples_are_spread_as_evenly_as_can_be(n, tasks):
    shares = spread(n, tasks)
    counts = [count for _, count in shares]
    assert sum(counts) == n
    assert [task for task, _ in shares] == tasks[: len(shares)], "the first ones get the rest"
    assert len(shares) == min(n, len(tasks)), "nobody is asked for nothing"
    assert counts == sorted(counts, reverse=True)
    assert not counts or counts[0] - counts[-1] <= 1


@pytest.mark.parametrize("model", [*PROTECTED, "real"])
def test_a_sample_has_its_tasks_named_and_spread(model, alone, learn):
    learner = learn(alone(model=model), (0, 0), (2, 1))
    inputs, tasks = learner.replay.sample(7, range(2))
    assert inputs.shape == (7, 9)
    assert tasks.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert inputs.min() >= 0
    assert inputs.max() <= 1
    assert not inputs.requires_grad


def test_a_plain_vae_cannot_name_the_tasks(alone, learn):
    learner = learn(alone(model="plain-vae"), (0, 0), (2, 1))
    inputs, tasks = learner.replay.sample(7, range(2))
    assert inputs.shape == (7, 9)
    assert tasks is None
    assert ((inputs >= 0) & (inputs <= 1)).all()


def test_samples_take_the_shape_of_real_inputs():
    replayed = Replayed(torch.arange(12.0).view(2, 6), None)
    assert replayed.like(torch.zeros(5, 2, 3)).shape == (2, 2, 3)


# What it may be asked for


@pytest.mark.parametrize("model", REPLAYS)
@pytest.mark.parametrize("moment", [(0, 0), (0, 2)])
def test_before_a_task_was_learned_there_is_nothing_to_replay(model, moment, alone, learn):
    learner = learn(alone(model=model), (0, 0), moment)
    assert learner.replay.n_ready == 0
    with refused("There is nothing to replay yet: no task was learned."):
        learner.replay.sample(4, [0])


@pytest.mark.parametrize("model", REPLAYS)
def test_a_task_that_was_not_learned_is_named(model, alone, learn):
    learner = learn(alone(model=model), (0, 0), (1, 2))
    for task in (1, 7, -1):
        with refused(f"Task {task + 1} cannot be replayed: tasks learned so far: 1."):
            learner.replay.sample(4, [0, task])


@pytest.mark.parametrize("model", REPLAYS)
def test_a_sample_of_no_task_is_refused(model, alone, learn):
    learner = learn(alone(model=model), (0, 0), (1, 2))
    with refused("Name at least one task to replay."):
        learner.replay.sample(4, [])


@pytest.mark.parametrize("model", GENERATORS)
@pytest.mark.parametrize(
    ("low", "high", "words"), [(-0.5, 1.0, "-0.5 to 1"), (0.0, 1.25, "0 to 1.25"), (0.0, torch.nan, "nan to nan")]
)
def test_inputs_that_are_no_probabilities_are_refused(model, low, high, words, alone):
    learner = alone(model=model)
    learner.begin_task(0)
    inputs = torch.linspace(low, high, 18).view(2, 9)
    message = f"Images must have values from 0 to 1; these run from {words}: scale them "
    with refused(f"{message}(in experiments with CIFAR: benchmark.scaling=unit)."):
        learner.train_step(Batch(0, inputs, torch.zeros(2, dtype=torch.long)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"latent": 0}, "replay.latent must be at least 1, not 0."),
        ({"condition_size": 0}, "replay.condition_size must be at least 1, not 0."),
        ({"encoder": (5, 0)}, "replay.encoder must hold widths of at least 1, not [5, 0]."),
        ({"decoder": (-1,)}, "replay.decoder must hold widths of at least 1, not [-1]."),
        ({"dropout": 1.0}, "replay.dropout must be at least 0 and below 1, not 1.0."),
        ({"beta": -1.0}, "replay.beta must be a finite number of at least 0, not -1.0."),
        (
            {"penalty": PenaltyForm.WEIGHTED},
            "replay.penalty must be exact or plain: weighted is for classifiers only.",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with refused(message):
        GAN.Config(**settings)


# As it was before the task


@pytest.mark.parametrize("model", GENERATORS)
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_while_a_task_is_learned_samples_are_as_they_were_before_it(model, beta, alone, learn):
    kept = {"beta": beta} if model in PROTECTED else {}
    learner = learn(alone(model=model, learn_last=True, **kept), (0, 0), (1, 0))
    for task in (1, 2):
        before = images(learner, task)
        moments = [(task, 0), (task, 1), (task, 3)]
        for start, stop in itertools.pairwise(moments):
            learn(learner, start, stop)
            assert torch.equal(images(learner, task), before)
        restored = alone(model=model, learn_last=True, **kept)
        restored.restore(frozen_state(learner), task + 1, learning=True)
        assert torch.equal(images(restored, task), before)
        for one in (learner, restored):
            learn(one, (task, 3), (task + 1, 0))
        assert torch.equal(images(restored, task + 1), images(learner, task + 1))
        assert not torch.equal(images(learner, task), before), "once it has ended, samples are as they are now"


@pytest.mark.parametrize("model", PROTECTED)
def test_a_strong_penalty_keeps_the_images_of_earlier_tasks_and_none_does_not(model, alone, learn):
    moved = {}
    for beta in (0.0, 100.0):
        torch.manual_seed(1)
        learner = learn(alone(model=model, beta=beta), (0, 0), (1, 0), steps=20)
        before = images(learner)
        learn(learner, (1, 0), (2, 0), steps=20)
        moved[beta] = float((images(learner) - before).abs().mean())
    assert moved[0.0] > 0.05
    assert moved[100.0] < 0.1 * moved[0.0]


# The last task


@pytest.mark.parametrize("model", GENERATORS)
def test_the_last_task_is_not_learned(model, alone, learn, picture_batch):
    learner = learn(alone(model=model), (0, 0), (2, 0))
    before = frozen_state(learner)
    learner.begin_task(2)
    assert learner.train_step(picture_batch(2, 0)) == {}
    assert learner.replay.n_ready == 2
    assert same(frozen_state(learner), before), "and nothing is made for it"
    learner.end_task(None)
    assert learner.replay.n_ready == 2
    assert same(frozen_state(learner), before)


@pytest.mark.parametrize("model", GENERATORS)
def test_the_last_task_is_learned_if_it_is_asked_for(model, alone, learn, picture_batch):
    learner = learn(alone(model=model, learn_last=True), (0, 0), (2, 0))
    learner.begin_task(2)
    assert learner.train_step(picture_batch(2, 0))
    assert learner.replay.n_ready == 2
    learner.end_task(None)
    assert learner.replay.n_ready == 3


@pytest.mark.parametrize("model", PROTECTED)
@pytest.mark.parametrize(("learn_last", "embeddings"), [(False, 2), (True, 3)])
def test_there_is_an_embedding_for_every_task_that_can_be_replayed(model, learn_last, embeddings, alone, learn):
    learner = learn(alone(model=model, learn_last=learn_last), (0, 0), (3, 0), steps=1)
    (memory,) = (part for part in learner.modules() if isinstance(part, NetworkMemory))
    assert len(memory.embeddings) == memory.capacity == embeddings


def test_with_a_single_task_nothing_is_learned(alone, learn):
    for model in REPLAYS:
        learner = learn(alone(model=model, n_tasks=1), (0, 0), (1, 0))
        assert learner.replay.n_ready == 0


# Real data


def test_real_data_hand_on_what_came(alone, learn, picture_batch):
    learner = learn(alone(model="real"), (0, 0), (2, 0))
    assert frozen_state(learner) == {}, "it keeps nothing"
    learner.begin_task(2)
    batch = picture_batch(2, 5)
    assert learner.train_step(batch) == {}
    inputs, tasks = learner.replay.sample(6, range(2))
    assert torch.equal(inputs, torch.cat([batch.past[0].inputs[:3], batch.past[1].inputs[:3]]))
    assert tasks.tolist() == [0, 0, 0, 1, 1, 1]


# The present task's inputs


def test_present_inputs_are_handed_on_for_all_earlier_tasks_alike(alone, learn, picture_batch):
    learner = learn(alone(model="present"), (0, 0), (2, 0))
    assert frozen_state(learner) == {}, "it keeps nothing"
    assert learner.replay.n_kept == learner.replay.numel_per_task == learner.replay.count() == 0
    learner.begin_task(2)
    for step in (5, 6):
        batch = picture_batch(2, step)
        assert learner.train_step(batch) == {}
        assert learner.replay.n_ready == 2
        inputs, tasks = learner.replay.sample(6, range(2))
        assert torch.equal(inputs, batch.inputs[:6])
        assert tasks is None, "they are of no earlier task"


def test_between_two_tasks_there_is_no_present_input(alone, learn, picture_batch):
    learner = learn(alone(model="present"), (0, 0), (1, 0))
    for begin in (False, True):
        if begin:
            learner.begin_task(1)
        assert learner.replay.n_ready == 0
        with refused("There is nothing to replay yet: no task was learned."):
            learner.replay.sample(4, [0])


def test_more_present_inputs_than_came_are_refused(alone, learn):
    learner = learn(alone(model="present"), (0, 0), (1, 1))
    assert len(learner.replay.sample(16, [0]).inputs) == 16
    with refused("A batch holds 16 inputs; 17 are asked for."):
        learner.replay.sample(17, [0])


@pytest.mark.parametrize("model", [*PROTECTED, "real"])
def test_what_does_not_divide_evenly_goes_to_any_task(model, alone, learn, picture_batch):
    learner = learn(alone(model=model), (0, 0), (2, 0))
    learner.begin_task(2)
    learner.train_step(picture_batch(2, 0))
    drawn = [tuple(sorted(learner.replay.sample(3, range(2)).tasks.tolist())) for _ in range(20)]
    assert set(drawn) == {(0, 0, 1), (0, 1, 1)}


def test_at_least_one_sample_is_asked_for(alone, learn):
    learner = learn(alone(), (0, 0), (1, 0))
    with refused("n must be at least 1, not 0."):
        learner.replay.sample(0, [0])


def test_more_real_data_than_came_are_refused(alone, picture_batch):
    learner = alone(model="real")
    learner.begin_task(2)
    learner.train_step(picture_batch(2, 0))
    with refused("A batch holds 16 examples of task 1; 17 are asked for."):
        learner.replay.sample(34, range(2))
