"""A study in PostgreSQL is shared by several parents at once: together they do exactly the trials that are wanted."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemon.results.sweep import COUNTED, read_trials

pytest.importorskip("psycopg")
PROGRAMS = [shutil.which(name) for name in ("initdb", "pg_ctl")]
pytestmark = [
    pytest.mark.skipif(None in PROGRAMS, reason="there are no programs of a PostgreSQL server (initdb, pg_ctl)"),
]
SPACE = """
preset = "toy"
pruning = false
[set]
steps = 30
[search]
lr = {low = 1e-3, high = 1e-1, log = true}
"""
PARENT = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from test_sweep import Here, PLACE
from mnemon.experiments.sweep.prepare import SweepRequest, prepare
from mnemon.experiments.sweep.trials import run_sweep
url, out = sys.argv[1:3]
ready = prepare(SweepRequest("space.toml", out=Path(out), seed=0, study="shared", storage=url, trials=6), PLACE)
run_sweep(ready, Here(), lambda trials: None)
"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A server of its own, in a folder of its own, by a user that is not root."""
    user = "postgres" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="mnemon-pg-") as folder:
        if user:
            shutil.chown(folder, user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        quiet = {"user": user, "stdout": subprocess.DEVNULL, "cwd": folder, "check": True}
        initdb, pg_ctl = (str(program) for program in PROGRAMS)
        subprocess.run([initdb, "-D", f"{folder}/data", "-U", "mnemon", "-A", "trust", "-N"], **quiet)
        serve = [pg_ctl, "-D", f"{folder}/data", "-w", "-l", f"{folder}/log"]
        subprocess.run([*serve, "-o", options, "start"], **quiet)
        try:
            yield f"postgresql+psycopg://mnemon@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*serve, "-m", "immediate", "stop"], **quiet)


def test_two_parents_at_once_do_exactly_the_trials_that_are_wanted(database, tmp_path):
    (tmp_path / "space.toml").write_text(SPACE)
    words = [sys.executable, "-c", PARENT, database]
    parents = [subprocess.Popen([*words, out, str(Path(__file__).parent)], cwd=tmp_path) for out in ("one", "two")]
    try:
        assert [parent.wait(300) for parent in parents] == [0, 0]
    finally:
        for parent in parents:
            parent.kill()
            parent.wait()
    trials = read_trials(tmp_path / "one")
    assert sum(trial.state in COUNTED for trial in trials) == 6
    folders = [sorted(path.name for path in (tmp_path / out / "trials").iterdir()) for out in ("one", "two")]
    done = [trial.folder for trial in trials if trial.state in COUNTED]
    assert sorted(done) == sorted(folders[0] + folders[1])  # no trial was run by both
    assert len({trial.settings["optimizer.lr"] for trial in trials if trial.state in COUNTED}) == 6
