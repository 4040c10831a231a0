"""What is said at the end of a run: a mechanism that had no effect, a task that was not learned; and nothing else."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import tiny

from mnemon.benchmarks.sources import load
from mnemon.benchmarks.split import split
from mnemon.benchmarks.toy_regression import toy_regression
from mnemon.learners import LEARNERS
from mnemon.training.trainer import Progress, Trainer, idle_mechanisms, task_alarms


def never(what: str, term: str) -> str:
    return f"{what} had no effect: '{term}' was 0 in every step from the second task on."


IDLE = {
    "online-ewc": ("strength=0", never("The penalty on changes of important weights", "penalty")),
    "synaptic-intelligence": ("strength=0", never("The penalty on changes of important weights", "penalty")),
    "hypernet": ("beta=0", never("The penalty on changes of generated weights", "penalty")),
    "hypernet-lik": ("method.beta=0", never("The penalty on changes of generated weights", "penalty")),
    "hypernet-stat": ("method.beta=0", never("The penalty on changes of generated weights", "penalty")),
    "replay": ("replay.beta=0", never("The penalty on changes of what is replayed", "replay_penalty")),
    "xdg": ("silent=0", never("The gates on hidden units", "silent")),
}


@pytest.mark.parametrize("method", LEARNERS)
def test_in_an_ordinary_run_all_mechanisms_act(method, make_trainer):
    trainer = make_trainer(method=method)
    assert idle_mechanisms(trainer.learner, trainer.run()) == []


@pytest.mark.parametrize("method", IDLE)
def test_a_mechanism_that_never_acts_is_named_unless_it_was_switched_off(method, make_trainer):
    switched_off, message = IDLE[method]
    scenario = "scenario=cl3" if method in ("replay", "hypernet-lik", "hypernet-stat") else "scenario=cl1"
    peaks = {"task_loss": 1.0, "replay_loss": 1.0, "density_penalty": 1.0}
    learner = make_trainer(scenario, method=method).learner
    assert idle_mechanisms(learner, Progress(task_id=3, peaks=peaks)) == [message]
    learner = make_trainer(scenario, switched_off, method=method).learner
    assert idle_mechanisms(learner, Progress(task_id=3, peaks=peaks)) == []


def test_gates_that_use_no_unit_hold_nothing(make_trainer):
    trainer = make_trainer(method="hat")
    trainer.learner.finish_learning = lambda examples: None  # nothing is ever counted as used
    assert idle_mechanisms(trainer.learner, trainer.run()) == [
        never("The protection of the weights of used units", "held")
    ]


def test_replay_that_was_never_drawn_is_named(make_trainer):
    learner = make_trainer("scenario=cl3", method="replay").learner
    assert idle_mechanisms(learner, Progress(task_id=3, peaks={"task_loss": 1.0, "replay_penalty": 0.1})) == [
        never("The loss on replayed inputs", "replay_loss")
    ]


def test_all_idle_mechanisms_are_named(make_trainer):
    learner = make_trainer(method="hypernet-tir").learner
    assert idle_mechanisms(learner, Progress(task_id=3, peaks={"task_loss": 1.0})) == [
        never("The penalty on changes of generated weights", "penalty"),
        never("The loss of the task classifier", "inference_loss"),
        never("The penalty on changes of what is replayed", "replay_penalty"),
    ]


@pytest.mark.parametrize("method", IDLE)
def test_of_a_single_task_nothing_has_to_be_kept(method, make_trainer):
    learner = make_trainer(IDLE[method][0], method=method).learner
    assert idle_mechanisms(learner, Progress(task_id=1)) == []


@pytest.mark.parametrize("model", ["vae", "gan", "plain-vae", "real", "present"])
def test_of_two_tasks_a_replay_model_learns_one_and_has_none_before_it_to_keep(model, make_trainer):
    three = make_trainer("scenario=cl3", method="replay")
    stream = replace(three.stream, tasks=three.stream.tasks[:2])
    problem = replace(three.learner.problem, n_tasks=2)
    config = tiny.config_of("replay", {"replay.model": model})
    trainer = Trainer(LEARNERS["replay"](config, problem), stream, three.config, 0)
    assert idle_mechanisms(trainer.learner, trainer.run()) == []


def test_only_the_largest_size_from_the_second_task_on_counts():
    progress = Progress()
    progress.see({"penalty": 9.0})
    assert progress.peaks == {}
    progress.task_id = 1
    for value in (0.5, -2.0, 1.0):
        progress.see({"penalty": value, "held": 0.0})
    assert progress.peaks == {"penalty": 2.0, "held": 0.0}


# Tasks that were not learned


def test_a_task_with_one_answer_to_everything_is_named_and_one_that_was_forgotten_is_not(stream):
    share = 100 * stream.tasks[1].test.targets.bincount().max().item() / len(stream.tasks[1].test)
    nan = math.nan
    progress = Progress(task_id=3, matrix=[[90.0, nan, nan], [90.0, share, nan], [20.0, 20.0, share + 10]])
    assert task_alarms(stream, progress) == [
        f"Task 2 ('sign -1.0') was not learned: {share:.2f} after learning it; always answering its most "
        f"frequent class scores {share:.2f}. Try a smaller optimizer.lr, or more steps."
    ]


@pytest.mark.parametrize(
    ("score", "inferred", "said"),
    [
        (40.0, 41.0, ""),
        (20.0, 41.0, "was not learned: 20.00 after learning it"),
        (40.0, math.nan, "was not learned: 40.00 after learning it"),
        (25.1, 25.1, ""),
        (24.9, 24.9, "was hardly identified: after learning it, 24.90 % of its inputs were assigned to it; guessing "
         "among the tasks so far gives 50.00 %."),
        (0.0, 0.0, "was hardly identified: after learning it, 0.00 % of its inputs were assigned to it; "),
    ],
)  # fmt: skip
def test_a_task_that_is_taken_for_another_one_is_not_called_unlearned(score, inferred, said, stream):
    nan = math.nan
    progress = Progress(
        task_id=2,
        matrix=[[90.0, nan, nan], [90.0, score, nan]],
        inferred=[[nan if math.isnan(inferred) else 100.0, nan, nan], [90.0, inferred, nan]],
    )
    alarms = task_alarms(stream, progress)
    assert len(alarms) == bool(said)
    assert not said or alarms[0].startswith(f"Task 2 ('sign -1.0') {said}")


def test_a_task_of_one_class_has_one_answer_to_everything():
    one_class = split(load("digits"), classes_per_task=1)
    perfect = [[100.0 if j <= i else math.nan for j in range(len(one_class))] for i in range(len(one_class))]
    assert task_alarms(one_class, Progress(task_id=len(one_class), matrix=perfect)) == []


def test_numbers_to_predict_have_no_most_frequent_one():
    assert task_alarms(toy_regression(0), Progress(task_id=1, matrix=[[0.1, math.nan, math.nan]])) == []
