"""Make the files of a version, from its own code, to see later that they still open: python make.py FOLDER.

`november/` was made so with the code of commit 2fd7df0; the files beside it are older.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import mnemon

SETTINGS = ["steps=40", "n_tasks=3", "target.hidden=[16]", "checkpoint_seconds=0.01"]
HYPERNET = ["chunk=100", "hypernet.hidden=[10]"]
PRESET = """
about = "A preset of a user's own."
like = "split-digits-cl1-hnet-r"

[training]
steps = 20
batch_size = 16

[benchmark]
n_tasks = 2

[method.replay]
latent = 3
encoder = [10]
decoder = [10]
"""
SPACE = """
preset = "toy"
pruning = false
[set]
steps = 150
checkpoint_seconds = 0.01
[search]
lr = {low = 1e-3, high = 1e-1, log = true}
hypernet.hidden = [[], [4]]
"""


class Net(nn.Module):
    """Linear layers and a batch norm."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.first(x)).relu())


def clouds(axis: int, n: int = 60) -> tuple[Tensor, Tensor]:
    """Two clouds that lie apart along an axis, between 0 and 1."""
    random = torch.Generator().manual_seed(axis)
    targets = torch.arange(n) % 2
    inputs = 0.5 + 0.1 * torch.randn(n, 4, generator=random)
    inputs[:, axis] += 0.6 * (targets - 0.5)
    return inputs.clamp(0, 1), targets


def module(kind: str) -> nn.Module:
    """Return the module of a model, with the same weights every time."""
    torch.manual_seed(1)
    return nn.Linear(4, 2) if kind == "linear" else Net()


OPTIONS = {"linear": {}, "lora": {"adapters": mnemon.LoRA("last", rank=2)}, "density": {"recognise": "density"}}


def make_models(folder: Path) -> None:
    """Make a model of each kind, and write what it answers beside it."""
    for kind in ("linear", "lora", "density", "stream"):
        model = mnemon.ContinualModel(module(kind), lr=0.01, **OPTIONS.get(kind, {}))
        if kind == "stream":
            days = [clouds(axis, 400) for axis in (0, 1)]
            model.learn_stream([(x[i : i + 20], y[i : i + 20]) for x, y in days for i in range(0, 400, 20)])
        else:
            for axis, task in enumerate(("monday", "tuesday")):
                model.learn(clouds(axis), task=task, steps=40, quiet=True)
        model.save(folder / kind)
        answers = {task: model.predict(clouds(0, 8)[0], task=task).outputs.tolist() for task in model.tasks}
        (folder / f"{kind}.json").write_text(json.dumps(answers))


def command(*words: str, until: Callable[[], bool] | None = None) -> None:
    """Run the command line; stop it as Ctrl-C does when something has happened."""
    process = subprocess.Popen([sys.executable, "-m", "mnemon", *words], start_new_session=True)
    while until is not None and not until():
        assert process.poll() is None, f"{words} ended before it could be stopped"
        time.sleep(0.001)
    if until is not None:
        os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == (0 if until is None else 130), words


def make_folders() -> None:
    """Make runs, comparisons and a sweep in the current folder: some finished, some stopped."""
    shared = [word for setting in SETTINGS for word in ("--set", setting)]
    settings = [*shared, *(word for setting in HYPERNET for word in ("--set", setting))]
    alone = ["--workers", "1", "--no-report", "--quiet"]
    Path("preset.toml").write_text(PRESET)
    Path("space.toml").write_text(SPACE)
    command("run", "preset.toml", *alone, "--out", "replayed")
    command("run", *settings, *alone, "--out", "finished")
    command("run", *settings, *alone, "--out", "stopped", until=lambda: losses_in("stopped") >= 1)
    study = ["run", *settings, "--seeds", "2", *alone]
    command(*study, "--out", "study")
    command(*study, "--out", "study-stopped", until=lambda: losses_in("study-stopped/seed-1") >= 1)
    compare = ["compare", f"hypernet:{','.join(HYPERNET)}", "online-ewc", *shared, *alone]
    command(*compare, "--out", "compared")
    command(*compare, "--out", "compared-stopped", until=lambda: losses_in("compared-stopped/online-ewc/seed-0") >= 1)
    sweep = ["sweep", "space.toml", "--trials", "3", *alone[:2], "--quiet"]
    command(*sweep, "--out", "sweep", until=lambda: losses_in("sweep/trials/trial-0001") >= 1)


def losses_in(folder: str) -> int:
    """Return how many tasks of a run have left their losses."""
    path = Path(folder) / "losses.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    os.chdir(target)
    make_models(target)
    make_folders()
