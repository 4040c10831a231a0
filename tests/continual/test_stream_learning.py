"""A stream that nobody has cut: changes are found, tasks that come back are recognised, bad batches are named."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from clouds import Net, answers, assert_same, clouds, make, pictures, refused
from torch import Tensor, nn

import mnemon
from mnemon.continual.stream import Switch

VIEWS = {"a": (0, (0, 1)), "b": (2, (1, 2))}
"""Which pixels are bright, and how they are labelled."""


def batches(*views: str, n: int = 10, size: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    """So many batches of one view after another."""
    for turn, view in enumerate(views):
        first, labels = VIEWS[view]
        inputs, targets = pictures(first, n=n * size, seed=turn)
        yield from zip(inputs.split(size), torch.tensor(labels)[targets].split(size), strict=True)


def streaming(**settings) -> mnemon.ContinualModel:
    return make(**{"lr": 0.002, **settings})


@pytest.mark.parametrize("seed", [0, 1])
def test_tasks_are_found_and_known_again(seed):
    model = streaming(seed=seed)
    switches = model.learn_stream(batches("a", "b", "a"))
    assert switches == [Switch(0, "task 1", True), Switch(10, "task 2", True), Switch(20, "task 1", False)]
    assert model.tasks == ["task 2", "task 1"]
    assert [model.about(task).n_examples for task in model.tasks] == [10 * 32, 20 * 32]
    for task, view in (("task 1", "a"), ("task 2", "b")):
        first, labels = VIEWS[view]
        inputs, targets = pictures(first, seed=9)
        assert model.evaluate((inputs, torch.tensor(labels)[targets]), task) > 90


def test_a_stream_is_taken_up_where_another_ended_even_from_a_file(tmp_path):
    model = streaming()
    model.learn_stream(batches("a", "b"))
    torch.manual_seed(5)
    loaded = mnemon.load(model.save(tmp_path / "memory"), Net())
    for each in (model, loaded):
        assert each.learn_stream(batches("a", n=4)) == [Switch(0, "task 1", False)]
    assert_same(answers(model), answers(loaded))
    # Learning it by name in between changes nothing of that.
    inputs, targets = pictures(2)
    model.relearn((inputs, targets + 1), "task 2", steps=5, quiet=True)
    assert model.learn_stream(batches("b", n=4)) == [Switch(0, "task 2", False)]


def test_how_much_numbers_differ_by_chance_does_not_depend_on_the_module_that_a_file_is_loaded_with(tmp_path):
    def curve(sign: int) -> list[tuple[Tensor, Tensor]]:
        inputs, _ = clouds(0, n=160)
        return [(x, sign * x[:, :3].clone()) for x in inputs.split(32)]

    model = streaming()
    model.learn_stream(curve(1), steps=5)
    module = Net()
    with torch.no_grad():
        module.last.weight.mul_(1000)  # as it came, its error would be huge
    loaded = mnemon.load(model.save(tmp_path / "memory"), module)
    found = [each.learn_stream([*curve(1), *curve(-1)], steps=5) for each in (model, loaded)]
    assert found[0] == found[1]
    assert_same(answers(model), answers(loaded))


def test_an_odd_batch_is_no_change():
    odd = next(batches("b"))
    some = list(batches("a"))
    found = {p: streaming().learn_stream([*some[:6], odd, *some[6:8]], patience=p) for p in (1, 2)}
    assert found[1][:2] == [Switch(0, "task 1", True), Switch(6, "task 2", True)]
    assert found[2] == [Switch(0, "task 1", True)]


def test_new_tasks_have_names_that_are_free():
    model = streaming()
    model.learn(clouds(0), task="day 1", steps=1, quiet=True)
    model.learn_stream(batches("a", n=2), name="day", steps=1)
    assert model.tasks == ["day 1", "day 2"]


def test_a_loader_is_a_stream():
    inputs, targets = pictures(0, n=64)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=16)
    model = streaming()
    model.learn_stream(loader, steps=1)
    assert model.about("task 1").n_examples == 64


def test_densities_are_learned_in_a_stream():
    model = streaming(recognise="density")
    model.learn_stream(batches("a", "b"), steps=5)
    assert model.state.learner.densities.n_begun == len(model.tasks)
    assert len(model.predict(torch.rand(3, 4)).task) == 3


# Streams that break off


def broken(after: int, failure: BaseException) -> Iterator[tuple[Tensor, Tensor]]:
    yield from itertools.islice(batches("a"), after)
    raise failure


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError("the line is dead")])
def test_what_was_learned_is_kept_when_the_stream_breaks_off(failure):
    model, twin = streaming(), streaming()
    with pytest.raises(type(failure)):
        model.learn_stream(broken(4, failure), steps=3)
    twin.learn_stream(itertools.islice(batches("a"), 4), steps=3)
    assert model.tasks == ["task 1"]
    assert_same(answers(twin), answers(model))
    for each in (model, twin):
        each.learn(clouds(1), task="later", steps=3, quiet=True)
    assert_same(answers(twin), answers(model))


X, Y = pictures(0, n=32)
BAD = {
    "batch 3 has class 3; with 3 outputs, classes are 0 to 2.": (X, Y + 2),
    "batch 3 has class -1; with 3 outputs, classes are 0 to 2.": (X, Y - 1),
    "An example of batch 3 is (3,) float32 and () int64 (inputs and target); in the batches before, it is (4,) "
    "float32 and () int64.": (X[:, :3], Y),
    "batch 3: inputs hold a value that is not finite, first in example 0.": (X * float("nan"), Y),
    "batch 3: it is empty.": (X[:0], Y[:0]),
    "batch 3: there are 32 inputs but 31 targets.": (X, Y[1:]),
    "The module cannot take the inputs of batch 3 ((4,) float32): Expected more than 1 value per channel when "
    "training, got input size torch.Size([1, 16])": (X[:1], Y[:1]),
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_batch_is_named_and_what_came_before_is_kept(message):
    model, twin = streaming(), streaming()
    good = list(itertools.islice(batches("a"), 3))
    assert refused(lambda: model.learn_stream([*good, BAD[message]], steps=2)) == message
    twin.learn_stream(good, steps=2)
    assert_same(answers(twin), answers(model))


def test_a_batch_out_of_range_is_named_where_densities_are_learned():
    model = streaming(recognise="density")
    good = list(itertools.islice(batches("a"), 3))
    found = refused(lambda: model.learn_stream([*good, (3 * X, Y)], steps=2))
    assert found.startswith("Images must have values from 0 to 1")
    assert model.tasks == ["task 1"]


EMPTY = {
    "The stream is empty.": lambda m: m.learn_stream([]),
    "A stream must be an iterable of batches, not int.": lambda m: m.learn_stream(5),
    "steps must be a whole number of at least 1, not 0.": lambda m: m.learn_stream(batches("a"), steps=0),
    "recent must be a whole number of at least 1, not 1.5.": lambda m: m.learn_stream(batches("a"), recent=1.5),
    "patience must be a whole number of at least 1, not -1.": lambda m: m.learn_stream(batches("a"), patience=-1),
    "A task's name must be some text other than 'unknown', not ''.": lambda m: m.learn_stream(batches("a"), name=""),
    "There is no class: all targets are -100, which is ignored.": lambda m: m.learn_stream([(X, Y * 0 - 100)]),
    "The module cannot take the inputs of batch 0 ((3,) float32): mat1 and mat2 shapes cannot be multiplied (2x3 and "
    "4x16)": lambda m: m.learn_stream([(X[:, :3], Y)]),
}


@pytest.mark.parametrize("message", EMPTY)
def test_a_stream_that_cannot_begin_changes_nothing(message):
    model, twin = streaming(), streaming()
    assert refused(lambda: EMPTY[message](model)) == message
    assert model.tasks == []
    assert_same(twin.state.learner.tensors(), model.state.learner.tensors())


class Fussy:
    """A loss of one's own that fails when it is asked for the n-th time."""

    def __init__(self, n: int):
        self.n = n

    def __call__(self, outputs, targets):
        self.n -= 1
        if self.n == 0:
            raise RuntimeError("mine")
        return nn.functional.mse_loss(outputs, nn.functional.one_hot(targets, 3).float())


@pytest.mark.parametrize("n", range(1, 26, 4))
def test_a_loss_that_fails_leaves_a_model_that_can_go_on(n):
    model = streaming()
    model.learn_stream(batches("a", n=4), steps=2, recent=1, loss=Fussy(0))
    before = model.tasks
    with pytest.raises(RuntimeError, match="mine"):
        model.learn_stream(batches("b", "a", n=4), steps=2, recent=1, loss=Fussy(n))
    assert set(before) <= set(model.tasks)
    assert model.state.learner.n_tasks == len(model.tasks)
    model.learn(clouds(1), task="later", steps=1, quiet=True)
    assert model.state.learner.n_tasks == len(model.tasks) == len(answers(model))


def test_a_loss_that_is_no_number_is_named_with_its_batch():
    model = streaming()
    good = list(itertools.islice(batches("a"), 3))

    def loss(outputs, targets):
        return outputs.square().mean() / (targets.max() < 2)

    found = refused(lambda: model.learn_stream([*good, (X, Y + 1)], steps=2, patience=1, loss=loss))
    assert found == "The loss became inf in batch 3: try a smaller lr."
    assert model.tasks == ["task 1"]
