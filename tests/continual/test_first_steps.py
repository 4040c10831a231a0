"""The public face, from the first task to the file: what a user meets first."""

from __future__ import annotations

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import mnemon
from mnemon.continual.stream import Switch

STEPS = 60


class Net(nn.Module):
    """A small network with batch norm."""

    def __init__(self, outputs: int = 3):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, outputs)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu())


def clouds(axis: int, n: int = 120, labels=(0, 1), seed: int = 0):
    """Two clouds that lie apart along an axis, between 0 and 1."""
    random = torch.Generator().manual_seed(100 * seed + axis)
    targets = torch.arange(n) % 2
    inputs = 0.5 + 0.1 * torch.randn(n, 4, generator=random)
    inputs[:, axis] += 0.6 * (targets - 0.5)
    return inputs.clamp(0, 1), torch.tensor(labels)[targets]


def make(**settings) -> mnemon.ContinualModel:
    torch.manual_seed(1)
    return mnemon.ContinualModel(Net(), lr=0.01, **settings)


@pytest.fixture
def learned() -> mnemon.ContinualModel:
    """A model of two tasks, with labels of their own."""
    model = make()
    model.learn(clouds(0, labels=(4, 5)), task="monday", steps=STEPS, quiet=True)
    model.learn(clouds(1, labels=(7, 9)), task="tuesday", steps=STEPS, quiet=True)
    return model


def answers(model: mnemon.ContinualModel) -> dict[str, torch.Tensor]:
    inputs, _ = clouds(2, seed=5)
    return {task: model.predict(inputs, task).outputs for task in model.tasks}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for task in one:
        assert torch.equal(one[task], other[task]), task


