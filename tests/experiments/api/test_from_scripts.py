"""Workers of a script, of a notebook and of a program from a pipe; Ctrl-C; what is shown where."""

from __future__ import annotations

import io
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console
from small_runs import QUIETLY

import mnemon
from mnemon.experiments import screen
from mnemon.experiments.engines.main_module import not_imported_again
from mnemon.experiments.screen import LiveScreen, LogScreen, Screen, can_redraw, pick_screen

CALL = 'study = mnemon.run("toy", seeds=2, settings={"steps": 2}, out="runs", workers=2, report=False, quiet=True)\n'
OWN = """
import mnemon

@mnemon.register_method("mine")
class Mine(mnemon.HypernetLearner):
    pass

"""
COMPARED = 'mnemon.compare(["mine", "joint"], "toy", settings={"steps": 2}, out="runs", workers=2, report=False)'


def run_script(text: str, *words: str, **options) -> subprocess.CompletedProcess[str]:
    Path("script.py").write_text(text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *(words or ["script.py"])],
        capture_output=True, text=True, check=False, timeout=120, env=environment, **options,
    )  # fmt: skip


@pytest.mark.parametrize("words", [("script.py",), ("-",)])
def test_a_script_needs_no_guard_and_is_run_once(words):
    text = f"import mnemon\nprint('begun')\n{CALL}print(study.seeds, len(study.finished))\n"
    done = run_script(text, *words, input=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\n[0, 1] 2\n", "")
    alone = mnemon.run("toy", seeds=2, settings={"steps": 2}, out="alone", workers=1, **QUIETLY)
    assert [r.matrix for r in mnemon.Study.read("runs")] == [r.matrix for r in alone]


def test_a_method_of_a_script_is_there_in_its_workers():
    done = run_script(f"{OWN}if __name__ == '__main__':\n    print({COMPARED}.methods)\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "['mine', 'joint']\n", "")


def test_a_script_that_would_compute_when_it_is_imported_is_told_so_in_a_line():
    done = run_script(f"{OWN}{COMPARED}\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("mnemon.experiments.study.StudyError: mine, seed 0: ")
    assert "script calls mnemon.compare when it is imported: put the call below `if __name__ ==" in done.stderr


def test_the_script_is_found_again_when_workers_have_been_started():
    script = sys.modules["__main__"]
    before = dict(vars(script))
    with not_imported_again():
        assert script.__spec__ is None
        assert not hasattr(script, "__file__")
    assert vars(script) == before


def test_in_another_thread_a_run_ends_as_in_the_first():
    found: list = []
    options = {"settings": {"steps": 2}, **QUIETLY}
    thread = threading.Thread(target=lambda: found.append(mnemon.run("toy", out="thread", **options)))
    thread.start()
    thread.join()
    assert found[0].matrix == mnemon.run("toy", out="here", **options).matrix


# Ctrl-C


def interrupt_when(condition, limit: float = 60) -> threading.Thread:
    """Press Ctrl-C once something is the case."""

    def wait() -> None:
        end = time.monotonic() + limit
        while not condition() and time.monotonic() < end:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_saves_says_how_to_resume_and_what_it_says_ends_the_same():
    settings = {"steps": 400, "checkpoint_seconds": 0.01}
    whole = mnemon.run("toy", settings=settings, out="whole", **QUIETLY)
    pressed = interrupt_when(Path("run/checkpoint.safetensors").exists)
    with pytest.raises(mnemon.Interrupted) as stop:
        mnemon.run("toy", settings=settings, out="run", **QUIETLY)
    pressed.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    said = re.fullmatch(r"Stopped; everything is saved\. Resume with: (mnemon\.run\(.*\))", str(stop.value))
    assert said is not None
    assert said[1] == "mnemon.run(resume='run', device='cpu')"
    assert stop.value.folder == Path("run")
    assert not mnemon.RunRecord.read(Path("run")).finished
    resumed = eval(said[1].replace(")", ", quiet=True, report=False)"))
    assert isinstance(resumed, mnemon.RunRecord)
    assert (resumed.matrix, resumed.losses) == (whole.matrix, whole.losses)


def test_except_exception_does_not_catch_it():
    assert not issubclass(mnemon.Interrupted, Exception)
    assert issubclass(mnemon.Interrupted, KeyboardInterrupt)


# What is shown


def in_a_notebook(text: io.StringIO) -> Console:
    return Console(file=text, force_jupyter=True, width=80)


def test_the_screen_is_what_there_is(monkeypatch):
    assert type(pick_screen(quiet=True)) is Screen
    assert type(pick_screen(quiet=False)) is LogScreen
    for kind in ("force_terminal", "force_jupyter"):
        monkeypatch.setattr(screen, "Terminal", lambda kind=kind: Console(**{kind: True}))
        assert type(pick_screen(quiet=False)) is LiveScreen


@pytest.mark.parametrize("there", [True, False])
def test_in_a_notebook_bars_need_ipywidgets(monkeypatch, there):
    monkeypatch.setattr(screen.importlib.util, "find_spec", lambda name: object() if there else None)
    assert can_redraw(in_a_notebook(io.StringIO())) == there
    assert can_redraw(Console(force_terminal=True))


def test_in_a_notebook_every_task_has_a_line(monkeypatch):
    shown: list[str] = []
    console = in_a_notebook(io.StringIO())
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: shown.append(text))
    view = LiveScreen(console)
    mnemon.run("toy", settings={"steps": 2}, out="run", report=False, device="cpu", screen=view)
    assert [bool(re.match(r"seed 0  task \d/3 learned: MSE", line)) for line in shown] == [True] * 3 + [False]
    assert shown[-1].strip() == "Saved to run"


def test_without_a_terminal_there_is_a_line_now_and_then_in_the_log(caplog, capsys, monkeypatch):
    monkeypatch.setattr(screen, "SECONDS", 1e9)
    with caplog.at_level(logging.INFO, "mnemon"):
        mnemon.run("toy", settings={"steps": 2}, out="run", report=False, device="cpu")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert re.match(r"seed 0: task 3/3 learned: MSE [\d.]+, average [\d.]+$", lines[0])
    assert lines[1] == "Saved to run"
    caplog.clear()
    monkeypatch.setattr(screen, "SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "mnemon"):
        mnemon.run("toy", settings={"steps": 2}, out="other", report=False, device="cpu")
    assert sum(" learned: " in record.getMessage() for record in caplog.records) == 3
    assert capsys.readouterr() == ("", "")


def test_quiet_is_silent(caplog, capsys):
    with caplog.at_level(logging.DEBUG, "mnemon"):
        mnemon.run("toy", settings={"steps": 2}, out="run", **QUIETLY)
    assert (caplog.records, capsys.readouterr()) == ([], ("", ""))
