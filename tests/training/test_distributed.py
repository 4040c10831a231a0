# ruff: noqa: E501 (a message is easier to read in one piece)
"""Processes that share a run come to the same as one process, and only the first one writes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch

from mnemon.cli import main
from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner, build_stream, execute
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import new_jobs
from mnemon.learners import LEARNERS
from mnemon.problem import Batch
from mnemon.results.record import RunRecord
from mnemon.training import distributed
from mnemon.training.batches import Batches
from mnemon.training.checkpoint import FILE
from mnemon.training.distributed import ALONE, Crew
from mnemon.training.trainer import Stopped

SMALL = ["steps=25", "n_tasks=3", "batch_size=15", "log_every=5"]  # not divisible by two
SETTINGS = {
    "hypernet": ["chunk=500", "target.hidden=[20]", "beta=0.5"],
    "finetuned-target": ["target.hidden=[20]"],
    "from-scratch": ["target.hidden=[20]"],
    "from-scratch-hypernet": ["target.hidden=[20]", "chunk=500"],
    "joint": ["target.hidden=[20]"],
    "online-ewc": ["target.hidden=[20]", "strength=100"],
    "synaptic-intelligence": ["target.hidden=[20]", "strength=10"],
}
PROGRAM = """
import sys, json
from pathlib import Path
from mnemon.experiments.preset import load_preset
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.run import execute
from mnemon.experiments.run_config import resolve
from mnemon.training.distributed import crew, leave
with crew("cpu") as processes:
    assert processes.size == 2
    for method, words in json.loads(sys.argv[2]).items():
        config = resolve(load_preset("split-digits"), [f"method={method}", *words])
        folder = Path(sys.argv[1]) / method
        if processes.leads:
            folder.mkdir()
        processes.any(False)
        record = execute(Job(0, config, 0, folder), RunContext(Compute("cpu"), crew=processes))
        other = processes.mean({"a": record.matrix[-1][0]})["a"]
        assert other == record.matrix[-1][0], "the processes have parted"
leave(0)
"""

APART = """
import sys, json
from pathlib import Path
from mnemon.errors import UsageError
from mnemon.experiments.preset import load_preset
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.run import execute
from mnemon.experiments.run_config import resolve
from mnemon.training.distributed import crew, leave
with crew("cpu") as processes:
    config = resolve(load_preset("split-digits"), json.loads(sys.argv[1]))
    for case in ("absent", "damaged"):
        try:
            execute(Job(0, config, 0, Path(case) / str(processes.rank)), RunContext(Compute("cpu"), crew=processes))
        except UsageError as error:
            Path(f"{case}-{processes.rank}.txt").write_text(str(error))
