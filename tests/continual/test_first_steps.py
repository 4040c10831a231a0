"""The public face, from the first task to its answers: what a user meets first."""

from __future__ import annotations

import copy
import inspect
import io
import re

import numpy as np
import pytest
import torch
from clouds import STEPS, Net, answers, assert_same, clouds, make
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import mnemon
from mnemon.continual.learning import LearnOptions, plan_for


def test_tasks_are_learned_and_kept_with_the_users_labels(learned):
    for task, axis, labels in (("monday", 0, (4, 5)), ("tuesday", 1, (7, 9))):
        data = clouds(axis, labels=labels, seed=1)
        assert learned.evaluate(data, task) > 95
        assert set(learned.predict(data[0], task).label.tolist()) == set(labels)
    assert learned.tasks == ["monday", "tuesday"]
    assert learned.about("monday").n_examples == 120


def test_the_users_module_and_random_numbers_are_left_alone():
    module, inputs = Net(), clouds(0)
    before, state = copy.deepcopy(module.state_dict()), torch.random.get_rng_state()
    model = mnemon.ContinualModel(module)
    model.learn(inputs, task="one", steps=3, quiet=True)
    model.relearn(inputs, task="one", steps=3, quiet=True)
    model.learn_stream([inputs] * 3, steps=1)
    model.predict(inputs[0])
    assert_same(before, module.state_dict())
    assert all(p.requires_grad for p in module.parameters())
    assert module.training
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_module_that_works_in_place_leaves_the_users_data_alone():
    class InPlace(Net):
        def forward(self, x):
            return super().forward(x.mul_(2))

    inputs, targets = clouds(0)
    model = mnemon.ContinualModel(InPlace())
    model.learn((inputs, targets), task="one", steps=2, quiet=True)
    model.predict(inputs, "one")
    assert torch.equal(inputs, clouds(0)[0])


def test_the_same_seed_gives_the_same_model_and_another_one_another():
    models = [make(seed=seed) for seed in (3, 3, 4)]
    for model in models:
        model.learn(clouds(0), task="one", steps=5, quiet=True)
        torch.rand(7)
    assert_same(answers(models[0]), answers(models[1]))
    assert not torch.equal(answers(models[0])["one"], answers(models[2])["one"])


@pytest.mark.parametrize("kind", ["tensors", "arrays", "dataset", "loader", "list of pairs"])
def test_data_of_every_kind_are_taken(kind):
    inputs, targets = clouds(0)
    data = {
        "tensors": (inputs, targets),
        "arrays": (inputs.numpy().astype(np.float64), targets.numpy()),
        "dataset": TensorDataset(inputs, targets),
        "loader": DataLoader(TensorDataset(inputs, targets), batch_size=32),
        "list of pairs": [(x, int(y)) for x, y in zip(inputs, targets, strict=True)],
    }[kind]
    wanted, model = make(), make()
    wanted.learn((inputs, targets), task="one", steps=3, quiet=True)
    model.learn(data, task="one", steps=3, quiet=True)
    assert_same(answers(wanted), answers(model))


def test_the_score_is_that_on_the_validation_data_if_there_are_any():
    model, easy = make(), clouds(0)
    hard = (easy[0], torch.zeros_like(easy[1]))
    assert model.learn(easy, task="one", steps=STEPS, quiet=True).score > 95
    assert model.learn(easy, task="two", validation=hard, steps=STEPS, quiet=True).score == 50
    assert model.about("two").score == model.evaluate(hard, "two")


@pytest.mark.parametrize(
    ("n", "asked", "steps"),
    [
        (130, {"steps": 7}, 7),
        (128, {"epochs": 2}, 4),
        (128, {"epochs": 0.1}, 1),
        (10, {"epochs": 3}, 3),
        (10, {}, 600),
        (64 * 100, {}, 3000),
        (64 * 1000, {}, 5000),
    ],
)
def test_how_long_to_learn_is_said_in_steps_or_in_passes_or_follows_from_the_data(n, asked, steps):
    nothing = {"validation": None, "epochs": None, "steps": None, "batch_size": 64, "loss": "auto", "quiet": True}
    plan = plan_for(n, LearnOptions(**{**nothing, **asked}))
    assert (plan.steps, plan.batch_size) == (steps, min(64, n))


def test_numbers_labels_and_sequences_are_learned():
    inputs, targets = clouds(0)
    numbers = make()
    numbers.learn((inputs, inputs[:, :3].clone()), task="numbers", steps=STEPS, quiet=True)
    assert numbers.predict(inputs, "numbers").label.shape == (120, 3)
    assert numbers.evaluate((inputs, inputs[:, :3]), "numbers") < 0.05
    labels = make()
    labels.learn((inputs, inputs[:, :3] > 0.5), task="labels", steps=STEPS, quiet=True)
    assert labels.evaluate((inputs, inputs[:, :3] > 0.5), "labels") > 80
    assert labels.predict(inputs, "labels").confidence.isnan().all()
    sequences = mnemon.ContinualModel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
    steps = inputs.view(30, 4, 4)
    sequences.learn((steps, targets.view(30, 4)), task="sequences", steps=5, quiet=True)
    assert sequences.predict(steps, "sequences").label.shape == (30, 4)


