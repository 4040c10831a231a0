"""Sweeps: no finished trial is lost or repeated, whatever ends a trial before its time."""

from __future__ import annotations

import errno
import importlib.util
import io
import itertools
import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend
from rich.console import Console

from mnemon.errors import TrainingError, UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.engines import Ended, WorkerLost
from mnemon.experiments.job import RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import execute
from mnemon.experiments.run_config import resolve
from mnemon.experiments.sweep import storage
from mnemon.experiments.sweep import trials as sweep_trials
from mnemon.experiments.sweep.prepare import SweepRequest, prepare
from mnemon.experiments.sweep.space import load_space
from mnemon.experiments.sweep.trials import MOST_TRIES, Sweep, run_sweep
from mnemon.notation import read_toml
from mnemon.results.record import RunRecord
from mnemon.results.sweep import COUNTED, SweepRecord, Trial, command, rank, read_trials, render_sweep, write_best
from mnemon.training.trainer import Stopped

PLACE = Compute("cpu")
SPACE = """
preset = "toy"
pruning = {pruning}
[set]
steps = 3
checkpoint_seconds = 0.0
[search]
lr = {{low = 1e-3, high = 1e-1, log = true}}
hypernet.hidden = [[], [4]]
embedding_size = {{low = 1, high = 3}}
"""


class Here:
    """An engine that runs jobs in this process, one after another, each with the fate that a test has for it."""

    def __init__(self, fates=None, room: int = 1):
        self.fates, self.size = fates or {}, room
        """By the number of a job: an error in place of the run, or after how many questions it is lost or stopped."""
        self.jobs: list = []
        self.done: list[int] = []
        self.asked: set[int] = set()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        assert not error[0] or not self.jobs or issubclass(error[0], BaseException)

    def room(self) -> int:
        return self.size - len(self.jobs)

    def start(self, job) -> None:
        self.jobs.append(job)

    def stop(self, *numbers) -> None:
        self.asked |= set(numbers or [job.number for job in self.jobs])

    def poll(self, wait):
        if not self.jobs:
            return [], []
        job, events = self.jobs.pop(0), []
        fate = self.fates.get(job.number)
        if isinstance(fate, BaseException):
            return [], [Ended(job, fate)]
        left = math.inf if fate is None else fate[1]

        def should_stop() -> bool:
            nonlocal left
            left -= 1
            return left < 0 or job.number in self.asked

        try:
            execute(job, RunContext(PLACE, on_event=events.append, should_stop=should_stop))
        except Stopped as stop:
            return events, [Ended(job, fate[0] if fate else stop)]
        except UsageError as error:
            return events, [Ended(job, error)]
        self.done.append(job.number)
        return events, [Ended(job, None)]


@pytest.fixture
def sweep(tmp_path):
    """Begin or go on with a sweep of the toy tasks; return its trials."""

    def run(engine=None, trials=None, out="sweep", should_stop=lambda: False, pruning="false", **options):
        (tmp_path / "space.toml").write_text(SPACE.format(pruning=pruning))
        seed, minutes = options.pop("seed", 0), options.pop("minutes", None)
        ready = prepare(
            SweepRequest(space=str(tmp_path / "space.toml"), out=tmp_path / out, seed=seed, trials=trials), PLACE
        )
        return run_sweep(ready, engine or Here(), lambda trials: None, should_stop, minutes)

    return run


def settings(trials) -> list:
    return [trial.settings for trial in trials]


def test_what_a_trial_killed_at_its_very_end_leaves_aside_goes_when_the_sweep_goes_on(sweep, tmp_path):
    sweep(trials=1)
    left = tmp_path / "sweep" / "trials" / "trial-0000" / ".record.json.abcdefgh.new"
    left.mkdir()
    sweep(trials=1)
    assert not left.exists()


def test_trials_are_runs_whose_records_hold_their_score(sweep, tmp_path):
    trials = sweep(trials=3)
    assert [trial.state for trial in trials] == ["finished"] * 3
    for trial in trials:
        record = RunRecord.read(tmp_path / "sweep" / "trials" / trial.folder)
        assert record.finished
        assert record.seed == 0
        assert record.accuracy.final.value == trial.score
        assert record.config["optimizer"]["lr"] == trial.settings["optimizer.lr"]
        assert record.config["method"]["hypernet"]["hidden"] == trial.settings["method.hypernet.hidden"]
        assert record.config["training"]["held_out"] == 0.1


