# ruff: noqa: E501 (a message is easier to read in one piece)
"""What a user gets wrong is answered in one line with exit code 2, and nothing is overwritten or lost."""

from __future__ import annotations

import json

import pytest
import torch
from command_line import contents
from safetensors.torch import save_file

from mnemon.experiments.preset import all_presets
from mnemon.learners import LEARNERS
from mnemon.training.checkpoint import FILE

METHODS = f"{', '.join(LEARNERS)}."


def test_an_unknown_preset_is_answered_with_the_nearest_and_what_lists_all(refused):
    n = len(all_presets())
    expected = f"Unknown preset 'split-digit'. Did you mean 'split-digits'? `mnemon presets` lists all {n}."
    assert refused("run", "split-digit") == expected
    assert refused("settings", "split-digit") == expected


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stesp=3", "Unknown setting 'stesp' of split-digits and hypernet. Did you mean 'steps'? `mnemon settings` lists them all."),
        ("hidden=[5]", "Setting 'hidden' is ambiguous: write method.hypernet.hidden or target.hidden."),
        ("activation=relu", "Setting 'activation' is ambiguous: write method.hypernet.activation or target.activation."),
        ("steps", "--set takes name=value, not 'steps'."),
        ("=5", "--set takes name=value, not '=5'."),
        ("method=hypernett", f"Unknown method 'hypernett'. Did you mean 'hypernet'? Choose one of: {METHODS}"),
        ("benchmark=split-digit", "Unknown benchmark 'split-digit'. Did you mean 'split-digits'? Choose one of: toy-regression, "
         "split-digits, permuted-digits, split-mnist, split-fashion, permuted-mnist, split-cifar, split-cifar-100."),
        ("target.activation=rleu", "Unknown activation 'rleu'. Did you mean 'relu'? Choose one of: relu, elu, leaky-relu, sigmoid, tanh, linear."),
        ("hypernet.activation=gelu", "Unknown activation 'gelu'. Did you mean 'elu'? Choose one of: relu, elu, leaky-relu, sigmoid, tanh, linear."),
        ("optimizer.name=adamm", "Unknown optimizer 'adamm'. Did you mean 'adam'? Choose one of: adam, adamw, sgd, rmsprop."),
        ("network=cnn", "Unknown network 'cnn'. Choose one of: mlp, lenet, zenkenet, resnet32, resnet18, wrn-28-10."),
        ("form=chuncked", "Unknown hypernet form 'chuncked'. Did you mean 'chunked'? Choose one of: full, chunked, structured."),
        ("heads=every", "Unknown method.heads 'every'. Choose one of: all, own."),
        ("penalty=exat", "Unknown method.penalty 'exat'. Did you mean 'exact'? Choose one of: exact, plain, weighted."),
        ("matrix=diag", "Unknown training.matrix 'diag'. Did you mean 'diagonal'? Choose one of: full, diagonal."),
        ("steps=abc", "training.steps must be a whole number, not 'abc'."),
        ("steps=2.5", "training.steps must be a whole number, not 2.5."),
        ("lr=fast", "optimizer.lr must be a number, not 'fast'."),
        ("target.hidden=5", "target.hidden must be a list such as [10, 10], not 5."),
        ("target.hidden=[5,x]", "target.hidden must be a list such as [10, 10], not '[5,x]'."),
        ("steps=0", "training.steps must be at least 1, not 0."),
        ("batch_size=0", "training.batch_size must be at least 1, not 0."),
        ("chunk=0", "hypernet.chunk must be at least 1, not 0."),
        ("embedding_size=0", "hypernet.embedding_size must be at least 1, not 0."),
        ("chunk_embedding_size=-1", "hypernet.chunk_embedding_size must be at least 1, not -1."),
        ("beta=-1", "method.beta must be a finite number of at least 0, not -1.0."),
        ("beta=nan", "method.beta must be a finite number of at least 0, not nan."),
        ("lr=0", "optimizer.lr must be a finite number above 0, not 0.0."),
        ("lr=-1", "optimizer.lr must be a finite number above 0, not -1.0."),
        ("lr=inf", "optimizer.lr must be a finite number above 0, not inf."),
        ("target.hidden=[0]", "target.hidden must hold widths of at least 1, not [0]."),
        ("n_tasks=6", "n_tasks is 6; 10 classes give 1 to 5 tasks of 2 classes."),
        ("n_tasks=0", "n_tasks is 0; 10 classes give 1 to 5 tasks of 2 classes."),
        ("classes_per_task=11", "classes_per_task is 11; a task can have 1 to 10 classes here."),
        ("label_smoothing=2", "training.label_smoothing must be at least 0 and below 1, not 2.0."),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_before_anything_is_made(refused, tmp_path, setting, message):
    assert refused("run", "--set", setting, "--out", "run") == message
    assert list(tmp_path.iterdir()) == []


