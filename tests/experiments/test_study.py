"""Jobs of a study: their folders, what is resumed, and what happens when one of them fails."""

from __future__ import annotations

import itertools
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mnemon.errors import TrainingError, UsageError
from mnemon.experiments import run, study
from mnemon.experiments.compute import Compute, pick_device
from mnemon.experiments.control import stop_on_signal
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.made_with import made_with
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import alone_in, execute, new_folder
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import StudyError, keep_begun, new_jobs, resumed_jobs, run_jobs
from mnemon.results.record import RunRecord
from mnemon.training import checkpoint
from mnemon.training.trainer import Stopped

CONFIG = resolve(load_preset("toy"), ["steps=3", "method.hypernet.hidden=[4]"])
PLACE = Compute("cpu")


def run_all(jobs, workers: int = 1, events: list | None = None, should_stop=lambda: False) -> None:
    run_jobs(
        jobs,
        RunContext(
            PLACE, workers=workers, on_event=(events if events is not None else []).append, should_stop=should_stop
        ),
    )


def tensors(folder: Path) -> dict[str, bytes]:
    return {k: v.numpy().tobytes() for k, v in checkpoint.load(folder)[0].items()}


def test_one_seed_has_the_folder_itself_and_several_have_one_each(tmp_path):
    folder, jobs = new_jobs(CONFIG, range(5, 6), tmp_path / "one", PLACE)
    assert [job.folder for job in jobs] == [folder] == [tmp_path / "one"]
    folder, jobs = new_jobs(CONFIG, range(5, 8), tmp_path / "three", PLACE)
    assert [job.folder for job in jobs] == [folder / f"seed-{s}" for s in (5, 6, 7)]
    assert [RunRecord.read(job.folder).seed for job in jobs] == [5, 6, 7]


def test_without_a_name_a_new_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study.time, "strftime", lambda form: "NOW")
    names = [str(new_jobs(CONFIG, range(1), None, PLACE)[0]) for _ in range(3)]
    assert names == [f"runs/toy+hypernet.hidden=4+steps=3-NOW{again}" for again in ("", "-2", "-3")]


def test_a_folder_that_exists_is_left_as_it_is(tmp_path):
    (tmp_path / "kept.txt").write_text("kept")
    with pytest.raises(UsageError, match=r"exists already and is not changed\. Choose another --out\.$"):
        new_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize(
    ("file", "command"),
    [("record.json", "run"), ("seed-3/record.json", "run"), ("compare.json", "compare"), ("sweep.json", "sweep")],
)
def test_what_is_in_a_folder_that_exists_is_gone_on_with_by_its_own_command(tmp_path, file, command):
    path = tmp_path / "my folder" / file
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(UsageError) as error:
        new_folder(tmp_path / "my folder")
    assert str(error.value).endswith(
        f"Choose another --out, or resume what is in it: mnemon {command} --resume '{tmp_path}/my folder'"
    )


def test_a_sweep_is_not_resumed_as_a_run(tmp_path):
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(UsageError) as error:
        resumed_jobs(tmp_path)
    assert str(error.value) == f"{tmp_path} holds a sweep. Resume it with: mnemon sweep --resume {tmp_path}"


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"^Could not make the folder .*file/run: "):
        new_folder(tmp_path / "file" / "run")


def test_what_is_wrong_shows_before_a_folder_is_made(tmp_path):
    config = resolve(load_preset("split-digits"), ["hypernet.hidden=[100000]", "chunk=100000000"])
    with pytest.raises(UsageError, match=r"^A network of this size does not fit into memory: use smaller layers"):
        new_jobs(config, range(1), tmp_path / "run", PLACE)
    assert not (tmp_path / "run").exists()


def test_a_device_that_is_out_of_memory_is_answered_with_the_remedy(tmp_path, monkeypatch):
    def too_large(trainer):
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB")

    monkeypatch.setattr(run.Trainer, "run", too_large)
    with pytest.raises(UsageError) as error:
        execute(Job(0, CONFIG, 0, new_folder(tmp_path / "run")), RunContext(PLACE))
    assert str(error.value) == "The device is out of memory: use smaller batches, layers or chunks."
    with alone_in(tmp_path / "run"):  # it is left again
        pass