def refused(call) -> str:
    with pytest.raises(mnemon.UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


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
    mnemon.ContinualModel(module).learn(inputs, task="one", steps=3, quiet=True)
    assert_same(before, module.state_dict())
    assert all(p.requires_grad for p in module.parameters())
    assert torch.equal(state, torch.random.get_rng_state())


def test_every_task_starts_from_the_module_as_it_came():
    model = make()
    inputs, _ = clouds(0)
    wanted = copy.deepcopy(model.state.learner.memory.target.module).eval()(inputs)
    for task in range(2):
        model.state.learner.begin_task(task)
        assert torch.equal(model.state.learner.outputs((inputs,), task), wanted)
        for _ in range(3):
            model.state.learner.train_step(*_batch(), model_goal())
        model.state.learner.end_task(None)


def _batch():
    inputs, targets = clouds(0)
    return (inputs,), targets


def model_goal():
    from mnemon.continual.kinds import goal_for

    return goal_for(clouds(0)[1], "auto")


def test_the_same_seed_gives_the_same_model():
    models = [make(seed=3) for _ in range(2)]
    for model in models:
        model.learn(clouds(0), task="one", steps=5, quiet=True)
        torch.rand(7)
    assert_same(answers(models[0]), answers(models[1]))


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


def test_a_forgotten_task_leaves_the_others_bit_for_bit_and_no_trace_in_the_file(learned, tmp_path):
    before, embedding = answers(learned), learned.state.learner.memory.embeddings[0].detach().numpy().tobytes()
    assert embedding in learned.save(tmp_path / "with").read_bytes()
    learned.forget("monday")
    assert_same({"tuesday": before["tuesday"]}, answers(learned))
    assert embedding not in learned.save(tmp_path / "without").read_bytes()


def test_relearning_goes_on_with_one_task_and_holds_the_others(learned):
    before = answers(learned)
    learned.relearn(clouds(0, labels=(4, 5), seed=2), task="monday", steps=STEPS, quiet=True)
    assert learned.tasks == ["tuesday", "monday"]
    assert learned.evaluate(clouds(0, labels=(4, 5), seed=1), "monday") > 95
    assert learned.evaluate(clouds(1, labels=(7, 9), seed=1), "tuesday") > 95
    assert not torch.equal(before["monday"], answers(learned)["monday"])


def test_a_task_has_another_name(learned):
    before = answers(learned)
    learned.rename("monday", "first")
    assert learned.tasks == ["first", "tuesday"]
    assert torch.equal(answers(learned)["first"], before["monday"])


def test_the_network_of_a_task_is_a_plain_module(learned):
    inputs, _ = clouds(2, seed=5)
    network = learned.network("monday")
    assert type(network) is Net
    assert torch.equal(network(inputs)[:, :2], answers(learned)["monday"])


@pytest.mark.parametrize("recognise", ["entropy", "density"])
def test_learning_goes_on_after_loading_as_if_nothing_had_been_saved(recognise, tmp_path):
    model = make(recognise=recognise)
    model.learn(clouds(0), task="one", steps=5, quiet=True)
    path = model.save(tmp_path / "memory")
    loaded = mnemon.load(path, Net())
    for each in (model, loaded):
        each.learn(clouds(1), task="two", steps=5, quiet=True)
    assert_same(answers(model), answers(loaded))
    inputs, _ = clouds(0, seed=3)
    assert model.predict(inputs).task == loaded.predict(inputs).task


def test_nothing_in_a_file_is_a_pickle(learned, tmp_path, monkeypatch):
    path = learned.save(tmp_path / "memory")
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    assert_same(answers(mnemon.load(path, Net())), answers(learned))


@pytest.mark.parametrize("failure", [float("nan"), KeyboardInterrupt])
def test_a_model_is_what_it_was_when_learning_fails(failure, learned):
    before, calls = answers(learned), []

    def loss(outputs, targets):
        calls.append(1)
        if len(calls) < 4:
            return outputs.square().mean()
        if failure is KeyboardInterrupt:
            raise failure
        return outputs.mean() * failure

    with pytest.raises((mnemon.UsageError, KeyboardInterrupt)):
        learned.learn(clouds(2), task="three", loss=loss, steps=9, quiet=True)
    assert_same(before, answers(learned))
    with pytest.raises((mnemon.UsageError, KeyboardInterrupt)):
        learned.relearn(clouds(0), task="monday", loss=loss, steps=9, quiet=True)
    assert_same({"tuesday": before["tuesday"], "monday": before["monday"]}, answers(learned))


def pictures(first: int, n: int = 200, seed: int = 0):
    """Four pixels, of which one of two is bright."""
    random = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % 2
    inputs = 0.1 * torch.rand(n, 4, generator=random)
    inputs[torch.arange(n), first + targets] += 0.9
    return inputs, targets


def test_inputs_of_no_task_are_unknown_to_densities():
    model = make(recognise="density")
    for task, first in (("one", 0), ("two", 2)):
        model.learn(pictures(first), task=task, steps=STEPS, quiet=True)
    right = [name == "one" for name in model.predict(pictures(0, seed=4)[0]).task]
    assert sum(right) / len(right) > 0.9
    strange = model.predict(torch.ones(2, 4))
    assert strange.task == ["unknown", "unknown"]
    assert not strange.known.any()


def test_a_stream_finds_its_tasks_by_itself():
    torch.manual_seed(1)
    model = mnemon.ContinualModel(Net())

    def batches():
        for first, labels in ((0, (0, 1)), (2, (1, 2)), (0, (0, 1))):
            inputs, targets = pictures(first, n=320)
            yield from zip(inputs.split(32), torch.tensor(labels)[targets].split(32), strict=True)

    switches = model.learn_stream(batches())
    assert switches == [Switch(0, "task 1", True), Switch(10, "task 2", True), Switch(20, "task 1", False)]
    assert model.tasks == ["task 2", "task 1"]
    inputs, targets = pictures(2, seed=1)
    assert model.evaluate((inputs, targets + 1), "task 2") > 90


def test_adapters_alone_differ_and_start_from_the_untouched_model():
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    model = mnemon.ContinualModel(module, adapters=mnemon.LoRA(rank=2), lr=0.01)
    model.learn(clouds(0), task="one", steps=STEPS, quiet=True)
    network = model.network("one")
    assert torch.equal(network[0].linear.weight, module[0].weight)
    assert not torch.equal(network(clouds(1)[0]), module(clouds(1)[0]))
    assert model.evaluate(clouds(0, seed=1), "one") > 90
    assert "of them generated" in repr(model)


def test_numbers_labels_and_sequences_are_learned():
    inputs, targets = clouds(0)
    numbers = make()
    numbers.learn((inputs, inputs[:, :3].clone()), task="numbers", steps=STEPS, quiet=True)
    assert numbers.predict(inputs, "numbers").label.shape == (120, 3)
    labels = make()
    labels.learn((inputs, inputs[:, :3] > 0.5), task="labels", steps=STEPS, quiet=True)
    assert labels.evaluate((inputs, inputs[:, :3] > 0.5), "labels") > 80
    sequences = mnemon.ContinualModel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)))
    steps = inputs.view(30, 4, 4)
    sequences.learn((steps, targets.view(30, 4)), task="sequences", steps=5, quiet=True)
    assert sequences.predict(steps, "sequences").label.shape == (30, 4)