@pytest.mark.parametrize("after", range(0, 12, 3))
def test_a_sweep_on_a_full_disk_ends_in_one_line_and_is_resumed_when_there_is_room(
    sweep, monkeypatch, tmp_path, after
):
    written, append = itertools.count(), JournalFileBackend.append_logs

    def full(self, logs) -> None:
        if next(written) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, logs)

    with monkeypatch.context() as disk:
        disk.setattr(JournalFileBackend, "append_logs", full)
        with pytest.raises(UsageError) as error:
            sweep(trials=2)
    assert str(error.value) == (
        f"The sweep in {tmp_path / 'sweep'} cannot be written: No space left on device. "
        "Free some space or make the folder writable, then resume."
    )
    assert [trial.state for trial in sweep(trials=2) if trial.state in COUNTED] == ["finished"] * 2


def test_an_error_that_is_no_matter_of_the_folder_stays_what_it_is(tmp_path):
    with pytest.raises(ConnectionRefusedError), storage.said_of_folder(tmp_path):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")


def test_the_same_seed_chooses_the_same_settings(sweep):
    first, same, other = sweep(trials=4), sweep(trials=4, out="same"), sweep(trials=4, out="other", seed=1)
    assert settings(first) == settings(same)
    assert [trial.score for trial in first] == [trial.score for trial in same]
    assert settings(first) != settings(other)
    assert len({json.dumps(trial.settings) for trial in first}) == 4


def test_a_sweep_that_goes_on_ends_as_one_in_a_piece(sweep):
    whole = sweep(trials=5, out="whole")
    sweep(trials=2)
    assert sweep(trials=2) == sweep()  # there are enough
    engine = Here()
    assert settings(sweep(engine, trials=5)) == settings(whole)
    assert engine.done == [2, 3, 4]


def test_what_was_stopped_goes_on_from_its_checkpoint(sweep, tmp_path):
    whole = sweep(trials=3, out="whole")
    calls = iter([False, False, False, True])
    with pytest.raises(Stopped):
        sweep(Here({2: (Stopped(), 4)}), trials=3, should_stop=lambda: next(calls, True))
    engine = Here()
    trials = sweep(engine)
    assert engine.done == [3]  # the third with a new number
    assert [trial.state for trial in trials] == ["finished", "finished", "failed", "finished"]
    assert trials[3].folder == trials[2].folder == "trial-0002"
    assert trials[3].settings == trials[2].settings == whole[2].settings
    assert trials[3].score == whole[2].score  # bit for bit
    assert trials[3].tasks == 3


def test_a_trial_whose_process_is_killed_is_tried_again(sweep):
    engine = Here({1: (WorkerLost(), 5)})
    trials = sweep(engine, trials=3)
    assert engine.done == [0, 2, 3]
    assert trials[2].settings == trials[1].settings
    assert sum(trial.state in COUNTED for trial in trials) == 3


def test_a_trial_that_is_killed_again_and_again_is_given_up(sweep):
    engine = Here(dict.fromkeys(range(MOST_TRIES), WorkerLost()))
    trials = sweep(engine, trials=1)
    assert engine.done == [MOST_TRIES]
    assert len({json.dumps(trial.settings) for trial in trials}) == 2


class Killed(BaseException):
    """The parent is gone, without a word to the study."""