def test_a_setting_of_another_method_is_refused_with_the_name_of_this_one(refused):
    assert refused("run", "--set", "method=joint", "--set", "chunk=5") == (
        "Unknown setting 'chunk' of split-digits and joint. `mnemon settings` lists them all."
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0"], "--seeds must be at least 1, not 0."),
        (["--seeds", "-2"], "--seeds must be at least 1, not -2."),
        (["--workers", "0"], "--workers must be at least 1, not 0."),
        (["--threads", "0"], "--threads must be at least 1, not 0."),
        (["--seed", "-1"], "--seed must not be negative, not -1."),
        (["--device", "gpu"], "Unknown device 'gpu'. Did you mean 'cpu'? Choose one of: cpu, cuda, mps, auto."),
        (["--device", "gpu", "--on", "ray"], "Unknown device 'gpu'. Did you mean 'cpu'? Choose one of: cpu, cuda, mps, auto."),
        (["--device", "auto:0"], "Device 'auto:0' is not available here. Choose one of: auto, cpu"),
        (["--data", "nowhere"], "The data folder 'nowhere' (--data) does not exist. Name a folder that holds the data sets, "
         "or none to use the cache."),
        (["--resume", "x", "--dry-run"], "--dry-run estimates a preset: leave out --resume."),
        (["--resume", "x", "--out", "y"], "--resume continues in its own folder: leave out --out. Only a URL, to copy it to, can be given."),
        (["--resume", "x", "--out", "memory://y"], "There is no folder x."),
        (["--resume", "x", "--seeds", "2"], "--resume continues the seeds of its folder: leave out --seeds and --seed."),
        (["--seeds", "x"], "--seeds takes a whole number, not 'x'."),
        (["--sedes", "2"], "Unknown option: --sedes. Did you mean --seeds?"),
        (["--set"], 'Command "run" parameter --set requires an argument.'),
        (["split-digits", "toy"], "Unexpected words: toy. See: mnemon --help"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_before_anything_is_made(refused, tmp_path, words, message):
    assert refused("run", *words).startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run --beta 1", "Unknown option: --beta. It is a setting: use --set beta=1."),
        ("run --method.beta=1", "Unknown option: --method.beta. It is a setting: use --set method.beta=1."),
        ("run --batch-size 5 --quiet", "Unknown option: --batch-size. It is a setting: use --set batch_size=5."),
        ("run --beta -1", "Unknown option: --beta. It is a setting: use --set beta=-1."),
        ("run -beta 1", "Unknown option: -beta. It is a setting: use --set beta=1."),
        ("run --steps", "Unknown option: --steps. It is a setting: use --set steps=VALUE."),
        ("run --steps --quiet", "Unknown option: --steps. It is a setting: use --set steps=VALUE."),
        ("run --gamma=0.5", "Unknown option: --gamma. It is a setting: use --set gamma=0.5."),
        ("compare hypernet hat --lr 0.1", "Unknown option: --lr. It is a setting: use --set lr=0.1."),
        ("sweep split-digits --target.hidden=[5]", "Unknown option: --target.hidden. It is a setting: use --set 'target.hidden=[5]'."),
        ("settings --scenario cl3", "Unknown option: --scenario. It is a setting: use --set scenario=cl3."),
        ("run --method joint", "Unknown option: --method. It is a setting: use --set method=joint."),
        ("show x --beta 1", "Unknown option: --beta."),
        ("run --eta 1", "Unknown option: --eta. Did you mean --set?"),
        ("run --=1", "Unknown option: --=1."),
    ],
)  # fmt: skip
def test_a_setting_that_is_given_as_an_option_is_answered_with_what_to_type(refused, tmp_path, words, message):
    assert refused(*words.split()) == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["compare joint", "reproduce table-1", "sweep split-digits"])
