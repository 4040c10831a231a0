"""Which outputs a scenario lets compete: a head per task, one head for all, or a softmax that grows."""

from __future__ import annotations

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mnemon.benchmarks.scenario import Outputs, Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.models import TargetConfig
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import Problem

CL1, CL2, CL3 = Scenario

streams = st.tuples(st.integers(1, 6), st.integers(1, 5))
"""Tasks, and outputs of each."""


def test_there_are_three_scenarios():
    assert [scenario.value for scenario in Scenario] == ["cl1", "cl2", "cl3"]


@pytest.mark.parametrize(
    ("scenario", "total", "heads", "seen", "competing"),
    [
        # competing: of task 0 and of task 1 when two tasks were seen
        (CL1, 6, [(0, 2), (2, 4), (4, 6)], [(0, 0), (0, 2), (0, 4), (0, 6)], [(0, 2), (2, 4)]),
        (CL2, 2, [(0, 2), (0, 2), (0, 2)], [(0, 0), (0, 2), (0, 2), (0, 2)], [(0, 2), (0, 2)]),
        (CL3, 6, [(0, 2), (2, 4), (4, 6)], [(0, 0), (0, 2), (0, 4), (0, 6)], [(0, 4), (0, 4)]),
    ],
)
def test_the_outputs_of_three_tasks_of_two_classes(scenario, total, heads, seen, competing):
    outputs = Outputs(scenario, n_tasks=3, per_task=2)
    assert outputs.total == total
    assert [outputs.head(task) for task in range(3)] == heads
    assert outputs.columns(torch.tensor([2, 0])).tolist() == [list(range(*heads[2])), list(range(*heads[0]))]
    assert [outputs.seen(n) for n in range(4)] == seen
    assert [outputs.competing(task, 2) for task in range(2)] == competing


@given(streams, st.sampled_from([CL1, CL3]))
def test_heads_of_their_own_lie_side_by_side_and_fill_all_outputs(stream, scenario):
    outputs = Outputs(scenario, *stream)
    places = [output_index for task in range(outputs.n_tasks) for output_index in range(*outputs.head(task))]
    assert places == list(range(outputs.total))


@given(streams)
def test_a_single_head_is_everybodys(stream):
    outputs = Outputs(CL2, *stream)
    whole = (0, outputs.per_task)
    for task in range(outputs.n_tasks):
        assert outputs.head(task) == outputs.seen(task + 1) == outputs.competing(task, task + 1) == whole
    assert outputs.total == outputs.per_task


@given(streams, st.data())
def test_the_softmax_of_cl3_grows_by_a_head_with_every_task(stream, data):
    outputs = Outputs(CL3, *stream)
    n_seen = data.draw(st.integers(1, outputs.n_tasks))
    task = data.draw(st.integers(0, n_seen - 1))
    assert outputs.competing(task, n_seen) == (0, n_seen * outputs.per_task)


@given(streams, st.sampled_from(Scenario), st.data())
def test_the_place_of_a_class_is_in_its_tasks_head_and_tells_the_task(stream, scenario, data):
    outputs = Outputs(scenario, *stream)
    task = data.draw(st.integers(0, outputs.n_tasks - 1))
    targets = torch.arange(outputs.per_task)
    output_index = outputs.output_index(targets, task)
    assert output_index.tolist() == list(range(*outputs.head(task)))
    found = outputs.task_of(output_index)
    if scenario is CL2:
        assert found is None
        assert torch.equal(output_index, targets)
    else:
        assert found.tolist() == [task] * outputs.per_task


def masked_cross_entropy(logits: list[float], true: int, allowed: list[int]) -> float:
    """The slow twin: a softmax in which only the allowed outputs take part."""
    assert true in allowed
    largest = max(logits[output_index] for output_index in allowed)
    total = sum(math.exp(logits[output_index] - largest) for output_index in allowed)
    return -(logits[true] - largest - math.log(total))


ALLOWED = {
    # the outputs that compete for an input of task 1 (of four, with two classes) when three tasks were seen
    CL1: [2, 3],
    CL2: [0, 1],
    CL3: [0, 1, 2, 3, 4, 5],
}


@pytest.mark.parametrize("scenario", Scenario)
def test_the_loss_among_all_outputs_equals_a_masked_cross_entropy(scenario, problem, double):
    made = problem(n_tasks=4, scenario=scenario)
    outputs, targets = 3 * torch.randn(10, made.outputs.total), torch.randint(2, (10,))
    offset = 0 if scenario is CL2 else 2
    each = [
        masked_cross_entropy(row, offset + target, ALLOWED[scenario])
        for row, target in zip(outputs.tolist(), targets.tolist(), strict=True)
    ]
    found = made.loss_among_all(outputs, targets, task_id=1, n_seen=3)
    assert found.item() == pytest.approx(sum(each) / len(each), rel=1e-12)


@pytest.mark.parametrize("scenario", Scenario)
def test_outputs_that_do_not_compete_get_no_gradient(scenario, problem):
    made = problem(n_tasks=4, scenario=scenario)
    outputs = torch.randn(10, made.outputs.total, requires_grad=True)
    made.loss_among_all(outputs, torch.randint(2, (10,)), task_id=1, n_seen=3).backward()
    moved = [output_index for output_index in range(made.outputs.total) if outputs.grad[:, output_index].any()]
    assert moved == ALLOWED[scenario]


def test_smoothing_spreads_over_the_outputs_that_compete(problem, double):
    made = problem(n_tasks=4, scenario=CL3, label_smoothing=0.3)
    outputs, targets = torch.randn(5, 8), torch.tensor([0, 1, 0, 1, 1])
    aim = torch.full((5, 6), 0.3 / 5)
    aim[torch.arange(5), targets + 2] = 0.7
    wanted = -(aim * outputs[:, :6].log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(made.loss_among_all(outputs, targets, 1, 3), wanted, rtol=1e-12, atol=1e-12)


def test_numbers_to_predict_are_taken_from_the_tasks_own_head(problem):
    made = problem(n_tasks=3, kind=TaskKind.REGRESSION)
    outputs, targets = torch.randn(5, 6), torch.randn(5, 2)
    wanted = ((outputs[:, 2:4] - targets) ** 2).mean()
    torch.testing.assert_close(made.loss_among_all(outputs, targets, 1, 3), wanted)


@pytest.mark.parametrize("scenario", [CL2, CL3])
def test_regression_is_refused_where_the_task_is_not_told(scenario):
    message = f"Scenario {scenario.value} needs classes, and this is a regression: use cl1."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        Problem(TaskKind.REGRESSION, 3, (4,), 1, TargetConfig(), OptimizerConfig(), 0.0, scenario)
