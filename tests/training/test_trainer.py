"""The loop: what it measures and logs, and that stopping anywhere changes nothing."""

from __future__ import annotations

import errno
import itertools
import math
from dataclasses import replace

import pytest
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import CheckpointError, TrainingError, UsageError
from mnemon.learners import LEARNERS
from mnemon.training import checkpoint
from mnemon.training.trainer import Stopped, Trainer, TrainingConfig, Watcher

STEPS = 12
METHODS = sorted(LEARNERS)


class Seen(Watcher):
    def __init__(self):
        self.steps, self.tasks = [], []

    def on_step(self, progress, terms):
        self.steps.append((progress.task_id, progress.step, terms))

    def on_task_end(self, progress):
        self.tasks.append((progress.task_id, list(progress.matrix[-1])))


def state(trainer) -> dict[str, bytes]:
    return {name: tensor.detach().numpy().tobytes() for name, tensor in trainer.learner.tensors().items()}


def result(trainer) -> str:
    """All that a run comes to, without its times; repr, because NaN is not equal to itself."""
    p = trainer.progress
    return repr((p.task_id, p.step, p.matrix, p.untrained, p.losses, p.peaks))


def stop_after(steps: int):
    calls = itertools.count(1)
    return lambda: next(calls) >= steps


@pytest.mark.parametrize("method", METHODS)
def test_the_matrix_has_a_row_per_task_and_a_column_per_task(make_trainer, method):
    trainer = make_trainer(method=method)
    progress = trainer.run()
    assert [len(row) for row in progress.matrix] == [3, 3, 3]
    assert len(progress.untrained) == 3
    for i, row in enumerate(progress.matrix):
        for j, value in enumerate(row):
            told = trainer.learner.problem.scenario is Scenario.CL1
            measured = j <= i or (trainer.learner.answers_unseen and told)
            assert math.isnan(value) != measured
            assert math.isnan(value) or 0 <= value <= 100


def test_diagonal_measures_each_task_after_it_and_all_at_the_end(make_trainer):
    matrix = make_trainer("matrix=diagonal").run().matrix
    measured = [[not math.isnan(value) for value in row] for row in matrix]
    assert measured == [[True, False, False], [False, True, False], [True, True, True]]


def test_what_diagonal_measures_is_what_full_measures(make_trainer):
    diagonal, full = (make_trainer(f"matrix={rows}").run().matrix for rows in ("diagonal", "full"))
    for i, j in [(0, 0), (1, 1), (2, 0), (2, 1), (2, 2)]:
        assert diagonal[i][j] == full[i][j]


def test_losses_are_logged_every_few_steps_and_at_the_end_of_a_task(make_trainer):
    losses = make_trainer("log_every=5").run().losses
    assert [(line["task"], line["step"]) for line in losses] == [(t, s) for t in range(3) for s in (5, 10, 12)]
    assert all("task_loss" in line for line in losses)
    assert ["penalty" in line for line in losses] == [line["task"] > 0 for line in losses]


def test_a_watcher_sees_every_step_and_every_task(make_trainer):
    seen = Seen()
    progress = make_trainer(watcher=seen).run()
    assert [step[:2] for step in seen.steps] == [(t, s) for t in range(3) for s in range(1, STEPS + 1)]
    assert [task for task, _ in seen.tasks] == [1, 2, 3]
    assert repr([row for _, row in seen.tasks]) == repr(progress.matrix)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(make_trainer):
    one, again, other = (make_trainer(seed=seed) for seed in (0, 0, 1))
    for trainer in (one, again, other):
        torch.rand(int(torch.randint(1, 9, ())))  # what was drawn before must not matter
        trainer.run()
    assert state(one) == state(again)
    assert result(one) == result(again)
    assert state(one) != state(other)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("steps", [1, STEPS, 2 * STEPS + 7, 3 * STEPS])
def test_stopping_anywhere_and_resuming_changes_nothing(make_trainer, tmp_path, method, steps):
    whole = make_trainer(method=method)
    whole.run()
    stopped = make_trainer(method=method, folder=tmp_path, should_stop=stop_after(steps))
    with pytest.raises(Stopped):
        stopped.run()
    resumed = make_trainer(method=method, folder=tmp_path)
    resumed.resume()
    assert resumed.progress.task_id * STEPS + resumed.progress.step == steps
    resumed.run()
    assert state(resumed) == state(whole)
    assert result(resumed) == result(whole)


def test_a_run_stopped_after_every_step_ends_the_same(make_trainer, tmp_path):
    whole = make_trainer()
    whole.run()
    stops = 0
    for _ in range(3 * STEPS + 1):
        trainer = make_trainer(folder=tmp_path, should_stop=lambda: True)
        trainer.resume()
        try:
            trainer.run()
            break
        except Stopped:
            stops += 1
    assert stops == 3 * STEPS
    assert state(trainer) == state(whole)
    assert result(trainer) == result(whole)


