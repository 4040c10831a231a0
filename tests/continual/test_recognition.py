"""Nobody says of which task an input is: it is recognised, or called unknown."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace

import pytest
import torch
from clouds import STEPS, Net, answers, clouds, make, pictures, refused
from torch import nn

import mnemon
from mnemon.continual import prediction
from mnemon.continual.prediction import predict_for_task


def test_one_task_calls_one_in_twenty_of_its_training_inputs_unknown():
    model, data = make(), clouds(0, n=400)
    model.learn(data, task="one", steps=STEPS, quiet=True)
    unknown = (~model.predict(data[0]).known).double().mean()
    assert float(unknown) == pytest.approx(0.05, abs=0.003)
    fresh = (~model.predict(clouds(0, n=400, seed=3)[0]).known).double().mean()
    assert float(fresh) < 0.1


def test_an_input_between_the_classes_is_unknown_to_entropy():
    model = make()
    model.learn(pictures(0), task="one", steps=STEPS, quiet=True)
    answer = model.predict(torch.tensor([[0.5, 0.5, 0, 0], [1, 0, 0, 0]]))
    assert answer.task == ["unknown", "one"]
    assert answer.known.tolist() == [False, True]


@pytest.mark.only_memory("generated")
def test_the_answer_is_that_of_the_task_that_is_surest(learned):
    inputs, _ = clouds(0, seed=7)
    answer, told = learned.predict(inputs), {task: learned.predict(inputs, task) for task in learned.tasks}
    known = 0
    for i, task in enumerate(answer.task):
        if task == "unknown":
            continue
        known += 1
        doubts = {name: 1 - float(told[name].outputs[i].double().softmax(-1).max()) for name in learned.tasks}
        assert doubts[task] <= min(doubts.values()) + 1e-6  # with two classes, the entropy follows from this
        assert answer.label[i] == told[task].label[i]
        assert answer.confidence[i] == told[task].confidence[i]
    assert known > 60
    assert answer.outputs is None


def test_confidence_is_the_probability_of_the_label(learned):
    answer = learned.predict(clouds(1)[0], "tuesday")
    assert torch.equal(answer.confidence, answer.outputs.softmax(-1).max(-1).values)
    assert answer.known.all()


def test_a_wrong_task_is_a_wrong_answer_when_it_is_inferred(learned):
    inputs, targets = clouds(0, labels=(4, 5), seed=7)
    answer = learned.predict(inputs)
    right = [a == "monday" and b == c for a, b, c in zip(answer.task, answer.label, targets, strict=True)]
    assert learned.evaluate((inputs, targets), "monday", infer=True) == pytest.approx(100 * sum(right) / len(right))
    assert learned.evaluate((inputs, targets), "monday") > learned.evaluate((inputs, targets), "monday", infer=True)


def test_tasks_with_different_numbers_of_classes_are_told_apart_by_relative_entropy():
    torch.manual_seed(1)
    model = mnemon.ContinualModel(Net(4), lr=0.01)
    model.learn(pictures(0), task="two", steps=STEPS, quiet=True)
    inputs, targets = pictures(2, n=200)
    model.learn((inputs, targets + 2 * (torch.arange(200) // 2 % 2)), task="four", steps=STEPS, quiet=True)
    assert model.about("two").goal.classes == (0, 1)
    assert model.about("four").goal.classes == (0, 1, 2, 3)
    answer = model.predict(pictures(0, seed=4)[0])
    assert set(answer.label[torch.tensor([task == "two" for task in answer.task])].tolist()) <= {0, 1}


def test_every_step_of_a_sequence_is_of_the_task_of_its_sequence():
    inputs, targets = clouds(0)
    model = mnemon.ContinualModel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)), lr=0.01)
    data = (inputs.view(30, 4, 4), targets.view(30, 4))
    model.learn(data, task="one", steps=20, quiet=True)
    model.learn((data[0].flip(-1), data[1]), task="two", steps=20, quiet=True)
    answer = model.predict(data[0])
    assert (len(answer.task), answer.label.shape, answer.confidence.shape) == (30, (30, 4), (30, 4))
    assert 0 <= model.evaluate(data, "one", infer=True) <= 100


@pytest.fixture(scope="module")
def with_densities() -> mnemon.ContinualModel:
    model = make(recognise="density")
    for task, first in (("one", 0), ("two", 2)):
        model.learn(pictures(first), task=task, steps=STEPS, quiet=True)
    return model


def test_inputs_are_recognised_by_how_they_look(with_densities):
    for task, first in (("one", 0), ("two", 2)):
        found = with_densities.predict(pictures(first, seed=4)[0]).task
        assert found.count(task) / len(found) > 0.85
        assert with_densities.evaluate(pictures(first, seed=4), task, infer=True) > 85


def test_inputs_of_no_task_are_unknown_to_densities(with_densities):
    strange = with_densities.predict(torch.ones(2, 4))
    assert strange.task == ["unknown", "unknown"]
    assert not strange.known.any()


def test_densities_call_one_in_twenty_training_inputs_unknown(with_densities):
    known = torch.cat([with_densities.predict(pictures(first)[0]).known for first in (0, 2)])
    assert float(known.double().mean()) == pytest.approx(0.95, abs=0.04)


def test_an_input_is_recognised_alike_in_whatever_company(with_densities):
    inputs, _ = pictures(0, n=20, seed=5)
    one_by_one = [with_densities.predict(each[None]).task[0] for each in inputs]
    assert with_densities.predict(inputs).task == one_by_one


REFUSED = {
    "recognise='density' needs inputs of one size: these have 3 numbers, and not 4.": lambda m: m.predict(
        torch.rand(5, 3)
    ),
    "Images must have values from 0 to 1; these run from 0 to 2: scale them (in experiments with CIFAR: "
    "benchmark.scaling=unit).": lambda m: m.predict(torch.arange(3.0)[:, None].expand(3, 4)),
}


class AnySize(nn.Module):
    """Takes inputs of any size."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 2)

    def forward(self, x):
        return self.layer(x.mean(1, keepdim=True))


