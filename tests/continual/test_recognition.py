"""Nobody says of which task an input is: it is recognised, or called unknown."""

from __future__ import annotations

import time
import weakref
from dataclasses import replace

import pytest
import torch
from clouds import STEPS, Net, answers, clouds, make, pictures, refused, two_days
from torch import nn

import mnemon
from mnemon.continual import prediction
from mnemon.continual.prediction import predict_for_task


def test_one_task_calls_one_in_twenty_of_its_training_inputs_unknown():
    model, data = make(recognise="entropy"), clouds(0, n=400)
    model.learn(data, task="one", steps=STEPS, quiet=True)
    unknown = (~model.predict(data[0]).known).double().mean()
    assert float(unknown) == pytest.approx(0.05, abs=0.003)
    fresh = (~model.predict(clouds(0, n=400, seed=3)[0]).known).double().mean()
    assert float(fresh) < 0.1


def test_an_input_between_the_classes_is_unknown_to_entropy():
    model = make(recognise="entropy")
    model.learn(pictures(0), task="one", steps=STEPS, quiet=True)
    answer = model.predict(torch.tensor([[0.5, 0.5, 0, 0], [1, 0, 0, 0]]))
    assert answer.task == ["unknown", "one"]
    assert answer.known.tolist() == [False, True]