def test_what_starts_processes_by_itself_is_refused_under_torchrun(refused, monkeypatch, tmp_path, words):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert refused(*words.split()) == (
        f"torchrun shares one `mnemon run` between processes; `mnemon {words.split()[0]}` starts its own."
    )
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_answered_with_the_nearest_and_all(refused):
    assert refused("runn") == (
        'Unknown command "runn". Did you mean "run"? Available commands: run, compare, reproduce, sweep, report, presets, settings, show, ...'
    )


def test_a_preset_file_that_is_missing_damaged_or_wrong_is_named(refused, tmp_path):
    assert refused("run", "mine.toml") == "There is no preset file mine.toml."
    mine = tmp_path / "mine.toml"
    mine.write_text("[method\n")
    assert refused("run", "mine.toml").startswith("The preset file mine.toml cannot be read: ")
    mine.write_text('like = "split-digits"\n[trainig]\nsteps = 5\n')
    assert refused("run", "mine.toml").startswith(
        "Unknown section 'trainig'. Did you mean 'training'? Choose one of:"
    )
    mine.write_text('like = "split-digits"\n[training]\nstep = 5\n')
    assert refused("run", "mine.toml").startswith(
        "Unknown setting 'training.step'. Did you mean 'steps'? Known: steps,"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_truncated_data_file_is_named_with_its_size(refused, tmp_path):
    path = tmp_path / "data" / "train-images-idx3-ubyte"
    path.parent.mkdir()
    path.write_bytes(b"\0" * 1000)
    message = refused("run", "split-mnist", "--data", "data", "--out", "run")
    assert message.startswith("'data/train-images-idx3-ubyte' should hold 47,040,016 bytes and holds 1,000.")
    assert path.stat().st_size == 1000
    assert not (tmp_path / "run").exists()


def test_an_existing_folder_is_never_written_to(refused, small, finished, tmp_path):
    before = contents(finished)
    assert refused("run", *small, "--out", finished) == (
        f"{finished} exists already and is not changed. Choose another --out, or resume what is in it: "
        f"mnemon run --resume {finished}"
    )
    assert contents(finished) == before
    assert refused("run", *small, "--out", finished / "record.json").startswith(
        f"{finished}/record.json exists already"
    )
    assert contents(finished) == before


# Resuming


def test_a_folder_that_is_missing_or_no_run_is_not_resumed(refused, tmp_path):
    assert refused("run", "--resume", "none") == "There is no folder none."
    (tmp_path / "empty").mkdir()
    assert refused("run", "--resume", "empty") == "empty holds no run: there is no record.json in it or below it."
    assert list((tmp_path / "empty").iterdir()) == []


def test_other_settings_are_not_resumed(refused, stopped):
    before = contents(stopped)
    assert refused("run", "--resume", stopped, "--set", "beta=1") == (
        "The run was begun with other settings: method.beta (1.0 and 0.1) (given and begun with). "
        "Resume it without them, or start a new run."
    )
    assert refused("run", "toy", "--resume", stopped).startswith("The run was begun with other settings: benchmark.")
    assert contents(stopped) == before


def test_an_edited_config_is_not_resumed(refused, stopped):
    config = stopped / "config.toml"
    config.write_text(config.read_text().replace("beta = 0.1", "beta = 0.5"))
    before = contents(stopped)
    assert refused("run", "--resume", stopped) == (
        f"The checkpoint in {stopped} was written with other settings: method.beta (0.1 and 0.5) (then and now)."
    )
    assert contents(stopped) == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: b"", "is damaged: "),
        (lambda content: content[: len(content) // 2], "is damaged: "),
        (lambda content: content[:-1], "is damaged: "),
        (lambda content: content[:-5] + b"\0\0\0" + content[-2:], "is damaged: its content has changed since it was saved."),
        (lambda content: b"not a checkpoint at all", "is damaged: "),
    ],
)  # fmt: skip
def test_a_damaged_checkpoint_is_named_and_nothing_is_lost(refused, stopped, damage, message):
    path = stopped / FILE
    path.write_bytes(damage(path.read_bytes()))
    before = contents(stopped)
    assert refused("run", "--resume", stopped).startswith(f"{path} {message}")
    assert contents(stopped) == before