def test_seeds_that_were_stopped_before_their_turn_are_resumed(tmp_path):
    folder, jobs = new_jobs(CONFIG, range(3), tmp_path / "runs", PLACE)
    with pytest.raises(Stopped):
        run_all(jobs, should_stop=lambda: True)
    again = resumed_jobs(folder, None, ())
    assert [job.seed for job in again] == [0, 1, 2]
    run_all(again)
    assert resumed_jobs(folder, None, ()) == []
    for seed in range(3):
        execute(Job(0, CONFIG, seed, new_folder(tmp_path / f"whole-{seed}")), RunContext(PLACE))
        assert tensors(tmp_path / f"whole-{seed}") == tensors(folder / f"seed-{seed}")


def test_a_run_from_before_a_setting_existed_is_resumed(tmp_path):
    folder, jobs = new_jobs(CONFIG, range(1), tmp_path / "run", PLACE)
    calls = itertools.count()
    with pytest.raises(Stopped):
        run_all(jobs, should_stop=lambda: next(calls) > 3)
    loaded, facts = checkpoint.load(folder)
    assert facts["step"]
    del facts["identity"]["optimizer"]["schedule"]
    checkpoint.save(folder, loaded, facts)
    record = RunRecord.read(folder)
    del record.config["optimizer"]["schedule"]
    record.write(folder)
    run_all(resumed_jobs(folder, None, ()))
    execute(Job(0, CONFIG, 0, new_folder(tmp_path / "whole")), RunContext(PLACE))
    assert tensors(folder) == tensors(tmp_path / "whole")


def test_a_seed_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    folder, jobs = new_jobs(CONFIG, range(3), tmp_path / "runs", PLACE)
    whole = run.execute

    def sometimes(job, context):
        if job.seed == 0:
            raise TrainingError("task_loss became nan.")
        return whole(job, context)

    monkeypatch.setattr(study, "execute", sometimes)
    events: list = []
    with pytest.raises(TrainingError) as error:
        run_all(jobs, events=events)
    assert str(error.value) == f"seed 0: task_loss became nan. All seeds are saved to {folder}."
    assert [event.failure for event in events if event.run == 0] == ["task_loss became nan."]
    assert [RunRecord.read(job.folder).finished for job in jobs] == [False, True, True]


def test_several_failures_are_counted(tmp_path, monkeypatch):
    _, jobs = new_jobs(CONFIG, range(3), tmp_path / "runs", PLACE)

    def never(*_):
        raise TrainingError("no.")

    monkeypatch.setattr(study, "execute", never)
    with pytest.raises(TrainingError, match=r"^seed 0: no\. 3 of 3 seeds failed\. All seeds are saved to "):
        run_all(jobs)


@pytest.mark.parametrize(("n_jobs", "more"), [(1, ""), (2, " 2 of 2 runs failed.")])
def test_a_failure_among_methods_names_the_method(tmp_path, monkeypatch, n_jobs, more):
    def never(*_):
        raise TrainingError("no.")

    monkeypatch.setattr(study, "execute", never)
    folders = [tmp_path / label / "seed-0" for label in ("a", "b")]
    jobs = [Job(i, CONFIG, 0, folder, folder.parent.name) for i, folder in enumerate(folders)][:n_jobs]
    events: list = []
    with pytest.raises(StudyError) as error:
        run_all(jobs, events=events)
    kept = tmp_path / "a" if n_jobs == 1 else tmp_path
    assert str(error.value) == f"a, seed 0: no.{more} All runs are saved to {kept}."
    assert [job for job, _ in error.value.failures] == jobs
    assert [event.failure for event in events] == ["no."] * n_jobs


def test_a_run_whose_checkpoint_is_gone_is_not_begun_anew(tmp_path):
    folder, jobs = new_jobs(CONFIG, range(1), tmp_path / "run", PLACE)
    steps = iter(range(100))
    with pytest.raises(Stopped):
        run_all(jobs, should_stop=lambda: next(steps) >= 4)
    before = (folder / "record.json").read_bytes()
    (folder / checkpoint.FILE).unlink()
    with pytest.raises(UsageError, match=r"^There is no checkpoint\.safetensors in .*, though tasks were learned"):
        run_all(resumed_jobs(folder, None, ()))
    assert (folder / "record.json").read_bytes() == before


