"""A learning that fails or is stopped leaves the model as it was, in its answers and in all that it learns later."""

from __future__ import annotations

import pytest
import torch
from clouds import answers, assert_same, clouds, make

import mnemon

INPUTS, _ = clouds(0)
DATA = (INPUTS, INPUTS[:, :3].clone())


def error(outputs, targets):
    return (outputs - targets).square().mean()


class Failing:
    """A loss that fails when it is asked for the n-th time."""

    def __init__(self, n: int, failure):
        self.n, self.failure = n, failure

    def __call__(self, outputs, targets):
        self.n -= 1
        if self.n > 0:
            return error(outputs, targets)
        if isinstance(self.failure, float):
            return self.failure * error(outputs, targets)
        raise self.failure


def two_tasks(**settings) -> mnemon.ContinualModel:
    model = make(**settings)
    for axis, task in enumerate(("one", "two")):
        inputs, _ = clouds(axis)
        model.learn((inputs, inputs[:, :3].clone()), task=task, loss=error, steps=4, quiet=True)
    return model


FAILURES = {
    "not a number": (float("nan"), mnemon.UsageError),
    "too large": (float("inf"), mnemon.UsageError),
    "an error of the loss": (RuntimeError("mine"), RuntimeError),
    "stopped": (KeyboardInterrupt(), KeyboardInterrupt),
}
STEPS = 5
MOMENTS = {"the check": 1, "the first step": 2, "the last step": STEPS + 1, "the score": STEPS + 2}
"""The loss is asked once before the steps, and once after."""
# Only steps look at the value of a loss.
WHEN = [(f, m) for f, (what, _) in FAILURES.items() for m in MOMENTS if "step" in m or not isinstance(what, float)]


@pytest.mark.parametrize("verb", ["learn", "relearn"])
@pytest.mark.parametrize(("failure", "moment"), WHEN)
def test_a_failure_leaves_no_trace(failure, verb, moment):
    what, raised = FAILURES[failure]
    model, twin = two_tasks(), two_tasks()
    before, drawn = [model.about(task) for task in model.tasks], torch.random.get_rng_state()
    task = "three" if verb == "learn" else "one"
    with pytest.raises(raised):
        getattr(model, verb)(DATA, task=task, loss=Failing(MOMENTS[moment], what), steps=STEPS, quiet=True)
    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert [model.about(task) for task in model.tasks] == before
    assert_same(answers(twin), answers(model))
    for each in (model, twin):
        each.learn(DATA, task="three", loss=error, steps=3, quiet=True)
        each.relearn(DATA, task="one", steps=3, quiet=True)
    assert_same(answers(twin), answers(model))
    assert_same(twin.state.learner.tensors(), model.state.learner.tensors())


def test_a_loss_that_is_no_number_is_named_with_its_step():
    loss = Failing(4, float("nan"))
    with pytest.raises(mnemon.UsageError) as found:
        two_tasks().learn(DATA, task="three", loss=loss, steps=STEPS, quiet=True)
    assert str(found.value) == (
        "The loss of task 'three' became nan in step 3: try a smaller lr. The model is as it was before."
    )


def test_gradients_without_end_are_named():
    class Steep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, outputs):
            return outputs.mean()

        @staticmethod
        def backward(ctx, gradient):
            return torch.full((120, 3), float("inf"))

    model = two_tasks()
    before = answers(model)
    with pytest.raises(mnemon.UsageError) as found:
        model.learn(DATA, "x", loss=lambda o, t: Steep.apply(o), steps=1, batch_size=120, quiet=True)
    assert str(found.value) == (
        "The gradient of task 'x' became infinite: try a smaller lr. The model is as it was before."
    )
    assert_same(before, answers(model))


@pytest.mark.parametrize("n_before", [0, 1])
def test_densities_are_as_they_were_too(n_before):
    models = [make(recognise="density") for _ in range(2)]
    for axis in range(n_before):
        for model in models:
            model.learn(clouds(axis), task=f"task {axis}", steps=3, quiet=True)
    with pytest.raises(KeyboardInterrupt):
        models[0].learn(DATA, task="x", loss=Failing(3, KeyboardInterrupt()), steps=STEPS, quiet=True)
    assert (models[0].state.learner.densities is None) == (n_before == 0)
    for model in models:
        model.learn(clouds(2), task="later", steps=3, quiet=True)
    assert_same(answers(models[0]), answers(models[1]))
    assert models[0].predict(INPUTS).task == models[1].predict(INPUTS).task


def test_validation_data_that_cannot_be_leave_no_trace():
    model = two_tasks()
    before = answers(model)
    with pytest.raises(mnemon.UsageError, match="validation data: inputs hold a value that is not finite"):
        model.learn(DATA, "x", loss=error, validation=(INPUTS * float("nan"), DATA[1]), steps=2, quiet=True)
    assert_same(before, answers(model))
    assert model.tasks == ["one", "two"]
