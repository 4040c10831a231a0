"""The hypernetwork learner: its options, and what it leaves alone."""

from __future__ import annotations

import copy
import gc
import re

import pytest
import torch
from torch import Tensor, nn

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig
from mnemon.learners.hypernet import Heads, HypernetLearner
from mnemon.memory.config import NewEmbedding, OldEmbeddings, PenaltyForm, Sample
from mnemon.models import NETWORKS, TargetConfig
from mnemon.problem import Batch

SMALL = HypernetConfig(hidden=(5,), embedding_size=3, chunk=11, chunk_embedding_size=2)


@pytest.fixture
def learn(problem, batch_of, blobs):
    """Make a learner and let it learn some tasks, a few steps each; the last one stays unfinished."""

    def make(tasks: int = 2, steps: int = 3, made_for: dict | None = None, **settings) -> HypernetLearner:
        config = HypernetLearner.Config(**{"beta": 0.5, "hypernet": SMALL, **settings})
        learner = HypernetLearner(config, problem(lr=0.01, **(made_for or {})))
        for task in range(tasks):
            learner.begin_task(task)
            for step in range(steps):
                learner.train_step(batch_of(task, step))
            if task < tasks - 1:
                learner.end_task(blobs.tasks[task].train)
        return learner

    return make


def test_old_embeddings_stay_bit_for_bit_unless_they_are_plastic(learn, batch_of):
    for old, moves in ((OldEmbeddings.FIXED, False), (OldEmbeddings.PLASTIC, True)):
        learner = learn(tasks=3, steps=0, old_embeddings=old)
        before = [e.detach().clone() for e in learner.memory.embeddings]
        for step in range(3):
            learner.train_step(batch_of(2, step))
        changed = [not torch.equal(e, b) for e, b in zip(learner.memory.embeddings, before, strict=True)]
        assert changed == [moves, moves, True]


def test_plastic_embeddings_are_measured_against_a_frozen_copy(learn, batch_of):
    learner = learn(tasks=1, old_embeddings=OldEmbeddings.PLASTIC)
    learner.end_task(None)
    learner.begin_task(1)
    then = learner.memory.embeddings[0].detach().clone()
    was = learner.memory.weights(0).detach()
    for step in range(4):
        learner.train_step(batch_of(1, step))
    assert not torch.equal(learner.memory.embeddings[0], then)
    assert torch.equal(learner.memory.snapshot.embeddings[0], then)
    anchors = learner.memory._anchors
    with torch.no_grad():
        assert torch.equal(learner.memory.snapshot.hypernet(anchors.embeddings[0]), was)


@pytest.mark.parametrize("start", NewEmbedding)
def test_a_new_embedding_starts_at_random_or_at_the_previous_one(start, learn):
    learner = learn(tasks=2, new_embedding=start)
    learner.end_task(None)
    learner.begin_task(2)
    assert torch.equal(learner.memory.embeddings[2], learner.memory.embeddings[1]) == (start is NewEmbedding.PREVIOUS)
    assert learner.memory.embeddings[2] is not learner.memory.embeddings[1]
    assert learner.memory.embeddings[2].requires_grad


def test_own_heads_generate_fewer_weights(learn):
    every, own = learn(tasks=0), learn(tasks=0, heads=Heads.OWN)
    assert every.memory.target.size == (4 * 6 + 6) + (6 * 6 + 6)  # three heads of two outputs
    assert own.memory.target.size == (4 * 6 + 6) + (2 * 6 + 2)
    assert own.counts().learned < every.counts().learned


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("heads", Heads)
@pytest.mark.parametrize("penalized", Heads)
def test_other_tasks_rows_of_the_head_are_free_if_only_the_own_head_is_penalised(hidden, heads, penalized, learn):
    target = TargetConfig(hidden=hidden)
    learner = learn(tasks=0, heads=heads, penalized_heads=penalized, made_for={"target": target})
    for task in range(3):
        held = torch.zeros(learner.memory.target.size)
        for start, stop in learner._kept_ranges(task):
            held[start:stop] += 1
        wanted = torch.ones(learner.memory.target.size)
        tensors = learner.memory.target.cut(wanted)  # views: what is written there stands in the vector
        if penalized is Heads.OWN and heads is Heads.ALL:
            for kind in ("weight", "bias"):
                head = tensors[f"layers.{len(hidden)}.{kind}"]
                head[: 2 * task] = 0
                head[2 * task + 2 :] = 0
        assert torch.equal(held, wanted)


def test_a_free_head_gets_no_gradient_from_the_penalty(learn):
    learner = learn(tasks=3, penalized_heads=Heads.OWN, hypernet=HypernetConfig(form="full", hidden=(5,)))
    anchors = learner.memory._anchors
    covered = torch.zeros(2, learner.memory.target.size)
    (group,) = anchors.groups(anchors.everything())
    for block in group.blocks:
        covered[block.rows, slice(*block.columns)] += 1
    last = learner.memory.target.cut(torch.arange(learner.memory.target.size))["layers.1.bias"]
    assert covered[:, last].tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]]


