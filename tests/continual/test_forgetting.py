"""Tasks are forgotten, learned again and renamed one by one, and the others do not notice."""

from __future__ import annotations

import pytest
import torch
from clouds import STEPS, answers, assert_same, clouds, make
from hypothesis import given, settings
from hypothesis import strategies as st


def three(**settings):
    model = make(**settings)
    for axis, task in enumerate(("monday", "tuesday", "wednesday")):
        model.learn(clouds(axis), task=task, steps=4, quiet=True)
    return model


@pytest.mark.parametrize("recognise", ["entropy", "density"])
@pytest.mark.parametrize("task", ["monday", "tuesday", "wednesday"])
def test_a_forgotten_task_leaves_the_others_bit_for_bit(task, recognise):
    model = three(recognise=recognise)
    before = answers(model)
    statistics = {name: model.network(name).norm.running_mean for name in model.tasks}
    model.forget(task)
    del before[task], statistics[task]
    assert_same(before, answers(model))
    assert_same(statistics, {name: model.network(name).norm.running_mean for name in model.tasks})
    assert set(model.predict(clouds(0)[0]).task) <= {*before, "unknown"}


@pytest.mark.only_memory("generated")
def test_nothing_of_a_forgotten_task_is_left_in_the_file(learned, tmp_path):
    memory = learned.state.learner.memory
    traces = {
        "embedding": memory.embeddings[0].detach().numpy().tobytes(),
        "statistics": memory.buffers_of[0]["norm.running_mean"].numpy().tobytes(),
        "name": b"monday",
    }
    # A trace of it would be in parts as well: any four numbers in a row.
    traces |= {f"part {i}": traces["embedding"][16 * i : 16 * i + 16] for i in range(8)}
    before = learned.save(tmp_path / "with").read_bytes()
    assert [name for name, trace in traces.items() if trace not in before] == []
    learned.forget("monday")
    after = learned.save(tmp_path / "without").read_bytes()
    assert [name for name, trace in traces.items() if trace in after] == []


def test_a_name_is_free_again_once_its_task_is_forgotten(learned):
    learned.forget("monday")
    learned.learn(clouds(2), task="monday", steps=STEPS, quiet=True)
    assert learned.tasks == ["tuesday", "monday"]
    assert learned.evaluate(clouds(2, seed=1), "monday") > 95
    assert learned.evaluate(clouds(1, labels=(7, 9), seed=1), "tuesday") > 95


def test_all_tasks_can_be_forgotten_and_new_ones_learned():
    model = three()
    for task in model.tasks:
        model.forget(task)
    assert model.tasks == []
    model.learn(clouds(0), task="again", steps=STEPS, quiet=True)
    assert model.evaluate(clouds(0, seed=1), "again") > 85


def test_relearning_goes_on_with_one_task_and_holds_the_others(learned, memory):
    before, n_examples = answers(learned), learned.about("monday").n_examples
    learned.relearn(clouds(0, labels=(4, 5), seed=2), task="monday", steps=STEPS, quiet=True)
    assert learned.tasks == ["tuesday", "monday"]
    assert learned.about("monday").n_examples == n_examples + 120
    assert learned.evaluate(clouds(0, labels=(4, 5), seed=1), "monday") > 95
    assert learned.evaluate(clouds(1, labels=(7, 9), seed=1), "tuesday") > 95
    moved = {task: float((answers(learned)[task] - before[task]).norm()) for task in before}
    assert moved["monday"] > moved["tuesday"]
    assert (moved["tuesday"] == 0) == (memory == "exact")


def test_relearning_starts_from_what_was_learned(learned):
    new = learned.learn(clouds(0, labels=(4, 5)), task="new", steps=1, quiet=True)
    again = learned.relearn(clouds(0, labels=(4, 5)), task="monday", steps=1, quiet=True)
    assert again.score > 75 > new.score


@pytest.mark.parametrize("kind", ["labels", "numbers", "own"])
def test_relearning_asks_what_was_asked_before(kind):
    inputs, _ = clouds(0)
    targets = (inputs[:, :3] > 0.5).long()
    loss = (lambda outputs, targets: (outputs - targets).abs().mean()) if kind == "own" else kind
    model = make()
    first = model.learn((inputs, targets), task="one", loss=loss, steps=2, quiet=True)
    again = model.relearn((inputs, targets), task="one", steps=2, quiet=True)
    assert again.goal == first.goal


def test_a_task_has_another_name(learned):
    before = answers(learned)
    learned.rename("monday", "first")
    learned.rename("first", "first")
    assert learned.tasks == ["first", "tuesday"]
    assert torch.equal(answers(learned)["first"], before["monday"])


MOVES = st.lists(st.tuples(st.sampled_from(["forget", "relearn", "rename", "learn"]), st.integers(0, 9)), max_size=5)


@given(MOVES)
@settings(max_examples=12)
def test_names_and_networks_stay_together_whatever_is_done(moves):
    model, axis_of = make(), {}
    for number, (move, which) in enumerate([("learn", 0), ("learn", 1), *moves]):
        task = model.tasks[which % len(model.tasks)] if model.tasks else None
        before, new = answers(model), f"task {number}"
        if move == "learn" or task is None:
            axis_of[new] = which % 4
            model.learn(clouds(which % 4), task=new, steps=1, quiet=True)
            wanted = [*before, new]
        elif move == "forget":
            model.forget(task)
            wanted = [name for name in before if name != task]
            assert_same({name: before[name] for name in wanted}, answers(model))
        elif move == "rename":
            model.rename(task, new)
            axis_of[new] = axis_of[task]
            wanted = [new if name == task else name for name in before]
            assert torch.equal(answers(model)[new], before[task])
        else:
            model.relearn(clouds(axis_of[task], seed=1), task=task, steps=1, quiet=True)
            wanted = [*(name for name in before if name != task), task]
        assert model.tasks == wanted
        assert model.state.learner.n_tasks == len(wanted)
