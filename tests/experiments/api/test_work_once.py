"""What has been done is not done again: counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from small_runs import FEW, QUIETLY

import mnemon
from mnemon.experiments import run
from mnemon.experiments.artifacts import predictions
from mnemon.experiments.artifacts import samples as replay_samples
from mnemon.results.record import RunRecord

SHOWN = {**QUIETLY, "report": True}


@pytest.fixture
def counted(monkeypatch) -> Callable[..., Counter]:
    """Count the calls of a function of a module by some of its arguments."""

    def count(module: object, name: str, *places: int) -> Counter:
        calls: Counter = Counter()
        before = getattr(module, name)

        def call(*words, **options):
            calls[tuple(words[place] for place in places)] += 1
            return before(*words, **options)

        monkeypatch.setattr(module, name, call)
        return calls

    return count


@pytest.fixture
def parsed(monkeypatch) -> Counter:
    """How often each record was read since its run was finished."""
    reads: Counter = Counter()
    read = RunRecord.read.__func__

    def note(cls, folder: Path, *words, **options) -> RunRecord:
        record = read(cls, folder, *words, **options)
        reads[folder.as_posix()] += record.finished
        return record

    monkeypatch.setattr(RunRecord, "read", classmethod(note))
    return reads


def test_a_run_in_this_process_builds_its_tasks_and_its_learner_once(counted):
    streams, learners = counted(run, "build_stream"), counted(run, "build_learner")
    mnemon.run("toy", settings={"steps": 2}, out="run", **QUIETLY)
    assert (streams.total(), learners.total()) == (1, 1)


def test_what_was_built_is_for_one_use():
    from mnemon.experiments.compute import Compute
    from mnemon.experiments.job import RunContext
    from mnemon.experiments.preset import load_preset
    from mnemon.experiments.run_config import resolve
    from mnemon.experiments.study import new_jobs

    config, compute = resolve(load_preset("toy"), ["steps=2"]), Compute("cpu")
    matrices = []
    for name in ("one", "other"):
        _, (job,) = new_jobs(config, range(1), Path(name), compute)
        if name == "other":  # somebody has used it already
            assert job.built is not None
            _, learner = job.built.take()
            learner.begin_task(0)
        matrices.append(run.execute(job, RunContext(compute)).matrix)
    assert matrices[0] == matrices[1]


def test_records_are_read_once_when_runs_have_ended(parsed):
    pytest.importorskip("altair")
    mnemon.run("toy", seeds=2, settings={"steps": 2}, out="runs", workers=1, **SHOWN)
    assert dict(parsed) == {"runs/seed-0": 1, "runs/seed-1": 1}
    parsed.clear()
    mnemon.compare(["joint", "from-scratch"], settings=FEW, out="table", workers=1, **SHOWN)
    assert {folder: n for folder, n in parsed.items() if n} == {
        "table/joint/seed-0": 1,
        "table/from-scratch/seed-0": 1,
    }
    assert Path("table/report.html").exists()


def test_a_report_of_what_was_returned_reads_nothing(parsed):
    pytest.importorskip("altair")
    study = mnemon.run("toy", seeds=2, settings={"steps": 2}, out="runs", workers=1, **QUIETLY)
    parsed.clear()
    mnemon.report(study)
    mnemon.report(study.records[0], "page.html")
    assert not parsed.total()


def test_samples_and_predictions_are_drawn_once(counted):
    drawn = counted(replay_samples, "_draw", 2, 3)
    sizes = {"replay.encoder": [10], "replay.decoder": [10], "replay.latent": 2}
    mnemon.run("split-digits-cl1-hnet-r", settings={**FEW, **sizes}, out="replayed", **QUIETLY)
    assert len(drawn) == 3
    assert set(drawn.values()) == {1}
    predicted = counted(predictions, "_predicted", 2)
    mnemon.run("toy", settings={"steps": 2}, out="curves", **QUIETLY)
    assert predicted == {(0,): 2, (1,): 2, (2,): 1}  # right after it and at the end, which of the last is one moment