INPUTS, TARGETS = clouds(0)
MESSAGES = {
    "There is a task 'monday' already: take another name, relearn it, or forget it first.": lambda m: m.learn(
        (INPUTS, TARGETS), task="monday"
    ),
    "Unknown task 'monda'. Did you mean 'monday'? Choose one of: monday, tuesday.": lambda m: m.predict(
        INPUTS, "monda"
    ),
    "data: it is empty.": lambda m: m.learn((INPUTS[:0], TARGETS[:0]), task="x"),
    "data: there are 120 inputs but 119 targets.": lambda m: m.learn((INPUTS, TARGETS[1:]), task="x"),
    "data: inputs hold a value that is not finite, first in example 0.": lambda m: m.learn(
        (INPUTS * float("nan"), TARGETS), task="x"
    ),
    "Task 'x' has 5 classes, but the module has 3 outputs (or loss='numbers' is meant).": lambda m: m.learn(
        (INPUTS, torch.arange(120) % 5), task="x", quiet=True
    ),
    "Give epochs or steps, not both.": lambda m: m.learn((INPUTS, TARGETS), task="x", epochs=1, steps=1, quiet=True),
    "Task 'monday' has no class 1: give a new task the new classes.": lambda m: m.relearn(
        (INPUTS, TARGETS * 0 + 1), task="monday"
    ),
    "A task's name must be some text other than 'unknown', not 'unknown'.": lambda m: m.rename("monday", "unknown"),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_bad_input_is_said_in_one_line_and_changes_nothing(message, learned):
    before = answers(learned)
    assert refused(lambda: MESSAGES[message](learned)) == message
    assert_same(before, answers(learned))


def test_inputs_that_the_module_cannot_take_are_named(learned):
    found = refused(lambda: learned.learn((torch.rand(9, 7), torch.arange(9) % 2), task="x", quiet=True))
    assert found.startswith("The module cannot take the inputs of task 'x' ((7,) float32): ")


class NoParameters(nn.Module):
    """Nothing to learn."""

    def forward(self, x):
        return x


MODULES = {
    "ContinualModel takes an nn.Module, not str.": lambda: mnemon.ContinualModel("net"),
    "NoParameters has no parameters: there is nothing to learn.": lambda: mnemon.ContinualModel(NoParameters()),
    "The module has lazy parameters: run it once on an example before.": lambda: mnemon.ContinualModel(
        nn.LazyLinear(3)
    ),
    "All parameters that could be generated are frozen (requires_grad is False).": lambda: mnemon.ContinualModel(
        Net().requires_grad_(False)
    ),
    "compression must be a finite number above 0, not 0.": lambda: mnemon.ContinualModel(Net(), compression=0),
}


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("message", MODULES)
def test_modules_that_cannot_be_wrapped_are_refused(message):
    assert refused(MODULES[message]) == message


def test_a_file_of_another_module_or_of_none_is_named(learned, tmp_path):
    path = learned.save(tmp_path / "memory")
    assert path.name == "memory.mnemon"
    assert refused(lambda: mnemon.load(path, Net(5))) == (
        f"{path} is of another module: 'last.weight' is [3, 16] (float32) there and [5, 16] (float32) in this module."
    )
    assert re.match("A file holds numbers and no code: ", refused(lambda: mnemon.load(path)))
    assert refused(lambda: mnemon.load(tmp_path / "gone", Net())) == f"There is no file {tmp_path / 'gone.mnemon'}."
    path.write_bytes(path.read_bytes()[:-40] + bytes(40))
    assert "is damaged" in refused(lambda: mnemon.load(path, Net()))
