"""Ctrl-C at any moment leaves a model as it was: its answers, its file, and all that it learns later.

While a module computes with the weights of a task, those are in the place of the module's own. They are put in tensor
by tensor, and taken out again: interrupted there, a module would go on with some tensors of a task.
"""

from __future__ import annotations

import copy
import functools
import itertools
import signal
import threading
from collections.abc import Callable

import pytest
import torch
from clouds import Net, answers, assert_same, clouds, make
from torch import nn

import mnemon
from benchmarks.fuzz.interrupts import ALL, interrupted
from mnemon import interrupts
from mnemon.hypernet import target

KINDS = {
    "full": {},
    "adapters": {"adapters": mnemon.LoRA("first", rank=2)},
    "a part": {"generate": "last.*"},
    "densities": {"recognise": "density"},
}
STEPS, PRESSES, LINES = 2, 5, 12


@pytest.fixture(autouse=True)
def usual():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=KINDS)
def model(request) -> mnemon.ContinualModel:
    found = make(**KINDS[request.param])
    for axis, task in enumerate(("one", "two")):
        found.learn(clouds(axis), task, steps=STEPS, quiet=True)
    return found


def base() -> nn.Module:
    """The module that `make` takes."""
    torch.manual_seed(1)
    return Net()


def learn(model: mnemon.ContinualModel) -> None:
    model.learn(clouds(2), "three", steps=STEPS, quiet=True)


def relearn(model: mnemon.ContinualModel) -> None:
    model.relearn(clouds(0), "one", steps=STEPS, quiet=True)


def learn_stream(model: mnemon.ContinualModel) -> None:
    model.learn_stream([clouds(2)], steps=STEPS, name="three")


def ask(model: mnemon.ContinualModel) -> None:
    model.predict(clouds(0)[0])


VERBS = {verb.__name__: verb for verb in (learn, relearn, learn_stream, ask)}


def calls_of(monkeypatch, owner: type, name: str, work: Callable[[], None], press_after: int = -1) -> int:
    """Do a work, and let Ctrl-C come right after the n-th call of a method; return how often it was called."""
    method, calls = getattr(owner, name), itertools.count()

    def called(*arguments, **options):
        found = method(*arguments, **options)
        if next(calls) == press_after:
            signal.raise_signal(signal.SIGINT)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, called)
        work()
    return next(calls)


def at_line_of_target(work: Callable[[], None], *moments: int) -> int:
    """Press Ctrl-C at lines of the file that puts tensors in and takes them out."""
    return interrupted(work, target.__file__, *moments)


def whole(model: mnemon.ContinualModel) -> dict[str, torch.Tensor]:
    """All that a model and its module hold."""
    module = model.state.learner.memory.target.module
    return {**model.state.learner.tensors(), **{f"module/{k}": v for k, v in module.state_dict().items()}}


def modes(model: mnemon.ContinualModel) -> list[bool]:
    return [part.training for part in model.state.learner.memory.target.modules()]


def check_presses(model, verb: Callable, press: Callable[..., int], most: int = PRESSES) -> None:
    """Press Ctrl-C at some moments of a verb, and compare with a model that was left alone.

    `press` does a work and returns how many moments it has, or interrupts it at one of them.
    """
    n_moments = press(functools.partial(verb, copy.deepcopy(model)))
    assert n_moments
    for n in sorted({i * n_moments // most for i in range(most)}):
        pressed, alone = copy.deepcopy(model), copy.deepcopy(model)
        with pytest.raises(KeyboardInterrupt):
            press(functools.partial(verb, pressed), n)
        assert torch.is_grad_enabled()
        assert modes(pressed) == modes(alone)
        assert_same(whole(alone), whole(pressed))
        for each in (pressed, alone):
            learn(each)
        assert_same(whole(alone), whole(pressed))


@pytest.mark.parametrize("verb", ["relearn", "ask"])
def test_a_module_is_whole_wherever_weights_were_being_put_into_it(model, verb):
    check_presses(model, VERBS[verb], at_line_of_target, LINES)


@pytest.mark.parametrize("verb", ["learn", "ask"])
def test_the_parts_of_a_module_are_all_in_one_mode(monkeypatch, model, verb):
    if verb == "ask":  # so that it changes the mode
        for memory in model.state.learner.memories:
            memory.target.train()
    check_presses(model, VERBS[verb], functools.partial(calls_of, monkeypatch, nn.Module, "train"))


@pytest.mark.parametrize("verb", ["learn", "ask"])
def test_gradients_are_on_again_wherever_torch_had_them_off(monkeypatch, model, verb):
    check_presses(model, VERBS[verb], functools.partial(calls_of, monkeypatch, torch.no_grad, "__enter__"))


def test_a_stream_that_is_interrupted_leaves_a_model_that_can_be_kept_and_taught(model, tmp_path):
    module = model.state.learner.memory.target.module
    own = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    for n in range(3, 200, 40):
        pressed = copy.deepcopy(model)
        with pytest.raises(KeyboardInterrupt):
            at_line_of_target(functools.partial(learn_stream, pressed), n)
        assert_same(own, pressed.state.learner.memory.target.module.state_dict())
        assert pressed.tasks == ["one", "two"]
        loaded = mnemon.load(pressed.save(tmp_path / "kept"), base())
        for each in (pressed, loaded):
            learn(each)
        assert_same(answers(pressed), answers(loaded))


def test_moving_is_taken_back(monkeypatch, model):
    before = whole(model)
    with pytest.raises(KeyboardInterrupt):
        calls_of(monkeypatch, nn.Module, "to", functools.partial(model.to, "cpu"), 0)
    assert_same(before, whole(model))


@pytest.mark.parametrize("kind", KINDS)
def test_learning_is_the_same_after_ctrl_c_at_any_line(kind):
    first = make(**KINDS[kind])
    first.learn(clouds(0), "one", steps=STEPS, quiet=True)
    wanted = copy.deepcopy(first)
    n_lines = interrupted(lambda: learn(wanted), ALL)
    numbers = torch.random.get_rng_state()
    for i in range(LINES):
        model = copy.deepcopy(first)
        with pytest.raises(KeyboardInterrupt):
            interrupted(functools.partial(learn, model), ALL, i * n_lines // LINES)
        assert_same(whole(first), whole(model))
        assert torch.equal(torch.random.get_rng_state(), numbers)
        learn(model)
        assert_same(whole(wanted), whole(model))


def test_other_threads_can_go_on_wherever_ctrl_c_came():
    model, file = make(), interrupts.__file__
    model.learn(clouds(0), "one", steps=STEPS, quiet=True)
    n_lines = interrupted(lambda: ask(model), file)
    assert n_lines > 50
    for moment in range(0, n_lines, 4):
        # A notebook keeps the last error, with all that it was in the middle of.
        with pytest.raises(KeyboardInterrupt) as kept:
            interrupted(lambda: ask(model), file, moment)
        thread = threading.Thread(target=ask, args=(model,), daemon=True)
        thread.start()
        thread.join(60)
        assert kept.value.__traceback__
        assert not thread.is_alive(), "it waits for ever"