leave(0)
"""


def torchrun(*words: object, folder) -> subprocess.CompletedProcess:
    run = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, *run, *map(str, words)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )


def test_two_processes_learn_what_one_learns(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "two").mkdir()
    words = {method: [*SMALL, *settings] for method, settings in SETTINGS.items()}
    done = torchrun("program.py", "two", json.dumps(words), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(SETTINGS) == {name for name, method in LEARNERS.items() if method.shares_batches}
    for method, settings in words.items():
        one = tmp_path / method
        one.mkdir()
        alone = execute(
            Job(0, resolve(load_preset("split-digits"), [f"method={method}", *settings]), 0, one),
            RunContext(Compute("cpu")),
        )
        shared = RunRecord.read(tmp_path / "two" / method)
        assert shared.finished
        assert torch.tensor(shared.matrix).allclose(torch.tensor(alone.matrix), atol=1e-3, equal_nan=True), method
        for ours, theirs in zip(alone.losses, shared.losses, strict=True):
            assert ours == pytest.approx(theirs, rel=2e-3, abs=1e-5), method


def test_the_command_under_torchrun_writes_and_speaks_once(tmp_path):
    small = ["--set", "steps=5", "--set", "n_tasks=2", "--set", "target.hidden=[20]", "--set", "chunk=300"]
    done = torchrun("-m", "mnemon", "run", *small, "--out", "run", "--device", "cpu", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Saved to run.") == 1
    assert done.stdout.count("task 2/2 learned") == 1
    assert RunRecord.read(tmp_path / "run").finished


def test_processes_that_see_different_checkpoints_all_refuse_to_go_on(tmp_path):
    words = [*SMALL, *SETTINGS["hypernet"]]
    config, calls = resolve(load_preset("split-digits"), words), itertools.count(1)
    for case in ("absent", "damaged"):
        for rank in ("0", "1"):
            (tmp_path / case / rank).mkdir(parents=True)
        with pytest.raises(Stopped):
            execute(
                Job(0, config, 0, tmp_path / case / "0"),
                RunContext(Compute("cpu"), should_stop=lambda: next(calls) % 30 == 0),
            )
    (tmp_path / "damaged" / "1" / FILE).write_bytes(b"nothing")
    before = (tmp_path / "absent" / "0" / FILE).read_bytes()
    (tmp_path / "program.py").write_text(APART)
    done = torchrun("program.py", json.dumps(words), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert (tmp_path / f"absent-{rank}.txt").read_text() == (
            f"The processes do not see the same checkpoint in absent/{rank}: they are at task 2, step 5 and task 1, "
            "step 0. Put the folder where all machines see it, or resume without torchrun."
        )
        said = (tmp_path / f"damaged-{rank}.txt").read_text()
        assert said.startswith("damaged/1/checkpoint.safetensors is damaged: ")
    assert (tmp_path / "absent" / "0" / FILE).read_bytes() == before
    assert not list((tmp_path / "absent" / "1").iterdir())


def test_several_seeds_are_not_shared_when_they_are_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Crew, "share", lambda self, begin: begin())
    monkeypatch.setattr(distributed, "crew", lambda device: nullcontext(Crew(0, 2)))
    folder, _ = new_jobs(resolve(load_preset("toy")), range(2), tmp_path / "runs", Compute("cpu"))
    with pytest.raises(SystemExit) as end:
        main(["run", "--resume", str(folder)])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        f"mnemon: torchrun shares one run between processes, and 2 in {folder} are not finished. Name the folder of "
        f"one of them, or resume without torchrun: mnemon run --resume {folder}\n"
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_of_the_processes_of_torchrun_one_says_what_a_run_would_take(monkeypatch, capsys, rank):
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": 2, "RANK": rank}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(SystemExit) as end:
        main(["run", "toy", "--dry-run", "--device", "cpu"])
    assert not end.value.code
    assert bool(capsys.readouterr().out) == (rank == 0)


def test_parts_of_a_batch_add_up_to_it():
    past = (Batch(0, torch.arange(7.0)[:, None], torch.arange(7)),)
    batch = Batch(1, torch.arange(10.0)[:, None], torch.arange(10), past, 0.5)
    parts = [Crew(rank, 3).part(batch) for rank in range(3)]
    assert [len(part) for part in parts] == [4, 3, 3]
    assert torch.cat([part.inputs for part in parts]).equal(batch.inputs)
    assert torch.cat([part.past[0].targets for part in parts]).equal(past[0].targets)
    mean = sum(part.weight * part.inputs.mean() for part in parts) / 3
    assert mean == pytest.approx(float(batch.inputs.mean()))
    assert ALONE.part(batch) is batch


@pytest.mark.parametrize(
    ("words", "batch_size", "message"),
    [
        (["method=hat"], 8, "Processes can share hypernet, online-ewc, synaptic-intelligence, finetuned-target, from-scratch, from-scratch-hypernet, joint, but not hat: run it without torchrun."),
        (["lookahead=differentiated"], 8, "Processes cannot share a differentiated lookahead: use lookahead=constant."),
        ([], 1, "training.batch_size is 1: too small for 2 processes."),
        (["method=joint"], 4, "training.batch_size is 4: a step has 1 examples of each of 4 earlier tasks, too few for 2 processes; use at least 5."),
    ],
)  # fmt: skip
def test_what_does_not_come_to_the_same_is_refused(words, batch_size, message):
    config = resolve(load_preset("split-digits"), words)
    learner = build_learner(config, build_stream(config, 0, Compute("cpu")), 0)
    with pytest.raises(UsageError) as error:
        Crew(0, 2).check(learner, batch_size)
    assert str(error.value) == message


def test_the_least_batch_that_is_named_has_enough_of_every_earlier_task():
    config = resolve(load_preset("split-digits"), ["method=joint"])
    stream = build_stream(config, 0, Compute("cpu"))
    Crew(0, 2).check(build_learner(config, stream, 0), 5)
    Crew(1, 2).part(Batches(stream.tasks, 4, 5, 0, with_past=True, steps=1)[0])


@pytest.mark.parametrize(
    ("device", "gpus", "message"),
    [
        ("cuda", 0, "This machine has GPUs for 0 of its 2 processes: use --device cpu."),
        ("cuda", 1, "This machine has GPUs for 1 of its 2 processes: use torchrun --nproc-per-node 1, or --device cpu."),
        ("auto", 1, "This machine has GPUs for 1 of its 2 processes: use torchrun --nproc-per-node 1, or --device cpu."),
        ("cuda:1", 2, "--device cuda:1 is one GPU for all processes: use --device cuda, and each process gets its own."),
    ],
)  # fmt: skip
def test_processes_without_a_gpu_of_their_own_are_refused(monkeypatch, device, gpus, message):
    for name, value in {
        "TORCHELASTIC_RUN_ID": "none",
        "WORLD_SIZE": 2,
        "LOCAL_WORLD_SIZE": 2,
        "LOCAL_RANK": 0,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(UsageError) as error, distributed.crew(device):
        pass
    assert str(error.value) == message


def test_batch_norm_needs_the_whole_batch(normalized_net):
    config = resolve(load_preset("split-digits"), ["network=normalized"])
    learner = build_learner(config, build_stream(config, 0, Compute("cpu")), 0)
    with pytest.raises(
        UsageError, match=r"^BatchNorm1d depends on the whole batch and is not shared: run it without"
    ):
        Crew(0, 2).check(learner, 8)
    ALONE.check(learner, 8)