def test_padding_does_not_count_even_if_a_batch_has_nothing_else():
    inputs, targets = clouds(0)
    steps, labels = inputs.view(30, 4, 4), targets.view(30, 4).clone()
    labels[:, 2:] = -100
    labels[::2] = -100
    model = mnemon.ContinualModel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)), lr=0.01)
    model.learn((steps, labels), task="padded", batch_size=1, steps=4 * STEPS, quiet=True)
    assert model.evaluate((steps, labels), "padded") > 95
    assert model.about("padded").goal.classes == (0, 1)


def test_the_network_of_a_task_is_a_plain_module(learned):
    inputs, _ = clouds(2, seed=5)
    for task in learned.tasks:
        network = learned.network(task)
        assert type(network) is Net
        assert torch.equal(network(inputs)[:, :2], answers(learned)[task])


@pytest.mark.only_memory("generated")
def test_a_model_shows_its_tasks_and_sizes(learned):
    first, second, sums, monday, tuesday = repr(learned).splitlines()
    assert sums == "  recognition 18,720 bytes (64 features)"
    assert first == "ContinualModel of Net with 163 weights, all of them generated"
    shared = learned.state.learner.memory.hypernet.count()
    # The weights that every task starts from, two tasks, and an embedding, a factor and batch norm for each.
    kept = shared + 163 + 2 * 66
    assert second == (
        f"  memory {kept / 163:.1f} × the module: {kept:,} numbers (starting weights 163, hypernetwork {shared:,}, "
        "66 per task)"
    )
    assert monday.startswith("  monday: classes, 120 examples, accuracy ")
    assert tuesday.endswith(" % on training data")


def test_a_model_says_of_what_its_scores_are():
    model = make()
    inputs, _ = clouds(0)
    model.learn((inputs, inputs[:, :3].clone()), "numbers", validation=(inputs, inputs[:, :3]), steps=1, quiet=True)
    model.learn((inputs, inputs[:, :3] > 0.5), "labels", steps=1, quiet=True)
    *_, numbers, labels = repr(model).splitlines()
    assert re.fullmatch(r"  numbers: numbers, 120 examples, mean squared error [\d.]+ on validation data", numbers)
    assert re.fullmatch(r"  labels: labels, 120 examples, right labels [\d.]+ % on training data", labels)


@pytest.mark.only_memory("generated")
def test_a_model_shows_what_its_densities_cost():
    model = make(recognise="density")
    assert "densities" not in repr(model)
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    densities = model.state.learner.densities
    assert f", densities {densities.count():,}, 100 per task)\n" in repr(model)
    times, kept, start, hypernet, own, per_task = map(
        float,
        re.search(
            r"memory ([\d.]+) × the module: ([\d_]+) numbers \(starting weights ([\d_]+), hypernetwork ([\d_]+), "
            r"densities ([\d_]+), ([\d_]+) per task",
            re.sub(r"(?<=\d),(?=\d)", "_", repr(model)),
        ).groups(),
    )
    assert kept == start + hypernet + own + per_task
    assert times == round(kept / 163, 1)


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_on_a_terminal_and_not_when_quiet(quiet, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    make().learn(clouds(0), task="monday", steps=3, quiet=quiet)
    assert ("learning monday" in terminal.getvalue()) != quiet


def test_the_name_of_a_task_is_shown_as_it_is(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    make().learn(clouds(0), task="[/day] [bold]one", steps=3)
    assert "learning [/day] [bold]one" in terminal.getvalue()


def test_a_long_name_leaves_room_for_the_bar_and_the_loss(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    make().learn(clouds(0), task="monday" * 20, steps=3)
    last = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal.getvalue()).split("\r")[-1].strip()
    assert re.fullmatch(r"learning monda… ━{20} loss \d\.\d{4} \d:\d\d:\d\d", last)


def test_progress_is_not_written_into_files(capsys):
    make().learn(clouds(0), task="monday", steps=3)
    assert capsys.readouterr() == ("", "")


def test_learn_and_relearn_take_the_same_options():
    learn, relearn = (inspect.signature(getattr(mnemon.ContinualModel, name)) for name in ("learn", "relearn"))
    assert learn == relearn
    assert list(learn.parameters)[3:] == ["validation", "epochs", "steps", "batch_size", "loss", "quiet"]
