# ruff: noqa: E501 (a message is easier to read in one piece)
"""Jobs on a Ray cluster come to the same as here, and outlive the death of a worker."""

from __future__ import annotations

import os
import pickle
import signal
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from mnemon.errors import UsageError
from mnemon.experiments.api.options import Options
from mnemon.experiments.compute import Compute
from mnemon.experiments.engines import check_engine, open_engine
from mnemon.experiments.engines.ray import RayTasks
from mnemon.experiments.job import RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import RunConfig, resolve
from mnemon.experiments.screen import Screen
from mnemon.experiments.study import new_jobs, run_jobs
from mnemon.plugins import Plugin
from mnemon.results.record import RunRecord
from mnemon.training.trainer import Stopped

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")
PLACE = Compute("cpu")
SETTINGS = ["steps=30", "method.hypernet.hidden=[4]", "checkpoint_seconds=0.0"]


@pytest.fixture(scope="module")
def cluster():
    """A local cluster with two places for tasks, and what it takes for a GPU; it takes some seconds to begin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, num_gpus=1, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        yield
        ray.shutdown()


def jobs_of(folder: Path, *settings: str) -> list:
    return new_jobs(resolve(load_preset("toy"), [*SETTINGS, *settings]), range(2), folder, PLACE)[1]


def test_runs_are_the_same_on_a_cluster_and_a_killed_worker_is_replaced(cluster, tmp_path):
    here, there = jobs_of(tmp_path / "here"), jobs_of(tmp_path / "there")
    run_jobs(here, RunContext(PLACE))
    events, killed = [], []

    def see(event) -> None:
        events.append(event)
        if event.row is not None and not killed:
            killed.append(worker_of("_work"))
            os.kill(killed[0], signal.SIGKILL)

    run_jobs(there, RunContext(PLACE, workers=None, on_event=see, on="ray"))
    assert killed
    for one, other in zip(here, there, strict=True):
        assert RunRecord.read(one.folder).finished
        assert RunRecord.read(other.folder).matrix == RunRecord.read(one.folder).matrix
    assert {(event.run, event.task_id) for event in events if event.row} >= {
        (run, task) for run in (0, 1) for task in (1, 2)
    }


def is_ours(pid: int) -> bool:
    """Tell whether this process has started another one, or those that have started it."""
    while pid > 1 and pid != os.getpid():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()


def worker_of(name: str) -> int:
    """Return the process of a worker of this cluster that runs a task of this name now."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words, pid = path.read_bytes().decode(errors="replace"), int(path.parent.name)
                if words.startswith(f"ray::{name}") and is_ours(pid):
                    return pid
            except OSError:
                continue
        time.sleep(0.02)
    raise AssertionError("no worker runs")


def test_where_the_folder_is_not_seen_the_files_come_back_also_when_stopped(cluster, tmp_path):
    jobs = jobs_of(tmp_path / "runs", "steps=20000")
    under_way = set()
    # As on a machine without this folder: tasks are given one that does not exist there.
    engine = open_engine(RunContext(PLACE, workers=2, on="ray"), 2)
    elsewhere = [job._replace(folder=tmp_path / "elsewhere" / job.folder.name) for job in jobs]
    with engine:
        for job in elsewhere:
            engine.start(job)
        ended = []
        while len(ended) < 2:
            events, new = engine.poll(0.05)
            ended += new
            under_way |= {event.run for event in events if event.step}
            if len(under_way) == 2:  # one that is stopped before it has begun leaves nothing
                engine.stop()
    assert len(under_way) == 2
    assert all(isinstance(one.error, Stopped) for one in ended)
    for job in elsewhere:
        names = {path.name for path in job.folder.iterdir()}
        assert {"checkpoint.safetensors", "config.toml", "record.json"} <= names


def test_which_devices_there_are_is_left_to_the_workers(cluster, tmp_path):
    compute = Options(Screen(), device="cuda:9", on="ray").compute()
    _, jobs = new_jobs(resolve(load_preset("toy"), SETTINGS), range(1), tmp_path / "run", compute)
    with pytest.raises(UsageError, match=r"^Device 'cuda:9' is not available here\. Choose one of: auto, "):
        run_jobs(jobs, RunContext(compute, workers=None, on="ray"))


def test_a_job_is_sent_with_its_whole_path_and_comes_back_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (job, _) = jobs_of(Path("runs"))
    engine, sent = RayTasks(PLACE, "", 1), []
    engine._task = SimpleNamespace(remote=lambda *words: sent.append(words[0]))
    engine.start(job)
    assert list(map(pickle.loads, sent)) == [job._replace(folder=tmp_path / "runs" / "seed-0")]
    assert list(engine._running.values()) == [job]


def test_a_plugin_that_a_machine_does_not_have_is_named(cluster, tmp_path, monkeypatch):
    (job, _) = jobs_of(tmp_path / "runs")
    monkeypatch.setattr(RunConfig, "plugins", property(lambda self: [Plugin("not_there", "/not/there")]))
    with open_engine(RunContext(PLACE, workers=1, on="ray"), 1) as engine:
        engine.start(job)
        ended = []
        while not ended:
            ended = engine.poll(0.05)[1]
    assert str(ended[0].error).startswith("There is no module not_there, neither in /not/there nor installed: ")


@pytest.mark.parametrize(("device", "room"), [("cpu", 2), ("auto", 1), ("cuda", 1)])
def test_a_task_asks_for_a_gpu_where_the_cluster_has_some(cluster, device, room):
    with open_engine(RunContext(Compute(device), workers=None, on="ray"), 2) as engine:
        assert engine.room() == room
        assert engine._task._default_options["num_gpus"] == (device != "cpu")


def test_a_gpu_that_the_cluster_does_not_have_is_not_waited_for(cluster, monkeypatch):
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    with open_engine(RunContext(Compute("auto"), workers=None, on="ray"), 2) as engine:
        assert engine._task._default_options["num_gpus"] == 0
    with (
        pytest.raises(UsageError, match=r"^The Ray cluster has no GPU for --device cuda: use cpu or auto\.$"),
        open_engine(RunContext(Compute("cuda"), workers=None, on="ray"), 2),
    ):
        pass


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("rya", "--on takes ray, ray:ADDRESS or ray://HOST:PORT, not 'rya'."),
        ("ray:here", "The address of a Ray cluster is HOST:PORT, not 'here'."),
        ("ray:127.0.0.1:1", "No Ray cluster answers at 127.0.0.1:1: [Errno 111] Connection refused. Start one by: ray start --head"),
        ("ray://127.0.0.1:1", "No Ray cluster answers at ray://127.0.0.1:1: [Errno 111] Connection refused. Start one by: ray start --head"),
    ],
)  # fmt: skip
def test_a_cluster_that_is_not_there_is_refused_at_once(on, message):
    started = time.monotonic()
    with pytest.raises(UsageError) as error:
        check_engine(on)
    assert str(error.value) == message
    assert time.monotonic() - started < 6
