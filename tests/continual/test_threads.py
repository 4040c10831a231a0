"""Threads may share models: each model is what it would be alone, and nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from clouds import Net, answers, assert_same, clouds, make
from torch import Tensor, nn

import mnemon

SECONDS = 60
"""After which threads that have not ended are taken to wait for each other."""


class Dropped(Net):
    """It draws random numbers in every step."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(nn.functional.dropout(self.norm(self.first(x)).relu(), 0.5, self.training))


def model_of(number: int) -> mnemon.ContinualModel:
    kinds = ({"recognise": "density"}, {"adapters": mnemon.LoRA("first", rank=2)}, {})
    torch.manual_seed(1)
    return mnemon.ContinualModel(Dropped(), lr=0.01, seed=number, **kinds[number % len(kinds)])


def learn_two(model: mnemon.ContinualModel) -> None:
    for axis, task in enumerate(("one", "two")):
        model.learn(clouds(axis), task=task, steps=25, quiet=True)


def together(*works: Callable[[], object]) -> None:
    """Do some works in threads of their own; what one raises is raised here."""
    errors: list[BaseException] = []

    def do(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=do, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "it waits for ever"
    if errors:
        raise errors[0]


def test_models_in_several_threads_are_what_they_are_alone():
    alone, beside = ([model_of(number) for number in range(3)] for _ in range(2))
    for model in alone:
        learn_two(model)
    together(*(lambda model=model: learn_two(model) for model in beside))
    for one, other in zip(alone, beside, strict=True):
        assert_same(one.state.learner.tensors(), other.state.learner.tensors())
        assert one.state.tasks == other.state.tasks


def test_asking_while_another_thread_learns_gives_right_answers_and_changes_nothing():
    alone, model = model_of(2), model_of(2)
    for each in (alone, model):
        each.learn(clouds(0), task="one", steps=25, quiet=True)
    inputs, _ = clouds(0)
    wanted, asked, done = model.predict(inputs, "one").outputs, [], threading.Event()

    def learn() -> None:
        model.learn(clouds(1), task="two", steps=60, quiet=True)
        done.set()

    def ask() -> None:
        while not done.is_set():
            asked.append(model.predict(inputs, task="one").outputs)
            model.predict(inputs)
            repr(model)

    alone.learn(clouds(1), task="two", steps=60, quiet=True)
    together(learn, ask)
    assert_same(alone.state.learner.tensors(), model.state.learner.tensors())
    after = model.predict(inputs, "one").outputs
    assert asked
    assert all(torch.equal(found, wanted) or torch.equal(found, after) for found in asked)


def test_random_numbers_of_the_user_go_on_as_if_nobody_had_learned():
    models = [model_of(number) for number in range(2)]
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    together(*(lambda model=model: learn_two(model) for model in models))
    assert torch.equal(torch.rand(3), wanted)


def test_a_loss_may_ask_the_model_that_learns_by_it():
    model = make()
    model.learn(clouds(0), task="one", steps=2, quiet=True)
    inputs, _ = clouds(1)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        model.predict(inputs[:4], task="one")
        return (outputs - targets).square().mean()

    together(lambda: model.learn((inputs, inputs[:, :3].clone()), "two", loss=loss, steps=3, quiet=True))
    assert model.tasks == ["one", "two"]


def test_a_student_may_ask_a_teacher_that_learns_in_another_thread():
    teacher, student = model_of(0), model_of(1)
    teacher.learn(clouds(0), task="one", steps=2, quiet=True)
    inputs, _ = clouds(1)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        taught = teacher.predict(inputs[: len(outputs)], task="one").outputs
        return (outputs[:, :2] - taught).square().mean()

    together(
        lambda: teacher.learn(clouds(2), task="two", steps=60, quiet=True),
        lambda: student.learn((inputs, inputs[:, :3].clone()), "one", loss=loss, steps=60, quiet=True),
    )
    assert (teacher.tasks, student.tasks) == (["one", "two"], ["one"])


@pytest.mark.parametrize("verb", ["forget", "rename", "save"])
def test_changes_from_another_thread_wait_until_the_learning_is_over(verb, tmp_path):
    model, begun = make(), threading.Event()
    model.learn(clouds(0), task="one", steps=2, quiet=True)
    inputs, _ = clouds(1)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        begun.set()
        return (outputs - targets).square().mean()

    def change() -> None:
        begun.wait(SECONDS)
        arguments = {"forget": ["one"], "rename": ["one", "first"], "save": [tmp_path / "model"]}[verb]
        getattr(model, verb)(*arguments)
        assert "two" in model.tasks

    together(
        lambda: model.learn((inputs, inputs[:, :3].clone()), "two", loss=loss, steps=40, quiet=True),
        change,
    )
    torch.manual_seed(1)
    if verb == "save":
        assert_same(answers(mnemon.load(tmp_path / "model", Net())), answers(model))