@pytest.mark.only_memory("generated")
def test_the_answer_is_that_of_the_task_that_is_surest():
    learned = two_days(recognise="entropy")
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
    model = mnemon.ContinualModel(Net(4), lr=0.01, recognise="entropy")
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
    "recognise='density' needs inputs of one size: these have 3 numbers instead of 4.": lambda m: m.predict(
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


def test_only_tasks_of_classes_are_inferred_by_entropy():
    model, (inputs, _) = make(recognise="entropy"), clouds(0)
    assert refused(lambda: model.predict(inputs)) == "Nothing was learned yet."
    model.learn((inputs, inputs[:, :3].clone()), task="numbers", steps=1, quiet=True)
    assert refused(lambda: model.predict(inputs)) == (
        "Only tasks with classes can be inferred by entropy; give the task (such as task='numbers')."
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
    model = make(recognise="entropy")
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    few, many = _seconds_of(model, 100), _seconds_of(model, 1000)
    assert many < 25 * few  # ten times as many; by the square it would be a hundred times


def test_only_the_best_answers_are_kept_while_tasks_are_asked(monkeypatch):
    model = make(recognise="entropy")
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    kept: list[weakref.ref] = []

    def watched(*arguments):
        answer = predict_for_task(*arguments)
        kept.append(weakref.ref(answer.outputs))
        assert sum(reference() is not None for reference in kept) <= 2
        return answer

    monkeypatch.setattr(prediction, "predict_for_task", watched)
    _seconds_of(model, 20)
    assert len(kept) == 40


# By statistics


@pytest.fixture(scope="module")
def by_statistics() -> mnemon.ContinualModel:
    model = make()
    for task, first in (("one", 0), ("two", 2)):
        model.learn(pictures(first), task=task, steps=STEPS, quiet=True)
    return model


def test_inputs_are_recognised_by_statistics_unless_something_else_is_asked(by_statistics):
    assert by_statistics.state.settings.recognise == "statistics"
    for task, first in (("one", 0), ("two", 2)):
        inputs, targets = pictures(first, seed=4)
        found = by_statistics.recognise(inputs)
        assert found.count(task) / len(found) > 0.85
        assert by_statistics.evaluate((inputs, targets), task, infer=True) > 85
        assert by_statistics.predict(inputs).task == found


def test_about_one_in_twenty_fresh_inputs_is_a_false_alarm():
    model = make()
    model.learn(clouds(0, n=1000), task="one", steps=1, quiet=True)
    model.learn(clouds(1, n=1000), task="two", steps=1, quiet=True)
    unknown = [(~model.predict(clouds(axis, n=2000, seed=3)[0]).known).double().mean() for axis in (0, 1)]
    assert unknown == pytest.approx([0.05, 0.05], abs=0.025)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_strange_inputs_are_unknown_whatever_their_range(scale):
    model = make()
    data, targets = clouds(0, n=400)
    model.learn((data * scale - scale, targets), task="one", steps=1, quiet=True)
    for strange in (torch.zeros(5, 4) + 3 * scale, torch.eye(4) * 9 * scale):
        assert set(model.recognise(strange)) == {"unknown"}


def test_probabilities_are_of_every_class_of_every_task(by_statistics):
    inputs, targets = pictures(2, seed=4)
    answer = by_statistics.predict(inputs)
    assert answer.choices == (("one", 0), ("one", 1), ("two", 0), ("two", 1))
    assert torch.allclose(answer.probability.sum(1), torch.ones(200, dtype=torch.float64))
    assert float((answer.probability.argmax(1) == 2 + targets).double().mean()) > 0.9


def test_tasks_of_numbers_and_of_labels_are_recognised_too():
    model, (inputs, targets) = make(), clouds(0, n=200)
    model.learn((inputs + 2, inputs[:, :3].clone()), task="numbers", steps=1, quiet=True)
    model.learn((inputs - 2, inputs[:, :3] > 0.5), task="labels", steps=1, quiet=True)
    model.learn((inputs, targets), task="classes", steps=1, quiet=True)
    fresh, _ = clouds(0, n=50, seed=8)
    for task, shift in (("numbers", 2), ("labels", -2), ("classes", 0)):
        assert model.recognise(fresh + shift).count(task) > 35
    assert model.predict(fresh - 2).label.dtype == torch.bool
    assert model.predict(fresh).choices == (("numbers", None), ("labels", None), ("classes", 0), ("classes", 1))
    mixed = torch.cat([fresh[:3], fresh[:3] + 2])
    assert "call model.recognise(x), then" in refused(lambda: model.predict(mixed))
    assert "'numbers' has none" in refused(lambda: model.evaluate((inputs, inputs[:, :3]), "numbers", infer=True))


def test_inputs_that_belong_together_have_one_vote(by_statistics):
    inputs = torch.cat([pictures(0, n=20, seed=4)[0], pictures(2, n=10, seed=4)[0]])
    assert by_statistics.recognise(inputs, vote=10) == ["one"] * 20 + ["two"] * 10
    assert by_statistics.predict(inputs, vote=10).task == ["one"] * 20 + ["two"] * 10
    assert (
        refused(lambda: by_statistics.predict(inputs, vote=0)) == "vote must be a whole number of at least 1, not 0."
    )


def test_recognition_says_which_tasks_can_hardly_be_told_apart():
    model = make()
    for task, first in (("one", 0), ("two", 2), ("again", 0)):
        model.learn(pictures(first), task=task, steps=1, quiet=True)
    found = model.recognition()
    assert found.tasks == ("one", "two", "again")
    assert found.right[1] > 95
    assert [(task, other) for task, other, _ in found.confused] == [("again", "one")]
    assert str(found).startswith("'again' is hard to tell from 'one': ")
    model.forget("one")
    assert model.recognition().confused == ()


def test_only_statistics_know_how_well_tasks_are_told_apart():
    message = "Only recognise='statistics' measures how well tasks are told apart."
    assert refused(make(recognise="entropy").recognition) == message
    assert refused(make().recognition) == "Nothing was learned yet."


def test_without_recognition_a_task_has_to_be_named():
    model = make(recognise=None)
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    assert refused(lambda: model.predict(clouds(0)[0])) == "recognise=None: give the task (such as task='one')."
    assert model.predict(clouds(0)[0], "one").task[0] == "one"


def sums_of(model: mnemon.ContinualModel) -> list[torch.Tensor]:
    return [getattr(task, name) for task in model.state.sums.tasks for name in ("counts", "sums", "within")]


def test_a_forgotten_task_was_never_learned():
    both, one = make(), make()
    both.learn(pictures(0), task="one", steps=1, quiet=True)
    one.learn(pictures(0), task="one", steps=1, quiet=True)
    both.learn(clouds(2), task="two", steps=1, quiet=True)
    both.forget("two")
    inputs = torch.rand(50, 4)
    assert all(torch.equal(a, b) for a, b in zip(sums_of(both), sums_of(one), strict=True))
    assert torch.equal(both.predict(inputs).probability, one.predict(inputs).probability)
    assert both.recognise(inputs) == one.recognise(inputs)


def test_relearning_adds_to_the_sums():
    model, twice = make(), make()
    (x, y), (more, z) = pictures(0), pictures(0, seed=1)
    for each in (model, twice):
        each.learn((x, y), task="one", steps=1, quiet=True)
        each.learn(pictures(2), task="two", steps=1, quiet=True)
    twice.relearn((more, z), task="one", steps=1, quiet=True)
    assert twice.tasks == ["two", "one"]
    sums = twice.state.sums.tasks[1]
    assert sums.counts.tolist() == [200, 200]
    assert model.state.sums.tasks[0].counts.tolist() == [100, 100]
    features = twice.state.sums.features.of((torch.cat([x, more]),))
    index = torch.cat([y, z])
    torch.testing.assert_close(sums.sums[0], features[index == 0].double().sum(0), rtol=1e-5, atol=1e-3)


def test_a_learning_that_fails_leaves_the_sums_as_they_were():
    model = make()
    model.learn(pictures(0), task="one", steps=1, quiet=True)
    before, probability = sums_of(model), model.predict(pictures(2)[0]).probability
    with pytest.raises(mnemon.TrainingError):
        model.learn((torch.full((20, 4), 3e38), torch.arange(20) % 2), task="two", steps=3, quiet=True)
    assert all(torch.equal(a, b) for a, b in zip(sums_of(model), before, strict=True))
    assert torch.equal(model.predict(pictures(2)[0]).probability, probability)


def test_the_more_tasks_the_fewer_features_within_the_room():
    model, room = make(recognise=mnemon.Statistics(width=200, room=8000)), 8000
    widths = []
    for task in range(4):
        model.learn(clouds(task), task=str(task), steps=1, quiet=True)
        assert model.state.sums.nbytes <= room + 100
        widths.append(model.recognition().features)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1] >= 16


@pytest.mark.parametrize("own", [False, True])
def test_features_may_be_a_layer_or_a_function(tmp_path, own):
    def middle(inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return inputs[0][:, 1:]

    way = mnemon.Statistics(features=middle) if own else mnemon.Statistics(layer="first")
    model = make(recognise=way)
    for task, first in (("one", 0), ("two", 2)):
        model.learn(pictures(first), task=task, steps=STEPS, quiet=True)
    assert model.recognition().features == (3 if own else 16)
    inputs, _ = pictures(2, seed=4)
    assert model.recognise(inputs).count("two") > 150
    path = model.save(tmp_path / "model")
    if own:
        with pytest.raises(
            mnemon.CheckpointError, match=r"which is not in the file: call load\(\.\.\., recognise=Statistics"
        ):
            mnemon.load(path, Net())
    again = mnemon.load(path, Net(), recognise=way if own else None)
    assert torch.equal(again.predict(inputs).probability, model.predict(inputs).probability)


def test_with_a_frozen_part_features_are_what_goes_into_the_last_linear_layer():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 3))
    for settings in ({"generate": "2.*"}, {"adapters": mnemon.LoRA(rank=2)}):
        model = mnemon.ContinualModel(module, **settings)
        model.learn(pictures(0), task="one", steps=1, quiet=True)
        assert model.recognition().features == 30
    plain = mnemon.ContinualModel(module)
    plain.learn(pictures(0), task="one", steps=1, quiet=True)
    assert plain.recognition().features == 64