def test_resuming_a_finished_run_does_nothing(make_trainer, tmp_path):
    make_trainer(folder=tmp_path).run()
    before = (tmp_path / checkpoint.FILE).read_bytes()
    again = make_trainer(folder=tmp_path)
    again.resume()
    again.run()
    assert len(again.progress.matrix) == 3
    assert (tmp_path / checkpoint.FILE).read_bytes() == before


def test_without_a_checkpoint_a_run_starts_anew(make_trainer, tmp_path):
    trainer = make_trainer(folder=tmp_path)
    trainer.resume()
    assert trainer.progress.step == 0


def test_checkpoints_come_with_the_clock_and_at_the_end_of_a_task(make_trainer, tmp_path, monkeypatch):
    moments = []
    monkeypatch.setattr(
        checkpoint, "save", lambda folder, tensors, facts: moments.append((facts["task_id"], facts["step"]))
    )
    make_trainer("checkpoint_seconds=1e9", folder=tmp_path).run()
    assert moments == [(1, 0), (2, 0), (3, 0)]
    moments.clear()
    make_trainer("checkpoint_seconds=0", "steps=2", folder=tmp_path).run()
    assert moments == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (3, 0)]


def test_a_checkpoint_of_another_seed_is_refused(make_trainer, tmp_path):
    make_trainer(folder=tmp_path).run()
    with pytest.raises(CheckpointError, match=r"^The checkpoint in .* has seed 0, not 1.$"):
        make_trainer(folder=tmp_path, seed=1).resume()


def test_a_checkpoint_of_other_settings_is_refused_and_they_are_named(make_trainer, tmp_path):
    make_trainer(folder=tmp_path).run()
    with pytest.raises(CheckpointError) as error:
        make_trainer("beta=1", "steps=5", folder=tmp_path).resume()
    assert str(error.value) == (
        f"The checkpoint in {tmp_path} was written with other settings: "
        "method.beta (0.1 and 1.0), training.steps (12 and 5) (then and now)."
    )


def fail_once(trainer, task_id: int, step: int, value: float):
    """Let one step of a learner answer with a loss that is no number."""
    train_step = trainer.learner.train_step

    def failing(batch):
        terms = train_step(batch)
        here = (trainer.progress.task_id, trainer.progress.step + 1) == (task_id, step)
        return {**terms, "task_loss": torch.tensor(value)} if here else terms

    trainer.learner.train_step = failing


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint(make_trainer, tmp_path, value):
    whole = make_trainer("checkpoint_seconds=0")
    whole.run()
    broken = make_trainer("checkpoint_seconds=0", folder=tmp_path)
    fail_once(broken, 1, 5, value)
    with pytest.raises(TrainingError) as error:
        broken.run()
    assert str(error.value) == (
        f"task_loss became {value} in task 2 ('sign -1.0'), step 5; try a smaller optimizer.lr. "
        f"The last checkpoint before that is kept in {tmp_path}."
    )
    resumed = make_trainer("checkpoint_seconds=0", folder=tmp_path)
    resumed.resume()
    assert (resumed.progress.task_id, resumed.progress.step) == (1, 4)
    resumed.run()
    assert state(resumed) == state(whole)


def test_without_a_checkpoint_none_is_promised(make_trainer, tmp_path):
    broken = make_trainer(folder=tmp_path)
    fail_once(broken, 0, 1, math.nan)
    with pytest.raises(
        TrainingError, match=r"^task_loss became nan in task 1 .*, step 1; try a smaller optimizer\.lr\.$"
    ):
        broken.run()


def test_weights_that_are_not_finite_are_neither_saved_nor_tested(make_trainer, tmp_path):
    broken = make_trainer("checkpoint_seconds=0", "lr=1e39", folder=tmp_path)
    with pytest.raises(
        TrainingError, match=r"^learner/.* became infinite or NaN in task 1 .*, step 1; try a smaller"
    ):
        broken.run()
    assert list(tmp_path.iterdir()) == []


def test_a_stream_of_another_shape_is_refused(make_trainer):
    trainer = make_trainer()
    stream = replace(trainer.stream, tasks=trainer.stream.tasks[:1])
    with pytest.raises(UsageError, match=r"has 1 tasks of \d+ outputs; the learner was built for \d+ of \d+\.$"):
        Trainer(trainer.learner, stream, trainer.config, 0)


def test_settings_that_the_learner_was_not_made_for_are_refused(make_trainer):
    trainer = make_trainer()
    for changes, message in (
        ({"scenario": Scenario.CL3}, "The learner was built for scenario = cl1; training.scenario is cl3."),
        (
            {"label_smoothing": 0.1},
            "The learner was built for label_smoothing = 0.0; training.label_smoothing is 0.1.",
        ),
    ):
        with pytest.raises(UsageError) as error:
            Trainer(trainer.learner, trainer.stream, replace(trainer.config, **changes), 0)
        assert str(error.value) == message