def test_the_weighted_penalty_keeps_the_fisher_information_of_each_finished_task(learn, blobs):
    learner = learn(tasks=2, penalty=PenaltyForm.WEIGHTED, fisher_examples=1000)
    weights = learner.memory.weights(1).detach()
    inputs, targets = blobs.tasks[1].train.batch(slice(None))
    wanted = torch.zeros_like(weights)
    for x, y in zip(inputs, targets, strict=True):
        w = weights.clone().requires_grad_()
        outputs = learner.memory.target(w, x[None])[0, 2:4]
        (gradient,) = torch.autograd.grad(outputs.log_softmax(0)[y], w)
        wanted += gradient**2 / len(inputs)
    learner.end_task(blobs.tasks[1].train)
    torch.testing.assert_close(learner.memory.importances[1].detach(), wanted)
    assert wanted.any()
    assert learner.memory.importances[0].any()
    assert learner.counts().per_task == 3 + learner.memory.target.size


def test_the_weighted_penalty_descends_the_weighted_drift(double, learn, batch_of):
    learner = learn(tasks=2, steps=2, penalty=PenaltyForm.WEIGHTED, beta=7.0)
    with torch.no_grad():
        learner.memory.importances[0].mul_(torch.rand_like(learner.memory.importances[0]))
        learner.memory.rebuild()
    before = copy.deepcopy(learner)
    terms = learner.train_step(batch_of(1, 2))
    # The penalty is measured where the task gradient alone would lead.
    memory = before.memory
    memory.config = HypernetLearner.Config(beta=0.0, hypernet=SMALL)
    snapshot, importance = memory.snapshot, memory.importances[0]
    before.train_step(batch_of(1, 2))
    drift = memory.hypernet(memory.embeddings[0]) - snapshot.hypernet(snapshot.embeddings[0])
    torch.testing.assert_close(terms["penalty"], 7.0 * (importance * drift.square()).sum().detach())


def test_rows_are_drawn_only_above_the_stated_number(learn):
    rows = 2 * learn(tasks=1, steps=0).memory.hypernet.n_rows
    for above, drawn in ((rows - 1, True), (rows, False)):
        memory = learn(tasks=3, steps=0, sample=Sample.ROWS, sample_size=1, sample_above=above).memory
        assert (memory._draw(memory._anchors).rows is not None) == drawn


@pytest.mark.parametrize("sample", [Sample.TASKS, Sample.ROWS])
@pytest.mark.parametrize("sample_size", [1, 2, 100])
@pytest.mark.parametrize("penalized", Heads)
def test_a_sampled_penalty_is_drawn_from_torchs_generator(sample, sample_size, penalized, learn, batch_of):
    learner = learn(tasks=3, sample=sample, sample_size=sample_size, penalized_heads=penalized, beta=5.0)
    penalties = set()
    for seed in (1, 1, 2, 3, 4, 5):
        torch.manual_seed(seed)
        penalties.add(copy.deepcopy(learner).train_step(batch_of(2, 3))["penalty"].item())
    everything = 2 if sample is Sample.TASKS else 2 * learner.memory.hypernet.n_rows
    assert (len(penalties) == 1) == (sample_size >= everything)
    assert len(penalties) < 6


def test_statistics_of_batch_norm_are_kept_per_task(learn, batch_of, normalized_net):
    learner = learn(tasks=2, steps=4, made_for={"target": TargetConfig(network="normalized")})
    first, second = learner.memory.buffers_of[0], learner.memory.buffers_of[1]
    assert first["norm.num_batches_tracked"] == second["norm.num_batches_tracked"] == 4
    assert not torch.equal(first["norm.running_mean"], second["norm.running_mean"])
    assert learner.memory.target.module.norm.num_batches_tracked == 0
    before = {name: buffer.clone() for name, buffer in first.items()}
    learner.train_step(batch_of(1, 4))
    learner.predict(batch_of(0, 0).inputs, 0)
    assert all(torch.equal(before[name], buffer) for name, buffer in learner.memory.buffers_of[0].items())
    assert learner.memory.buffers_of[1]["norm.num_batches_tracked"] == 5
    assert learner.counts().per_task == 3 + 8 + 8 + 1


