"""Samples in the run folder: drawn right after a task and never again, then at the end, resumed or not."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import tiny
import torch

from mnemon.experiments.artifacts import samples as replay_samples
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import execute, new_folder
from mnemon.experiments.run_config import resolve
from mnemon.learners import LEARNERS
from mnemon.results import samples
from mnemon.results.record import RunRecord
from mnemon.results.samples import Moment
from mnemon.training.trainer import Stopped

PLACE = Compute("cpu")
WORDS = ["method=replay", "scenario=cl3", "steps=3", "batch_size=8", "target.hidden=[6]", "n_tasks=3"]


def config(*words: str):
    return resolve(load_preset("split-digits"), [*WORDS, *tiny.words_of("replay"), *words])


def files(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "samples").glob("*"))}


@pytest.fixture
def learner(problem, picture_batch, pictures):
    """A learner of pictures of nine pixels in the middle of its second task."""
    made = LEARNERS["replay"](tiny.config_of("replay"), problem(shape=(9,), lr=0.02))
    for task in range(2):
        made.begin_task(task)
        for step in range(3):
            made.train_step(picture_batch(task, step))
        if task == 0:
            made.end_task(pictures.tasks[0].train)
    return made


def test_a_task_is_drawn_right_after_it_and_not_again(learner, pictures, tmp_path):
    replay_samples.keep_right_after(learner, tmp_path, 0)
    before = files(tmp_path)
    assert list(before) == ["task-01-right-after.png"]
    assert samples.read(tmp_path, 0, Moment.RIGHT_AFTER).shape == (64, 3, 3)
    learner.end_task(pictures.tasks[1].train)  # from here on, task 1 is drawn by the hypernetwork as it is now
    replay_samples.keep_right_after(learner, tmp_path, 0)
    assert files(tmp_path) == before
    assert replay_samples.keep_at_the_end(learner, tmp_path)[0] > 0


def test_a_task_that_is_not_learned_yet_is_not_drawn(learner, tmp_path):
    replay_samples.keep_right_after(learner, tmp_path, 1)
    assert files(tmp_path) == {}


def test_samples_do_not_touch_the_random_numbers_of_the_run(learner, tmp_path):
    before = torch.get_rng_state()
    replay_samples.keep_right_after(learner, tmp_path, 0)
    replay_samples.keep_at_the_end(learner, tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_at_the_end_every_task_is_drawn_from_the_same_noise(learner, tmp_path):
    replay_samples.keep_right_after(learner, tmp_path, 0)
    assert replay_samples.keep_at_the_end(learner, tmp_path) == [0.0], "nothing has moved since"
    assert list(files(tmp_path)) == ["sheet.png", "task-01-at-the-end.png", "task-01-right-after.png"]


@pytest.mark.parametrize("name", ["hypernet", "replay"])
def test_learners_without_a_generator_draw_nothing(name, problem, tmp_path):
    changes = {"replay.model": "real"} if name == "replay" else {}
    learner = LEARNERS[name](tiny.config_of(name, changes), problem(shape=(9,)))
    learner.begin_task(0)
    replay_samples.keep_right_after(learner, tmp_path, 0)
    assert replay_samples.keep_at_the_end(learner, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_draws_all_tasks_together_is_shown_but_has_no_drift(tmp_path):
    folder = new_folder(tmp_path / "run")
    sizes = [f"method.replay.{name}" for name in ("model=plain-vae", "encoder=[10]", "decoder=[10]", "latent=3")]
    plain = resolve(load_preset("split-digits"), [*WORDS, "method=replay", *sizes])
    assert execute(Job(0, plain, 0, folder), RunContext(PLACE)).drift == []
    names = [f"task-0{task}-{moment}.png" for task in (1, 2) for moment in ("at-the-end", "right-after")]
    assert list(files(folder)) == ["sheet.png", *names]


def test_a_run_that_was_stopped_and_resumed_has_the_same_samples(tmp_path):
    whole, stopped = new_folder(tmp_path / "whole"), new_folder(tmp_path / "stopped")
    record = execute(Job(0, config(), 0, whole), RunContext(PLACE))
    assert len(record.drift) == 2
    assert RunRecord.read(whole).drift == record.drift
    names = [f"task-0{task}-{moment}.png" for task in (1, 2) for moment in ("at-the-end", "right-after")]
    assert list(files(whole)) == ["sheet.png", *names]
    for part, steps in enumerate((2, 3, 1, 100)):  # up to the middle of task 1, of task 2, its end, the end
        if part == 2:  # samples that were lost while task 2 is learned are drawn as they were before it
            samples.path_of(stopped, 0, Moment.RIGHT_AFTER).unlink()
        calls = itertools.count(1)
        with contextlib.suppress(Stopped):
            execute(
                Job(0, config(), 0, stopped),
                RunContext(PLACE, should_stop=lambda calls=calls, steps=steps: next(calls) >= steps),
            )
        assert RunRecord.read(stopped).finished == (part == 3)
    assert files(stopped) == files(whole)