def test_settings_given_beside_a_run_must_be_its_own(tmp_path):
    folder, _ = new_jobs(CONFIG, range(1), tmp_path / "run", PLACE)
    assert len(resumed_jobs(folder, None, ["steps=3"])) == 1
    assert len(resumed_jobs(folder, load_preset("toy"), ["steps=3", "method.hypernet.hidden=[4]"])) == 1
    with pytest.raises(UsageError) as error:
        resumed_jobs(folder, None, ["steps=4"])
    assert str(error.value) == (
        "The run was begun with other settings: training.steps (4 and 3) (given and begun with). "
        "Resume it without them, or start a new run."
    )
    with pytest.raises(UsageError, match=r"begun with other settings: .* and \d+ more \(given"):
        resumed_jobs(folder, load_preset("split-digits"), ())


def test_runs_of_different_experiments_are_not_resumed_together(tmp_path):
    new_jobs(CONFIG, range(1), tmp_path / "one", PLACE)
    new_jobs(resolve(load_preset("toy"), ["steps=9"]), range(1, 2), tmp_path / "two", PLACE)
    with pytest.raises(UsageError, match="runs with different settings here"):
        resumed_jobs(tmp_path, None, ())


def test_a_record_says_with_what_a_run_was_made(tmp_path):
    folder, jobs = new_jobs(CONFIG, range(1), tmp_path / "run", PLACE)
    run_all(jobs)
    facts = json.loads((folder / "record.json").read_text())
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["versions"]["device"] == "cpu"
    assert facts["versions"] == made_with("cpu") | {"threads": "1"}
    assert facts["counts"]["compression"] == (
        (facts["counts"]["learned"] + 3 * facts["counts"]["per_task"]) / facts["counts"]["target"]
    )
    assert facts["metric"] == "mse"
    assert facts["finished"]
    assert set(facts["seconds"]) == {"train", "test"}


def test_the_versions_are_those_of_the_process_that_begins_a_run(tmp_path):
    folder, jobs = new_jobs(CONFIG, range(1), tmp_path / "run", Compute("cuda"))  # such as a cluster's
    record = RunRecord.read(folder)
    assert record.versions["device"] == "cuda"
    keep_begun(jobs[0], replace(record, versions={**record.versions, "torch": "another machine's"}))
    calls = itertools.count()
    with pytest.raises(Stopped):
        run_all(jobs, should_stop=lambda: next(calls) > 3)
    began = RunRecord.read(folder)
    assert (began.versions["device"], began.versions["torch"]) == ("cpu", torch.__version__)
    keep_begun(jobs[0], replace(began, versions={**began.versions, "torch": "an older one"}))
    run_all(resumed_jobs(folder))
    assert RunRecord.read(folder).versions["torch"] == "an older one"


@pytest.mark.parametrize("name", ["cpu", "auto"])
def test_a_device_is_picked_by_name(name):
    assert pick_device(name).type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "Unknown device 'gpu'. Did you mean 'cpu'? Choose one of: cpu, cuda, mps, auto."),
        ("", "Unknown device ''. Choose one of: cpu, cuda, mps, auto."),
        ("auto:0", "Device 'auto:0' is not available here. Choose one of: auto, cpu"),
        ("cuda:999", "Device 'cuda:999' is not available here. Choose one of: auto, cpu"),
        ("cuda:x", "Device 'cuda:x' is not available here. Choose one of: auto, cpu"),
        ("cpu:7", "Device 'cpu:7' is not available here. Choose one of: auto, cpu"),
    ],
)
def test_a_device_that_is_not_there_is_refused(name, message):
    with pytest.raises(UsageError) as error:
        pick_device(name)
    assert str(error.value).startswith(message)


def test_the_first_signal_asks_to_stop_and_the_second_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signal() as should_stop:
        assert not should_stop()
        signal.raise_signal(signal.SIGINT)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is before


def test_two_processes_cannot_run_in_one_folder(tmp_path):
    with (
        alone_in(tmp_path),
        pytest.raises(UsageError, match=rf"^Another process is running in {tmp_path}: wait for it, or stop it\.$"),
        alone_in(tmp_path),
    ):
        pass
    with alone_in(tmp_path):  # given back
        pass