def test_an_unknown_layer_is_named():
    message = "Unknown layer 'frist'. Did you mean 'first'? Choose one of: first, norm, last."
    assert refused(lambda: make(recognise=mnemon.Statistics(layer="frist"))) == message


def test_token_ids_and_several_inputs_are_recognised():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.last = nn.Embedding(40, 8), nn.Linear(9, 2)

        def forward(self, ids, number):
            return self.last(torch.cat([self.words(ids).mean(1), number], dim=1))

    torch.manual_seed(0)
    model, random = mnemon.ContinualModel(Words()), torch.Generator().manual_seed(0)

    def texts(start: int):
        ids = start + torch.randint(20, (200, 7), generator=random)
        return (ids, torch.rand(200, 1, generator=random)), torch.arange(200) % 2

    for start in (0, 20):
        model.learn(texts(start), task=f"from {start}", steps=1, quiet=True)
    assert model.recognise(texts(20)[0]).count("from 20") > 170


class Nearest:
    """The task whose first input is nearest; the far ones are unknown."""

    def __init__(self):
        self.first = {}

    def learn(self, inputs, targets, task):
        self.first[task] = inputs[0].mean(0)

    def scores(self, inputs):
        far = {task: -(inputs[0] - first).norm(dim=1) for task, first in self.first.items()}
        return {**far, "unknown": torch.full((len(inputs[0]),), -1.0)}


def test_an_object_of_ones_own_recognises_tasks(tmp_path):
    model = make(recognise=Nearest())
    inputs, targets = clouds(3, n=40)
    for task, shift in (("low", -3), ("high", 3)):
        model.learn((inputs + shift, targets), task=task, steps=1, quiet=True)
    model.rename("low", "deep")
    asked = torch.stack([inputs[0] - 3, inputs[0] + 3, inputs[0]])
    assert model.recognise(asked) == ["deep", "high", "unknown"]
    path = model.save(tmp_path / "model")
    with pytest.raises(mnemon.CheckpointError, match=r"load\(\.\.\., recognise=the object\)"):
        mnemon.load(path, Net())
    object_ = Nearest()
    object_.first = {"deep": model.state.recogniser.recogniser.first["low"], "high": inputs.mean(0) + 3}
    assert mnemon.load(path, Net(), recognise=object_).recognise(asked) == ["deep", "high", "unknown"]


def test_an_object_without_the_two_methods_is_refused():
    assert refused(lambda: make(recognise=3)).endswith("int has no learn.")


def test_what_a_file_says_need_not_be_said_again(tmp_path, by_statistics):
    path = by_statistics.save(tmp_path / "model")
    with pytest.raises(mnemon.CheckpointError, match="already says how tasks are recognised"):
        mnemon.load(path, Net(), recognise=Nearest())
    again = mnemon.load(path, Net())
    inputs, _ = pictures(2, seed=4)
    assert torch.equal(again.predict(inputs).probability, by_statistics.predict(inputs).probability)
    assert again.recognition() == by_statistics.recognition()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"width": 0}, "width must be a whole number of at least 1, not 0."),
        ({"width": 30_000}, "width must be at most 20,000, not 30,000."),
        ({"room": 10}, "room must be a whole number of at least 1000, not 10."),
        ({"false_alarms": 1}, "false_alarms must be above 0 and below 1, not 1."),
        ({"layer": 3}, "layer must be the name of a layer, not 3."),
        ({"features": 3}, "features must be a function of the inputs; layer must be empty then."),
    ],
)
def test_wrong_settings_of_statistics_are_named(settings, message):
    assert refused(lambda: mnemon.Statistics(**settings)) == message