class KilledAt(Here):
    """Jobs run here until one of this number has its turn."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def poll(self, wait):
        if self.jobs and self.jobs[0].number == self.number:
            raise Killed
        return super().poll(wait)


def test_what_a_killed_parent_left_running_is_put_back(sweep):
    for number in (1, 2):  # the second time, what was put back
        with pytest.raises(Killed):
            sweep(KilledAt(number), trials=3)
    trials = sweep(trials=3)
    assert [trial.state for trial in trials] == ["finished", "failed", "failed", "finished", "finished"]
    assert len({json.dumps(trial.settings) for trial in trials}) == 3
    assert trials[1].settings == trials[2].settings == trials[3].settings


@pytest.fixture
def shared(tmp_path):
    """A sweep of two trials whose study other parents reach, too."""
    (tmp_path / "space.toml").write_text(SPACE.format(pruning="true"))
    ready = prepare(SweepRequest(space=str(tmp_path / "space.toml"), out=tmp_path / "sweep", seed=0, trials=2), PLACE)
    study = optuna.create_study(direction="minimize")
    return Sweep(ready.space, replace(ready.record, storage="a database"), ready.folder, study)


def take_over(study: optuna.Study, number: int) -> None:
    """Do what another parent does that heard nothing of a trial for too long."""
    study.enqueue_trial(study.trials[number].params, {"again": number})
    study.tell(number, state=optuna.trial.TrialState.FAIL)


class TakenOver(Here):
    """The first job is taken over before it says anything; one that stalls then runs until it is asked to stop."""

    def __init__(self, study: optuna.Study, fate=None, stalls: bool = False):
        super().__init__({0: fate})
        self.study, self.stalls = study, stalls

    def poll(self, wait):
        if self.study.trials[0].state.name == "RUNNING":
            take_over(self.study, 0)
        if self.stalls and self.jobs[0].number == 0 and not self.asked:
            return [], []
        return super().poll(wait)


def run_shared(sweep: Sweep, engine: Here) -> list[Trial]:
    sweep.run(engine, lambda trials: None, lambda: False)
    return sweep.trials()


@pytest.mark.parametrize(
    "fate", [None, TrainingError("task_loss became nan."), UsageError("no space."), WorkerLost()]
)
def test_a_trial_that_another_parent_has_ended_is_let_go_however_it_ends(shared, fate):
    engine = TakenOver(shared.study, fate)
    trials = run_shared(shared, engine)
    assert [(trial.state, trial.note) for trial in trials] == [("failed", ""), ("finished", ""), ("finished", "")]
    assert trials[1].settings == trials[0].settings != trials[2].settings
    assert trials[0].tasks == 0  # nothing was reported
    assert engine.done == ([0, 1, 2] if fate is None else [1, 2])


def test_at_the_next_sign_of_life_a_trial_that_another_parent_has_ended_is_stopped(shared, monkeypatch):
    monkeypatch.setattr(sweep_trials, "BEAT", 0.0)
    engine = TakenOver(shared.study, stalls=True)
    trials = run_shared(shared, engine)
    assert engine.asked == {0}
    assert engine.done == [1, 2]
    assert [trial.state for trial in trials] == ["failed", "finished", "finished"]  # it was put back only once


def test_a_trial_that_another_parent_has_ended_before_it_began_is_not_run(shared, monkeypatch):
    ask = shared.study.ask

    def stall() -> optuna.Trial:
        trial = ask()
        if trial.number == 0:
            shared.study.tell(0, state=optuna.trial.TrialState.FAIL)
        return trial

    monkeypatch.setattr(shared.study, "ask", stall)
    engine = Here()
    assert [trial.state for trial in run_shared(shared, engine)] == ["failed", "finished", "finished"]
    assert engine.done == [1, 2]


def test_a_trial_that_diverges_counts_as_pruned_and_says_why(sweep):
    trials = sweep(Here({0: TrainingError("task_loss became nan.")}), trials=2)
    assert [(trial.state, trial.note) for trial in trials] == [("pruned", "task_loss became nan."), ("finished", "")]


def test_trials_that_cannot_be_run_end_the_sweep(sweep):
    with pytest.raises(TrainingError, match=r"^5 trials in a row could not be run, the last one: no space\.$"):
        sweep(Here(dict.fromkeys(range(9), UsageError("no space."))), trials=2)


def test_trials_that_fall_behind_are_pruned_after_a_task(sweep):
    trials = sweep(trials=12, pruning="true")
    pruned = [trial for trial in trials if trial.state == "pruned"]
    assert 0 < len(pruned) < 8
    assert all(trial.number >= 5 for trial in pruned)  # the median of the first five
    assert {trial.tasks for trial in pruned} <= {1, 2}


def test_after_the_last_minute_what_runs_is_saved_and_put_back(sweep):
    trials = sweep(Here(), trials=3, minutes=1e-9)
    assert trials == []
    assert len(sweep(trials=3)) == 3


def test_a_folder_with_another_space_is_refused(sweep):
    sweep(trials=1)
    with pytest.raises(UsageError) as error:
        sweep(trials=2, pruning="true")
    assert str(error.value) == (
        "The study 'sweep' was begun with another space: pruning (True and False) (given and begun with). "
        "Use the same one, or choose another --study or --out."
    )


def test_a_sweep_with_a_range_from_0_is_resumed_from_its_folder(tmp_path):
    (tmp_path / "space.toml").write_text('preset = "toy"\n[set]\nsteps = 3\n[search]\nbeta = {low = 0, high = 1}\n')
    begun = prepare(SweepRequest(space=str(tmp_path / "space.toml"), out=tmp_path / "sweep", seed=0, trials=2), PLACE)
    resumed = prepare(SweepRequest(resume=tmp_path / "sweep"), PLACE)
    assert resumed.space.ranges == begun.space.ranges
    assert resumed.space.identity() == begun.space.identity()


def test_without_optuna_nothing_is_begun(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "optuna" else name)
    with pytest.raises(
        UsageError, match=r"^A sweep needs more packages \(optuna\): pip install 'mnemon\[sweep\]'\.$"
    ):
        sweep(trials=1)
    assert not (tmp_path / "sweep").exists()


def test_a_journal_that_was_cut_off_is_mended(sweep, tmp_path):
    sweep(trials=2)
    journal = tmp_path / "sweep" / "journal.log"
    with journal.open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    (tmp_path / "sweep" / "journal.log.lock").symlink_to("gone")
    assert len(sweep(trials=3)) == 3


def test_the_best_is_a_preset_without_held_out_data(sweep, tmp_path):
    trials = sweep(trials=4)
    best = rank(trials, "mse")[0]
    assert best.score == min(trial.score for trial in trials)
    config = resolve(load_preset(str(tmp_path / "sweep" / "best.toml")))
    assert config.training.held_out == 0
    assert config.training.steps == 3
    assert config.optimizer.lr == best.settings["optimizer.lr"]
    assert list(config.method.hypernet.hidden) == best.settings["method.hypernet.hidden"]
    assert [(t.number, t.state, t.score) for t in read_trials(tmp_path / "sweep")] == [
        (t.number, t.state, t.score) for t in trials
    ]


def test_the_best_of_accuracies_is_the_highest_and_can_be_pasted(tmp_path):
    def trial(number: int, score: float, state: str = "finished") -> Trial:
        return Trial(number, state, score, 5, 1.0, "f", "", {"method.hypernet.hidden": [10, 10], "method.beta": 1e-5})

    record = SweepRecord("split-digits", "", "held-out", "accuracy", 0, "s", "", "h", 5, {"method.name": "hypernet"})
    best = rank([trial(0, 90), trial(1, 95, "pruned"), trial(2, 92), trial(3, 92)], record.metric)[0]
    assert best.number == 2
    assert command(record, best.settings) == (
        "mnemon run split-digits --set method.name=hypernet --set 'method.hypernet.hidden=[10, 10]' "
        "--set method.beta=1e-05"
    )
    text = io.StringIO()
    Console(file=text, width=120).print(render_sweep(record, [best]))
    assert text.getvalue().startswith(
        "\nSweep of split-digits  % correct on held-out training data, mean over tasks; seed 0\n"
        "In all trials: method.name=hypernet\n"
    )
    write_best(tmp_path, record, best)
    assert read_toml((tmp_path / "best.toml").read_text()) == {
        "like": "split-digits",
        "about": "The best of a sweep of split-digits: 92.00 % correct on held-out training data.",
        "method": {"name": "hypernet", "beta": 1e-05, "hypernet": {"hidden": [10, 10]}},
    }


@pytest.mark.parametrize(
    ("preset", "fixed"),
    [
        ("split-digits", 'method = "hypernet-tir"\nscenario = "cl3"'),
        ("split-digits", 'benchmark = "permuted-digits"\nn_tasks = 3'),
        ("held.toml", ""),
    ],
)
def test_the_best_is_the_winning_trial_but_for_the_data_that_are_held_out(tmp_path, preset, fixed):
    (tmp_path / "held.toml").write_text('like = "split-digits"\n[training]\nheld_out = 0.3\n')
    (tmp_path / "space.toml").write_text(f'preset = "{preset}"\n[set]\n{fixed}\n[search]\nmethod.beta = [0.5]\n')
    space = load_space(str(tmp_path / "space.toml"))
    chosen = {"method.beta": 0.5}
    record = SweepRecord(space.preset_name, "", "held-out", "accuracy", 0, "s", "", "h", 5, space.changes({}))
    write_best(tmp_path, record, Trial(0, "finished", 90.0, 5, 1.0, "f", "", chosen))
    best, trial = resolve(load_preset(str(tmp_path / "best.toml"))), space.config(chosen)
    assert trial.training.held_out > 0
    assert best == replace(trial, preset="best", changes=(), training=replace(trial.training, held_out=0.0))


def test_a_folder_without_a_sweep_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"holds no sweep: there is no sweep\.json in it"):
        SweepRecord.read(tmp_path)
    with pytest.raises(UsageError, match="There is no folder"):
        SweepRecord.read(Path("nowhere"))


def test_the_folder_of_a_sweep_says_what_is_changed_in_its_space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ready = prepare(SweepRequest(space="split-digits", overrides=("steps=5",), seed=0, trials=1), PLACE)
    assert re.fullmatch(r"sweep-split-digits\+steps=5-\d{8}-\d{6}", ready.folder.name)
