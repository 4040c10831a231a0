# ruff: noqa: E501 (a message is easier to read in one piece)
"""The sweep as a user meets it: what is wrong is said in a line; killed processes cost nothing that was finished."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest
from command_line import contents, descendants, ended, wait_until

from mnemon import whole_files
from mnemon.experiments.sweep.space_file import all_spaces
from mnemon.results.record import RunRecord
from mnemon.results.sweep import COUNTED, read_trials

SPACE = """
preset = "toy"
pruning = false
[set]
steps = {steps}
checkpoint_seconds = 0.05
[search]
lr = {{low = 1e-3, high = 1e-1, log = true}}
hypernet.hidden = [[], [4]]
"""
linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the processes are looked up in /proc")


@pytest.fixture
def space(tmp_path) -> str:
    (tmp_path / "space.toml").write_text(SPACE.format(steps=3))
    return "space.toml"


def trials_of(folder: Path) -> list:
    return read_trials(folder) if folder.exists() else []


def finished(folder: Path) -> dict[int, bytes]:
    """Return the records of the finished trials, with their times: a repeated one would have others."""
    done = [trial for trial in trials_of(folder) if trial.state == "finished"]
    return {trial.number: (folder / "trials" / trial.folder / "record.json").read_bytes() for trial in done}


@linux
def test_killed_workers_and_parents_cost_no_finished_trial(start, tmp_path):
    (tmp_path / "space.toml").write_text(SPACE.format(steps=40))
    words = ("sweep", "space.toml", "--out", "sweep", "--trials", 7, "--workers", 2)
    folder = tmp_path / "sweep"
    process = start(*words)
    wait_until(lambda: len(finished(folder)) >= 1, process.poll, 120)
    workers = [pid for pid in descendants(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(workers[0], signal.SIGKILL)  # the parent puts back what is lost, and goes on with new workers
    wait_until(lambda: len(finished(folder)) >= 3, process.poll, 120)
    process.kill()
    process.wait()
    before = finished(folder)
    outcome = ended(start(*words), 240)
    assert (outcome.code, outcome.err) == (0, "")
    after = finished(folder)
    assert {number: after[number] for number in before} == before
    trials = trials_of(folder)
    assert sum(trial.state in COUNTED for trial in trials) == 7
    assert len({json.dumps(trial.settings) for trial in trials if trial.state in COUNTED}) == 7
    assert any(trial.state == "failed" for trial in trials)
    assert "7 of 7 trials: 7 finished." in outcome.out
    assert "Run the best settings on the test data: mnemon run sweep/best.toml\n" in outcome.out


@linux
def test_ctrl_c_saves_and_the_same_command_goes_on(start, mnemon, tmp_path):
    (tmp_path / "space.toml").write_text(SPACE.format(steps=300))
    process = start("sweep", "space.toml", "--out", "sweep", "--trials", 1, "--workers", 1)
    wait_until(lambda: bool(list(tmp_path.glob("sweep/trials/*/checkpoint.safetensors"))), process.poll, 120)
    os.killpg(process.pid, signal.SIGINT)
    outcome = ended(process)
    assert (outcome.code, outcome.err) == (130, "")
    assert outcome.out.splitlines()[-1] == ("Stopped; everything is saved. Resume with: mnemon sweep --resume sweep")
    assert [trial.state for trial in trials_of(tmp_path / "sweep")] == ["failed", "waiting"]
    assert not RunRecord.read(tmp_path / "sweep" / "trials" / "trial-0000").finished
    again = mnemon("sweep", "--resume", "sweep", "--workers", 1)
    assert (again.code, again.err) == (0, "")
    assert RunRecord.read(tmp_path / "sweep" / "trials" / "trial-0000").finished
    shown = mnemon("show", "sweep")
    assert "1 of 1 trials: 1 finished." in shown.out
    assert mnemon("show", "sweep/trials/trial-0000").code == 0
    assert mnemon("run", "sweep/best.toml", "--set", "steps=2", "--quiet").code == 0


def test_without_a_space_nothing_is_started_and_the_spaces_are_listed_with_their_costs(mnemon, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "1000")
    outcome = mnemon("sweep")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err, list(tmp_path.iterdir())) == (0, "", [])
    assert [line for line in lines[:-1] if not line.startswith(" ")] == list(all_spaces())
    at = lines.index("split-digits") + 1
    assert lines[at].strip() == (
        "The embedded digits: strength, rate and form of the hypernetwork, in trials of some seconds. Preset split-digits; searches method.beta, "
        "method.hypernet.hidden, method.hypernet.activation, method.hypernet.embedding_size, optimizer.lr. 60 trials, about 2 s each: 2 min on one core, less with pruning."
    )
    assert lines[-1] == (
        "Nothing was started. To start one: mnemon sweep split-digits (or the path of a TOML file of your own)."
    )
    assert "5 trials, about 2 s each: 10 s on one core" in mnemon("sweep", "--trials", 5).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials", "0"], "--trials must be above 0, not 0."),
        (["nothing.toml"], "There is no space file nothing.toml."),
        (["split-digit"], "Unknown space 'split-digit'. Did you mean 'split-digits'? Choose one of: permuted-10, permuted-100-online-ewc, permuted-100-synaptic-intelligence, split-digits, split-mnist, split-mnist-architectures."),
        (["space.toml", "--set", "stesp=3"], "space.toml: Unknown setting 'stesp' of toy-regression and hypernet. Did you mean 'steps'? `mnemon settings` lists them all."),
        (["space.toml", "--trials", "0"], "--trials must be above 0, not 0."),
        (["space.toml", "--minutes", "-1"], "--minutes must be above 0, not -1.0."),
        (["space.toml", "--workers", "0"], "--workers must be at least 1, not 0."),
        (["space.toml", "--resume", "x"], "--resume continues the space and the study of its folder: leave out SPACE, --set, --study and --seed."),
        (["--resume", "x", "--seed", "3"], "--resume continues the space and the study of its folder: leave out SPACE, --set, --study and --seed."),
        (["--resume", "x"], "There is no folder x."),
        (["--resume", "."], ". holds no sweep: there is no sweep.json in it."),
        (["space.toml", "--storage", "nonsense"], "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'nonsense'."),
        (["space.toml", "--storage", "oracel://x"], "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'oracel://x'."),
        (["space.toml", "--storage", "oracel://me:secret@host/db"], "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'oracel://me:***@host/db'."),
        (["space.toml", "--storage", "postgresql://me:sec:r/@t@host:port/db"], "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'postgresql://me:***@host:port/db'."),
        (["space.toml", "--storage", "postgresql//me:secret@host/db"], "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'postgresql//me:***@host/db'."),
        (["space.toml", "--storage", "postgresql://me@host:port/db"], "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'postgresql://me@host:port/db'."),
        (["space.toml", "--on", "cluster"], "--on takes ray, ray:ADDRESS or ray://HOST:PORT, not 'cluster'."),
        (["space.toml", "--out", "nowhere://x"], "--out nowhere://x cannot be reached: Protocol not known: nowhere."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_a_folder_is_made(refused, space, tmp_path, words, message):
    assert refused("sweep", *words) == message
    assert list(contents(tmp_path)) == ["space.toml"]


def test_a_database_that_does_not_answer_is_named_without_its_password(refused, space, tmp_path):
    started = time.monotonic()
    message = refused("sweep", space, "--storage", "postgresql+psycopg://me:secret@127.0.0.1:1/db")
    assert message.startswith("The database postgresql+psycopg://me:***@127.0.0.1:1/db cannot be reached: ")
    assert "secret" not in message
    assert time.monotonic() - started < 20


def test_a_study_of_the_same_name_with_another_space_is_refused(mnemon, refused, space):
    words = ["sweep", space, "--storage", "sqlite:///study.db", "--study", "mine", "--trials", 1, "--minutes", 1e-9]
    assert mnemon(*words, "--out", "one").code == 0
    message = refused(*words, "--out", "two", "--set", "steps=4")
    assert message.startswith("The study 'mine' was begun with another space: config.training.steps (4 and 3)")


@pytest.mark.filterwarnings("ignore:Query string argument")  # SQLite knows no password, but has to be asked for one
def test_a_password_in_the_url_of_a_study_is_written_nowhere(mnemon, space, tmp_path):
    url = "sqlite:///study.db?password=covert"
    words = ("sweep", space, "--trials", 1, "--minutes", 1e-9, "--out", "sweep")
    outcome = mnemon(*words, "--storage", url)
    assert outcome.code == 0
    assert "covert" not in outcome.out + outcome.err
    assert '"sqlite:///study.db?password=***"' in (tmp_path / "sweep" / "sweep.json").read_text()
    assert not [name for name, content in contents(tmp_path).items() if b"covert" in content]
    assert mnemon("sweep", "--resume", "sweep", "--minutes", 1e-9, "--storage", url).code == 0


def test_a_storage_that_is_no_url_is_refused_beside_a_sweep_that_was_begun(mnemon, refused, space):
    assert mnemon("sweep", space, "--trials", 1, "--minutes", 1e-9, "--out", "sweep").code == 0
    for words in ([space, "--out", "sweep"], ["--resume", "sweep"]):
        assert refused("sweep", *words, "--storage", "me:secret@host") == (
            "--storage takes the URL of a database such as postgresql+psycopg://USER@HOST/NAME, not 'me:***@host'."
        )


def test_a_sweep_on_a_disk_that_is_read_only_is_refused_in_one_line(mnemon, refused, space, monkeypatch, tmp_path):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    assert mnemon("sweep", space, "--trials", 1, "--minutes", 1e-9, "--out", "sweep").code == 0
    before = contents(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(Path, "unlink", read_only)
        disk.setattr(Path, "mkdir", read_only)
        disk.setattr(whole_files.tempfile, "mkdtemp", read_only)
        message = refused("sweep", "--resume", "sweep")
    assert message == (
        "The sweep in sweep cannot be written: Read-only file system. "
        "Free some space or make the folder writable, then resume."
    )
    assert contents(tmp_path) == before


def test_the_test_data_are_judged_by_only_when_asked_for_and_with_a_warning(mnemon, tmp_path):
    (tmp_path / "space.toml").write_text('criterion = "test"\n' + SPACE.format(steps=3))
    outcome = mnemon("sweep", "space.toml", "--trials", 1, "--minutes", 1e-9, "--out", "sweep")
    assert outcome.out.splitlines()[0] == (
        "Warning: trials are judged on the test data, as the space says; the best score is too optimistic."
    )


def test_results_are_copied_to_a_url(mnemon, refused, tmp_path):
    fast = ("--set", "steps=2", "--quiet")
    outcome = mnemon("run", "toy", *fast, "--out", f"file://{tmp_path}/far/away")
    assert outcome.out.splitlines()[-1] == f"Copied to file://{tmp_path}/far/away"
    assert RunRecord.read(tmp_path / "far" / "away").finished
    (local,) = (tmp_path / "runs").iterdir()
    assert contents(local) == contents(tmp_path / "far" / "away")
    assert refused("run", "toy", *fast, "--out", f"file://{tmp_path}/far/away") == (
        f"file://{tmp_path}/far/away exists already and is not changed. Choose another --out."
    )
