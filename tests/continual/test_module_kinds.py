"""Modules of every kind learn task after task, and keep what they learned."""

from __future__ import annotations

import pytest
import torch

from benchmarks.modules import CASES, Case
from mnemon.continual.model import ContinualModel

STEPS = 40
CHANCE = {"multi-label": 50.0}
"""Accuracy of a guess, where there are not three classes."""
ERRORS = ("regression", "own loss")
"""Cases whose score is an error."""


def learn_two(case: Case, **settings) -> tuple[float, float]:
    """Scores of the first of two tasks before and after the second was learned."""
    torch.manual_seed(0)
    model = ContinualModel(case.make(), **settings)
    (first, test), (second, _), _ = case.tasks()
    model.learn(first, task="first", steps=STEPS, loss=case.loss, quiet=True)
    before = model.evaluate(test, "first")
    model.learn(second, task="second", steps=STEPS, loss=case.loss, quiet=True)
    return before, model.evaluate(test, "first")


def guessed_error(case: Case) -> float:
    """The error of answering the mean to all inputs."""
    loss = case.loss if callable(case.loss) else torch.nn.functional.mse_loss
    _, targets = case.tasks()[0][1]
    return float(loss(targets.mean().expand_as(targets), targets))


@pytest.mark.parametrize("name", CASES)
def test_a_module_of_every_kind_learns_and_keeps(name, memory):
    # Plain learning takes smaller steps at the same rate than a hypernetwork, of which many parameters move a weight.
    before, after = learn_two(CASES[name], lr=2e-2 if memory == "exact" else 2e-3)
    if name in ERRORS:
        assert before < 0.5 * guessed_error(CASES[name])
        assert after < 1.3 * before
    else:
        assert before > CHANCE.get(name, 100 / 3) + 35
        assert after > before - 5


@pytest.mark.only_memory("generated")
@pytest.mark.parametrize("name", ["CNN, batch norm", "regression"])
def test_without_the_penalty_it_forgets(name):
    before, after = learn_two(CASES[name], beta=0.0)
    assert after > 3 * before if name in ERRORS else after < before - 10


def test_there_is_a_case_for_every_kind_that_is_promised():
    promised = ["batch norm", "group norm", "LSTM", "GRU", "transformer", "two inputs", "tied", "frozen", "half"]
    promised += ["regression", "multi-label", "sequence", "own loss"]
    assert [word for word in promised if not any(word in name for name in CASES)] == []