@pytest.mark.parametrize("message", REFUSED)
def test_inputs_without_a_density_are_refused(message):
    model = mnemon.ContinualModel(AnySize(), recognise="density")
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    before = answers(model)
    assert refused(lambda: REFUSED[message](model)) == message
    for verb, task in (("learn", "two"), ("relearn", "one")):
        inputs = torch.rand(6, 3) if "size" in message else torch.arange(6.0)[:, None].expand(6, 4)
        found = refused(lambda: getattr(model, verb)((inputs, torch.arange(6) % 2), task, steps=1))  # noqa: B023
        assert found.split("these")[0] == message.split("these")[0]
    assert torch.equal(answers(model)["one"], before["one"])


def test_whole_numbers_have_no_density():
    model = mnemon.ContinualModel(
        nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 2)), recognise="density"
    )
    assert refused(lambda: model.learn((torch.arange(6).view(3, 2) % 5, torch.arange(3) % 2), "one")) == (
        "recognise='density' needs inputs of floats or bytes, not int64."
    )


def test_only_tasks_of_classes_are_inferred():
    model, (inputs, _) = make(), clouds(0)
    assert refused(lambda: model.predict(inputs)) == "Nothing was learned yet."
    model.learn((inputs, inputs[:, :3].clone()), task="numbers", steps=1, quiet=True)
    assert refused(lambda: model.predict(inputs)) == (
        "Only tasks of classes can be inferred; say which task it is (such as 'numbers')."
    )


def _seconds_of(model, n_tasks: int) -> float:
    """CPU seconds to answer without being told, of a model of as many tasks."""
    state = model.state
    state.learner.select_tasks([0] * n_tasks)
    state.tasks = [replace(state.tasks[0], name=f"task {i}") for i in range(n_tasks)]
    inputs, _ = clouds(0, n=50)
    model.predict(inputs)
    started = time.process_time()
    model.predict(inputs)
    return time.process_time() - started


def test_inferring_takes_time_in_proportion_to_the_number_of_tasks():
    model = make()
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    few, many = _seconds_of(model, 100), _seconds_of(model, 1000)
    assert many < 25 * few  # ten times as many; by the square it would be a hundred times


def test_only_the_best_answers_are_kept_while_tasks_are_asked(monkeypatch):
    model = make()
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    kept: list[weakref.ref] = []

    def watched(*arguments):
        answer = predict_for_task(*arguments)
        kept.append(weakref.ref(answer.outputs))
        assert sum(reference() is not None for reference in kept) <= 2
        return answer

    monkeypatch.setattr(prediction, "told", watched)
    _seconds_of(model, 20)
    assert len(kept) == 40
