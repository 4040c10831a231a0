"""Entropy never becomes NaN, however sure a network is; and a vote is a mean over inputs in a row."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mnemon.benchmarks.scenario import Outputs, Scenario
from mnemon.errors import UsageError
from mnemon.inference import answer
from mnemon.inference.answer import answer_by_task
from mnemon.inference.base import AbstractInference, vote
from mnemon.inference.entropy import EntropyInference, entropies, entropy

DTYPES = st.sampled_from([torch.float32, torch.float64])
EXTREME = st.floats(-1e30, 1e30)
MILD = st.floats(-20, 20)


def logits_of(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[float]]]:
    """Rows of one length of 2 to 6."""
    return st.integers(2, 6).flatmap(
        lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1, max_size=5)
    )


def naive(logits: Tensor) -> Tensor:
    p = logits.exp() / logits.exp().sum(1, keepdim=True)
    return -(p * p.log()).sum(1)


@given(logits_of(EXTREME | MILD | st.sampled_from([1e30, -1e30, 0.0])), DTYPES)
def test_entropy_is_a_number_between_none_and_that_of_a_uniform_answer(rows, dtype):
    found = entropy(torch.tensor(rows, dtype=dtype))
    assert found.dtype == dtype
    assert not found.isnan().any()
    assert found.min() >= 0
    assert found.max() <= math.log(len(rows[0])) + 1e-5


@given(st.integers(2, 12), st.integers(0, 11), st.floats(1e3, 3e38), DTYPES)
def test_a_sure_answer_has_no_entropy(classes, sure, gap, dtype):
    logits = torch.full((1, classes), -gap / 2, dtype=dtype)
    logits[0, sure % classes] = gap / 2
    assert entropy(logits).item() == 0


@given(st.integers(2, 12), EXTREME, DTYPES)
def test_a_uniform_answer_has_the_most(classes, level, dtype):
    found = entropy(torch.full((1, classes), level, dtype=dtype)).item()
    assert found == pytest.approx(math.log(classes), abs=1e-5)


@given(logits_of(MILD))
def test_entropy_equals_the_naive_formula_on_mild_logits(rows):
    logits = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(entropy(logits), naive(logits), rtol=1e-9, atol=1e-12)


@given(logits_of(MILD), MILD)
def test_entropy_does_not_depend_on_the_level_of_the_logits(rows, level):
    logits = torch.tensor(rows, dtype=torch.float64)
    torch.testing.assert_close(entropy(logits + level), entropy(logits), rtol=1e-7, atol=1e-9)


def test_tasks_of_one_class_count_are_compared_as_they_are():
    logits = [torch.randn(4, 3), torch.randn(4, 3)]
    assert torch.equal(entropies(logits), torch.stack([entropy(logits[0]), entropy(logits[1])], dim=1))


def test_tasks_of_different_class_counts_are_compared_by_their_share_of_the_most():
    logits = [torch.randn(4, 2), torch.randn(4, 5), torch.zeros(4, 3)]
    found = entropies(logits)
    for task, answers in enumerate(logits):
        torch.testing.assert_close(found[:, task], entropy(answers) / math.log(answers.shape[1]))
    torch.testing.assert_close(found[:, 2], torch.ones(4))


def test_a_task_of_one_class_is_refused():
    message = "A task of one class has no entropy: use method.name=replay, or more classes per task."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        entropies([torch.zeros(4, 2), torch.zeros(4, 1)])


def test_the_surest_of_the_tasks_begun_has_the_largest_score(problem):
    answers = [torch.tensor([[0.0, 0.1]]), torch.tensor([[0.0, 1e30]]), torch.tensor([[0.0, 3.0]])]
    asked = []
    inference = EntropyInference(problem())
    inference.n_begun = 3
    scores = inference.scores(torch.zeros(1, 4), lambda task: asked.append(task) or answers[task])
    assert scores.argsort(1, descending=True).tolist() == [[1, 2, 0]]
    assert asked == [0, 1, 2]
    inference.n_begun = 1
    assert inference.scores(torch.zeros(1, 4), answers.__getitem__).shape == (1, 1)


# Votes


@given(st.integers(1, 13), st.integers(1, 6))
def test_a_vote_is_the_mean_of_each_group_in_a_row(n, group):
    scores = torch.arange(2 * n, dtype=torch.float64).view(n, 2) ** 2
    found = vote(scores, group)
    assert found.shape == scores.shape
    for i in range(n):
        first = i - i % group
        torch.testing.assert_close(found[i], scores[first : first + group].mean(0))  # the last group may be short


def test_a_vote_of_one_is_the_score_itself():
    scores = torch.randn(5, 3)
    assert vote(scores, 1) is scores


class Told(AbstractInference):
    """Scores as they are written down."""

    def __init__(self, *scores: list[float], asks: bool = False):
        super().__init__()
        self.table, self.asks = torch.tensor(scores), asks
        self.n_begun = self.table.shape[1]

    def scores(self, inputs: Tensor, ask) -> Tensor:
        if self.asks:
            for task in range(self.table.shape[1]):
                ask(task)
        return self.table


def heads(inputs: Tensor, task_id: int) -> Tensor:
    """Task 0 always says class 0, task 1 the class that the input holds."""
    right = inputs[:, 0].long() if task_id else torch.zeros(len(inputs), dtype=torch.long)
    return torch.eye(2)[right]


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize(("scenario", "places"), [(Scenario.CL2, [0, 1, 0]), (Scenario.CL3, [0, 3, 2])])
def test_the_likeliest_tasks_own_head_answers(scenario, places, asks):
    inputs = torch.tensor([[1.0], [1.0], [0.0]])
    inference = Told([0.9, 0.1], [0.2, 0.8], [0.1, 0.9], asks=asks)
    output_index, task = answer_by_task(inference, inputs, heads, Outputs(scenario, 3, 2))
    assert task.tolist() == [0, 1, 1]
    assert output_index.tolist() == places


def test_a_group_has_one_task():
    inference = Told([0.9, 0.1], [0.0, 0.6], [0.1, 0.3], [0.4, 0.5])
    outputs = Outputs(Scenario.CL3, 2, 2)
    tasks = [answer_by_task(inference, torch.ones(4, 1), heads, outputs, group)[1].tolist() for group in (1, 2, 3)]
    assert tasks == [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]


def test_each_tasks_network_is_run_once_on_all_inputs_if_the_inference_asks():
    runs = []

    def predict(inputs: Tensor, task_id: int) -> Tensor:
        runs.append((task_id, len(inputs)))
        return heads(inputs, task_id)

    scores = ([0.9, 0.1], [0.2, 0.8], [0.1, 0.9])
    for asks, wanted in ((True, [(0, 3), (1, 3)]), (False, [(0, 1), (1, 2)])):
        runs.clear()
        answer_by_task(Told(*scores, asks=asks), torch.ones(3, 1), predict, Outputs(Scenario.CL3, 2, 2))
        assert runs == wanted


def test_inputs_that_vote_together_are_asked_together(problem, monkeypatch):
    monkeypatch.setattr(answer, "UNTOLD", 5)
    sizes = []

    class Scores(AbstractInference):
        def scores(self, inputs, ask):
            sizes.append(len(inputs))
            return inputs[:, :2]

    inputs, scores = torch.rand(12, 3), Scores()
    scores.n_begun = 2
    for group, wanted in ((1, [5, 5, 2]), (2, [4, 4, 4]), (7, [7, 5])):
        sizes.clear()
        _, task = answer.answer_by_task(scores, inputs, lambda x, t: x, problem().outputs, group)
        assert sizes == wanted
        assert torch.equal(task, vote(inputs[:, :2], group).argmax(1))
