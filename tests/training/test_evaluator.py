"""Scores where the task is not told, of a learner whose answers are made by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.hypernet.base import AbstractHypernet
from mnemon.inference import answer
from mnemon.learners.base import AbstractLearner, Answer, Counts
from mnemon.memory import cache
from mnemon.problem import Batch, Terms
from mnemon.training import evaluator
from mnemon.training.evaluator import evaluate, evaluate_all

CL1, CL2, CL3 = Scenario


class Scripted(AbstractLearner):
    """An input holds what is said of it: class, task, and the outputs of a head."""

    def __init__(self, problem, names_tasks: bool = True):
        super().__init__(problem)
        self.names_tasks, self.sizes = names_tasks, []

    def train_step(self, batch: Batch) -> Terms:
        raise NotImplementedError

    def counts(self) -> Counts:
        raise NotImplementedError

    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        return inputs[:, 2:]

    def answer(self, inputs: Tensor) -> Answer:
        self.sizes.append(len(inputs))
        task = inputs[:, 1].long()
        return Answer(
            self.problem.outputs.output_index(inputs[:, 0].long(), 0) + self._offset(task), self._named(task)
        )

    def _offset(self, task: Tensor) -> Tensor:
        return 0 * task if self.problem.scenario is CL2 else 2 * task

    def _named(self, task: Tensor) -> Tensor | None:
        return task if self.names_tasks else None


class Knowing(Scripted):
    answers_unseen = True


# Said of each input: class and task. The truth is class 0, 0, 1, 1 of task 1.
SAID = [(0, 1), (1, 1), (1, 0), (1, 1)]
TRUTH = [0, 0, 1, 1]


def stream_of(said: list[tuple[int, int]], truth: list[int], n_tasks: int = 3) -> TaskStream:
    inputs = torch.tensor([[float(c), float(t), 1.0 - c, float(c)] for c, t in said])
    examples = Examples(inputs, torch.tensor(truth))
    tasks = tuple(Task(f"task {i}", examples, examples) for i in range(n_tasks))
    return TaskStream("scripted", TaskKind.CLASSIFICATION, tasks, (4,), 2)


@pytest.fixture
def scripted(problem):
    def make(scenario: Scenario, names_tasks: bool = True, kind: type[Scripted] = Scripted, n_begun: int = 3):
        learner = kind(problem(scenario=scenario), names_tasks)
        learner.n_begun = n_begun
        return learner

    return make


@pytest.mark.parametrize(
    ("scenario", "accuracy", "inferred"),
    [
        # The third class is right but of the wrong task: it counts in cl2 and not in cl3.
        (CL1, 75.0, math.nan),
        (CL2, 75.0, 75.0),
        (CL3, 50.0, 75.0),
    ],
)
def test_a_wrong_task_is_a_wrong_answer_in_cl3_alone(scenario, accuracy, inferred, scripted):
    score = evaluate(scripted(scenario), stream_of(SAID, TRUTH).tasks[1], task_id=1)
    assert score.value == accuracy
    assert score.inferred == pytest.approx(inferred, nan_ok=True)


def test_a_learner_that_never_asks_itself_for_the_task_has_no_share_of_tasks_inferred(scripted):
    score = evaluate(scripted(CL2, names_tasks=False), stream_of(SAID, TRUTH).tasks[1], task_id=1)
    assert score.value == 75
    assert math.isnan(score.inferred)


@pytest.mark.parametrize("scenario", Scenario)
def test_the_score_does_not_depend_on_how_many_are_answered_at_once(scenario, scripted, monkeypatch):
    task = stream_of(SAID, TRUTH).tasks[1]
    whole = evaluate(scripted(scenario), task, 1)
    monkeypatch.setattr(answer, "BATCH", 3)
    learner = scripted(scenario)
    assert evaluate(learner, task, 1) == pytest.approx(whole, nan_ok=True)
    assert learner.sizes == ([] if scenario is CL1 else [4]), "how much it answers at once is its own affair"


def measured(row) -> list[bool]:
    return [not math.isnan(score.value) for score in row]


@pytest.mark.parametrize("scenario", Scenario)
def test_only_tasks_that_were_begun_are_measured(scenario, scripted):
    stream = stream_of(SAID, TRUTH)
    for n_begun in range(4):
        row = evaluate_all(scripted(scenario, n_begun=n_begun), stream)
        assert measured(row) == [task < n_begun for task in range(3)]


def test_tasks_to_come_are_measured_only_where_the_task_is_told(scripted):
    stream = stream_of(SAID, TRUTH)
    for scenario, wanted in ((CL1, [True, True, True]), (CL2, [True, False, False]), (CL3, [True, False, False])):
        assert measured(evaluate_all(scripted(scenario, kind=Knowing, n_begun=1), stream)) == wanted


@pytest.mark.parametrize("scenario", Scenario)
def test_a_single_task_may_be_measured(scenario, scripted):
    row = evaluate_all(scripted(scenario), stream_of(SAID, TRUTH), only=1)
    assert measured(row) == [False, True, False]
    assert [math.isnan(score.inferred) for score in row] == [True, scenario is CL1, True]


@pytest.mark.parametrize("matrix", ["full", "diagonal"])
@pytest.mark.parametrize("method", ["hypernet", "finetuned-target", "from-scratch"])
def test_nothing_is_measured_that_the_record_does_not_show(make_trainer, monkeypatch, method, matrix):
    measured = []
    whole = evaluator.evaluate

    def counted(learner, task, task_id):
        measured.append(task_id)
        return whole(learner, task, task_id)

    monkeypatch.setattr(evaluator, "evaluate", counted)
    progress = make_trainer(f"matrix={matrix}", method=method).run()
    shown = [value for row in (*progress.matrix, progress.untrained) for value in row if not math.isnan(value)]
    assert len(measured) == len(shown)


@pytest.fixture
def generated(monkeypatch) -> list[Tensor]:
    """Note each generation of weights, by its embedding; nothing that was generated is kept for later."""
    seen: list[Tensor] = []
    whole = AbstractHypernet.padded

    def counted(hypernet, embedding):
        seen.append(embedding)
        return whole(hypernet, embedding)

    monkeypatch.setattr(AbstractHypernet, "padded", counted)
    monkeypatch.setattr(cache, "ROOM", 0)
    return seen


def test_weights_are_generated_once_for_a_test(make_trainer, stream, generated, monkeypatch):
    trainer = make_trainer()
    trainer.run()
    whole = evaluate(trainer.learner, stream.tasks[1], 1)
    monkeypatch.setattr(answer, "BATCH", 3)
    generated.clear()
    assert evaluate(trainer.learner, stream.tasks[1], 1) == pytest.approx(whole, nan_ok=True)
    assert [id(e) for e in generated] == [id(trainer.learner.memory.embeddings[1])]


def test_where_the_task_is_not_told_weights_are_generated_once_for_each_task(
    make_trainer, stream, generated, monkeypatch
):
    trainer = make_trainer("scenario=cl3")
    trainer.run()
    whole = evaluate(trainer.learner, stream.tasks[1], 1)
    monkeypatch.setattr(answer, "BATCH", 3)
    generated.clear()
    assert evaluate(trainer.learner, stream.tasks[1], 1) == whole
    assert [id(e) for e in generated] == [id(e) for e in trainer.learner.memory.embeddings]