def test_a_foreign_checkpoint_is_named_and_nothing_is_lost(refused, stopped):
    save_file({"weight": torch.ones(3)}, stopped / FILE)
    before = contents(stopped)
    assert refused("run", "--resume", stopped) == (
        f"{stopped / FILE} was not written by mnemon: its header is not that of a run."
    )
    assert contents(stopped) == before


def test_an_absent_checkpoint_does_not_begin_a_run_anew(refused, stopped):
    (stopped / FILE).unlink()
    before = contents(stopped)
    assert refused("run", "--resume", stopped) == (
        f"There is no checkpoint.safetensors in {stopped}, though tasks were learned there: "
        "put it back, or start a new run in another folder."
    )
    assert contents(stopped) == before


@pytest.mark.parametrize("command", [("run", "--resume"), ("show",)])
def test_a_record_that_is_newer_damaged_or_incomplete_is_named(refused, stopped, command):
    record = stopped / "record.json"
    facts = json.loads(record.read_text())
    record.write_text(json.dumps({**facts, "format": 99}))
    assert refused(*command, stopped) == (
        f"The record in {stopped} has format 99 and was written by a newer mnemon; this one reads format 2."
    )
    record.write_text("{")
    assert refused(*command, stopped).startswith(f"The record in {stopped} is damaged: ")
    record.write_text(json.dumps(facts))
    (stopped / "config.toml").unlink()
    assert refused(*command, stopped) == f"{stopped} is not a run folder: config.toml is missing."


@pytest.mark.parametrize(
    ("change", "said"), [({"task_names": ["a", "b"]}, "2 tasks and accuracy"), ({"metric": "mse"}, "3 tasks and mse")]
)
def test_a_record_of_other_tasks_than_its_settings_make_is_not_resumed(refused, stopped, change, said):
    record = stopped / "record.json"
    facts = json.loads(record.read_text()) | {"matrix": [], "inferred": [], "untrained": [], **change}
    record.write_text(json.dumps(facts))
    before = contents(stopped)
    assert refused("run", "--resume", stopped) == (
        f"The record in {stopped} does not fit its settings: it has {said}, they give 3 tasks and accuracy. "
        "Start a new run in another folder."
    )
    assert contents(stopped) == before


# Showing


def test_a_folder_without_runs_is_not_shown(refused, tmp_path):
    assert refused("show", "none") == "There is no folder none."
    assert refused("show", tmp_path).endswith("holds no run: there is no record.json in it or below it.")
    assert refused("show") == 'Command "show" parameter RUN requires an argument.'


def test_mixed_runs_are_not_shown_as_one(refused, finished, tmp_path):
    assert refused("show", tmp_path, "more") == "Unexpected words: more. See: mnemon --help"
    other = tmp_path / "other"
    other.mkdir()
    for name, content in contents(finished).items():
        (other / name).write_bytes(content)
    assert refused("show", tmp_path) == (
        "There are two runs of split-digits with seed 0 here. Name the folder of one of them."
    )
    config = other / "config.toml"
    config.write_text(config.read_text().replace("beta = 0.1", "beta = 0.5"))
    assert refused("show", tmp_path) == (
        "There are runs with different settings here: method.beta (0.1 and 0.5). Name the folder of one of them."
    )
    facts = json.loads((other / "record.json").read_text())
    (other / "record.json").write_text(json.dumps({**facts, "preset": "toy"}))
    assert refused("show", tmp_path) == (
        "There are runs of different experiments here: split-digits and toy. Name the folder of one of them."
    )


# Training that cannot go on


def test_a_rate_that_is_far_too_high_stops_the_run_by_name(refused, small, tmp_path):
    words = [*small, "--set", "lr=1e30", "--set", "checkpoint_seconds=0", "--out", "run"]
    message = refused("run", *words)
    assert message == (
        "task_loss became nan in task 1 ('0,1'), step 2; try a smaller optimizer.lr. "
        "The last checkpoint before that is kept in run."
    )
    # The checkpoint is that of the step before, and the run can be taken up: it ends in the same way.
    assert refused("run", "--resume", "run") == message