class Centred(nn.Module):
    """A linear network whose outputs depend on each other, so that none can be computed alone."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.last = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = self.last(x)
        return y - y.mean(1, keepdim=True)


def test_a_head_is_computed_alone_only_where_that_changes_nothing(learn, batch_of, monkeypatch):
    monkeypatch.setitem(NETWORKS, "centred", lambda config, shape, outputs: Centred(shape[0], outputs))
    for network, alone in (("mlp", True), ("centred", False)):
        learner = learn(tasks=2, made_for={"target": TargetConfig(network, hidden=(6,))})
        assert learner.cuts_outputs == alone
        inputs = batch_of(1, 0).inputs
        with torch.no_grad():
            everything = learner.memory.target(learner.memory.weights(1), inputs)
        torch.testing.assert_close(learner.predict(inputs, 1), everything[:, 2:4])


def test_a_penalty_keeps_the_generated_weights_of_earlier_tasks_nearer(learn):
    drifts = []
    for beta in (0.0, 0.1, 10.0):
        torch.manual_seed(0)
        learner = learn(tasks=1, steps=10, beta=beta)
        learner.end_task(None)
        was = learner.memory.weights(0).detach()
        learner.begin_task(1)
        for _ in range(30):
            learner.train_step(Batch(1, torch.randn(8, 4), torch.randint(2, (8,))))
        drifts.append((learner.memory.weights(0).detach() - was).square().sum().item())
    assert drifts[0] > 2 * drifts[1] > 4 * drifts[2]


def test_new_optimizers_begin_with_every_task(learn):
    learner = learn(tasks=1)
    first = learner.memory.optimizers["hypernet"]
    learner.end_task(None)
    assert learner.optimizers == {}
    learner.begin_task(1)
    assert learner.memory.optimizers["hypernet"] is not first
    assert not learner.memory.optimizers["hypernet"].state_dict()["state"]


def test_regression_is_learned_with_the_mean_squared_error(problem):
    learner = HypernetLearner(
        HypernetLearner.Config(beta=0.5, hypernet=SMALL, penalty=PenaltyForm.WEIGHTED),
        problem(kind=TaskKind.REGRESSION, outputs=1),
    )
    learner.begin_task(0)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    wanted = (learner.predict(x, 0) - y).square().mean()
    torch.testing.assert_close(learner.train_step(Batch(0, x, y))["task_loss"], wanted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": -1.0}, "method.beta must be a finite number of at least 0, not -1.0."),
        ({"beta": float("inf")}, "method.beta must be a finite number of at least 0, not inf."),
        ({"sample_size": 0}, "method.sample_size must be at least 1, not 0."),
        ({"sample_above": -1}, "method.sample_above must not be negative, not -1."),
        ({"fisher_examples": 0}, "method.fisher_examples must be at least 1, not 0."),
        ({"vote": 0}, "method.vote must be at least 1, not 0."),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        HypernetLearner.Config(**settings)


def test_a_step_leaves_nothing_for_the_garbage_collector(problem, batch_of):
    learner = HypernetLearner(HypernetLearner.Config(hypernet=SMALL), problem())
    for task_id in range(3):
        learner.begin_task(task_id)
        learner.train_step(batch_of(task_id, 0))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            learner.train_step(batch_of(2, 0))
        # A circle would hold a gradient of the readout's size until the collector comes by.
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_only_the_chosen_parameters_are_generated(problem, batch_of):
    learner = HypernetLearner(HypernetLearner.Config(hypernet=SMALL, generate=("layers.1.*",)), problem())
    frozen = learner.memory.target.module.layers[0].weight.clone()
    assert [slot.name for slot in learner.memory.target.slots] == ["layers.1.weight", "layers.1.bias"]
    learner.begin_task(0)
    for _ in range(3):
        learner.train_step(batch_of(0, 0))
    assert torch.equal(learner.memory.target.module.layers[0].weight, frozen)
    assert learner.counts().target == learner.memory.target.size == 6 * 6 + 6, "the generated weights alone"


@pytest.mark.parametrize(
    ("generate", "kept"),
    [
        (("*",), []),
        (("layers.1.*",), ["layers.0.weight", "layers.0.bias"]),
        (("*.weight",), ["layers.0.bias", "layers.1.bias"]),
    ],
)
def test_of_the_target_only_what_is_frozen_is_put_away(generate, kept, problem):
    learner = HypernetLearner(HypernetLearner.Config(hypernet=SMALL, generate=generate), problem())
    found = [name for name in learner.tensors() if ".target." in name]
    assert found == [f"learner/memory.target.module.{name}" for name in kept]


def test_inputs_in_a_row_have_one_vote(problem, blobs):
    learner = HypernetLearner(HypernetLearner.Config(hypernet=SMALL, vote=4), problem(scenario=Scenario.CL3))
    for task_id, task in enumerate(blobs.tasks):
        learner.begin_task(task_id)
        learner.end_task(task.train)
    inputs = 5 * torch.randn(30, 4)
    tasks = learner.answer(inputs).task
    groups = [set(part.tolist()) for part in tasks.split(4)]
    assert all(len(group) == 1 for group in groups)
    alone = HypernetLearner(HypernetLearner.Config(hypernet=SMALL), learner.problem)
    alone.restore(learner.tensors(), 3, learning=False)
    assert any(len(set(part.tolist())) > 1 for part in alone.answer(inputs).task.split(4))


def test_where_the_task_is_told_there_is_nothing_to_vote_on(problem):
    message = "In cl1 the task is given and there is nothing to vote on: method.vote is 4."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        HypernetLearner(HypernetLearner.Config(hypernet=SMALL, vote=4), problem())