@pytest.mark.parametrize("call", [1, 2, 17])
def test_a_disk_that_is_full_for_a_while_costs_nothing(make_trainer, tmp_path, monkeypatch, call):
    whole = make_trainer("checkpoint_seconds=0")
    whole.run()
    calls, save_file = itertools.count(1), checkpoint.save_file

    def sometimes(*args, **kwargs):
        if next(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(*args, **kwargs)

    monkeypatch.setattr(checkpoint, "save_file", sometimes)
    with pytest.raises(CheckpointError, match="No space left on device"):
        make_trainer("checkpoint_seconds=0", folder=tmp_path).run()
    resumed = make_trainer("checkpoint_seconds=0", folder=tmp_path)
    resumed.resume()
    resumed.run()
    assert state(resumed) == state(whole)
    assert result(resumed) == result(whole)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "training.steps must be at least 1, not 0."),
        ({"batch_size": -1}, "training.batch_size must be at least 1, not -1."),
        ({"log_every": 0}, "training.log_every must be at least 1, not 0."),
        ({"label_smoothing": 1.0}, "training.label_smoothing must be at least 0 and below 1, not 1.0."),
        ({"label_smoothing": math.nan}, "training.label_smoothing must be at least 0 and below 1, not nan."),
        ({"held_out": 1.0}, "training.held_out must be at least 0 and below 1, not 1.0."),
        ({"held_out": -0.1}, "training.held_out must be at least 0 and below 1, not -0.1."),
        ({"held_out": math.nan}, "training.held_out must be at least 0 and below 1, not nan."),
        ({"checkpoint_seconds": -1.0}, "training.checkpoint_seconds must not be negative, not -1.0."),
        ({"checkpoint_seconds": math.nan}, "training.checkpoint_seconds must not be negative, not nan."),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(UsageError) as error:
        TrainingConfig(**settings)
    assert str(error.value) == message


# Checkpoints by somebody who knows how to write the digest


def crafted(folder, change) -> None:
    tensors, facts = checkpoint.load(folder)
    change(tensors, facts)
    checkpoint.write(folder / checkpoint.FILE, tensors, facts)


MOMENT = "optimizer/memory.hypernet/0/exp_avg"
MISFITS = {
    "a short moment": (lambda t, f: t.update({MOMENT: torch.zeros(1)}), "has shape [1] instead of ["),
    "a moment of another type": (
        lambda t, f: t.update({MOMENT: t[MOMENT].double()}),
        "is float64 instead of float32",
    ),
    "no moment": (lambda t, f: t.pop(MOMENT), f"'{MOMENT}' is missing"),
    "a strange moment": (lambda t, f: t.update({f"{MOMENT}_more": t[MOMENT]}), f"'{MOMENT}_more' is not known"),
    "a moment of no parameter": (
        lambda t, f: t.update({MOMENT.replace("/0/", "/99/"): t[MOMENT]}),
        "'optimizer/memory.hypernet' has no parameter such as that of",
    ),
    "a moment of no number": (
        lambda t, f: t.update({MOMENT.replace("/0/", "/-1/"): t[MOMENT]}),
        "'optimizer/memory.hypernet' has no parameter such as that of",
    ),
    "an unknown optimizer": (lambda t, f: t.update({"optimizer/x/0/exp_avg": torch.ones(1)}), "is not known"),
}


@pytest.fixture
def halfway(make_trainer, tmp_path):
    with pytest.raises(Stopped):
        make_trainer(folder=tmp_path, should_stop=stop_after(STEPS + 3)).run()
    return tmp_path


@pytest.mark.parametrize("kind", MISFITS)
def test_moments_that_do_not_fit_their_parameters_are_refused(make_trainer, halfway, kind):
    change, reason = MISFITS[kind]
    crafted(halfway, change)
    with pytest.raises(CheckpointError, match=r"^The checkpoint does not fit this learner: ") as error:
        make_trainer(folder=halfway).resume()
    assert reason in str(error.value)


CLAIMS = {
    "a billion tasks": {"n_begun": 10**9},
    "a task that there is not": {"task_id": 7},
    "a step that there is not": {"step": STEPS + 1},
    "a negative step": {"step": -1},
    "a word": {"task_id": "one"},
    "rows of another length": {"matrix": [[1.0]]},
    "rows for tasks to come": {"inferred": [[1.0] * 3] * 3},
    "no times": {"seconds": {}},
    "strange times": {"seconds": {"train": "long", "test": 0.0}},
    "strange settings": {"identity": "none"},
}


@pytest.mark.parametrize("kind", CLAIMS)
def test_progress_that_no_run_can_have_made_is_refused(make_trainer, halfway, kind):
    crafted(halfway, lambda tensors, facts: facts.update(CLAIMS[kind]))
    with pytest.raises(CheckpointError, match=r"^The checkpoint in .* is damaged: "):
        make_trainer(folder=halfway).resume()


@pytest.mark.parametrize("losses", ['{"a": 1}', "[1]", '[{"task": 0}]', '[{"task": 0, "step": "x"}]', "[" * 9999, ""])
def test_loss_curves_that_are_none_are_refused(make_trainer, halfway, losses):
    text = torch.tensor(list(losses.encode()), dtype=torch.uint8)
    crafted(halfway, lambda tensors, facts: tensors.update(losses=text))
    with pytest.raises(CheckpointError, match=r"^The checkpoint in .* is damaged: "):
        make_trainer(folder=halfway).resume()
