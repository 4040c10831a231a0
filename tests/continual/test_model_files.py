"""A model in one file: taken up in another process it learns on as before, and what does not fit is named."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from clouds import Net, answers, assert_same, clouds, make, refused
from safetensors import safe_open
from torch import nn

import mnemon
from mnemon.continual.files import FORMAT
from mnemon.training import checkpoint

KINDS = {
    "everything": {},
    "densities": {"recognise": "density", "seed": 3},
    "adapters": {"adapters": mnemon.LoRA("last", rank=2)},
    "a part": {"generate": ("last.*", "norm.*"), "compression": 20, "beta": 1},
}
EXPECTED = "ignore:Task 'one' may have lost"  # five steps are few
GO_ON = """
import sys
import torch
sys.path.insert(0, sys.argv[1])
from clouds import Net, answers, clouds
import mnemon

torch.set_num_threads(1)
torch.manual_seed(99)  # a module with other values, but for what is used as it came
for path in sys.argv[2:]:
    module = Net()
    module.load_state_dict(torch.load(path + ".frozen", weights_only=True), strict=False)
    model = mnemon.load(path, module)
    model.learn(clouds(2), task="three", steps=5, quiet=True)
    model.relearn(clouds(0, seed=1), task="one", steps=3, quiet=True)
    inputs, targets = clouds(1)
    model.learn_stream([(inputs, inputs[:, :3].clone())] * 3, steps=2)
    torch.save(answers(model), path + ".answers")
"""


def learn_on(model: mnemon.ContinualModel) -> None:
    model.learn(clouds(2), task="three", steps=5, quiet=True)
    model.relearn(clouds(0, seed=1), task="one", steps=3, quiet=True)
    inputs, _ = clouds(1)
    model.learn_stream([(inputs, inputs[:, :3].clone())] * 3, steps=2)


def test_in_a_new_process_learning_goes_on_as_if_nothing_had_been_saved(tmp_path):
    models = {}
    for kind, settings in KINDS.items():
        models[kind] = make(**settings)
        models[kind].learn(clouds(0), task="one", steps=5, quiet=True)
        models[kind].learn(clouds(1), task="two", steps=5, quiet=True)
        models[kind].save(tmp_path / f"{kind}.mnemon")
        generated = {slot.name for slot in models[kind].state.learner.memory.target.slots}
        torch.manual_seed(1)
        frozen = {name: tensor for name, tensor in Net().state_dict().items() if name not in generated}
        torch.save(frozen, tmp_path / f"{kind}.mnemon.frozen")
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            EXPECTED,
            "-c",
            GO_ON,
            Path(__file__).parent,
            *(str(tmp_path / f"{kind}.mnemon") for kind in KINDS),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for kind, model in models.items():
        learn_on(model)
        assert_same(answers(model), torch.load(tmp_path / f"{kind}.mnemon.answers", weights_only=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_is_the_same_in_all_that_is_kept(kind, tmp_path):
    model = make(**KINDS[kind])
    model.learn(clouds(0), task="one", steps=2, quiet=True)
    torch.manual_seed(1)
    loaded = mnemon.load(model.save(tmp_path / "memory"), Net())
    assert loaded.state.settings == model.state.settings
    assert loaded.about("one") == model.about("one")
    assert repr(loaded) == repr(model)
    assert_same(model.state.learner.tensors(), loaded.state.learner.tensors())


def test_nothing_in_a_file_is_a_pickle(learned, tmp_path, monkeypatch):
    path = learned.save(tmp_path / "memory")
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    assert_same(answers(mnemon.load(path, Net())), answers(learned))


def test_a_file_is_safetensors_with_json_and_names_its_format(learned, tmp_path):
    path = learned.save(tmp_path / "memory")
    assert path.name == "memory.mnemon"
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["mnemon"])["format"] == FORMAT
    _, facts = checkpoint.read(path, (FORMAT,))
    assert [task["name"] for task in facts["tasks"]] == ["monday", "tuesday"]


def test_a_model_without_tasks_is_kept_too(tmp_path):
    loaded = mnemon.load(make().save(tmp_path / "memory"), Net())
    assert loaded.tasks == []
    loaded.learn(clouds(0), task="one", steps=1, quiet=True)


def test_settings_may_be_numbers_of_any_kind(tmp_path):
    settings = {"beta": torch.tensor(0.5), "lr": torch.tensor(0.25).numpy(), "compression": 30, "seed": 2}
    model = make(**settings)
    found = mnemon.load(model.save(tmp_path / "memory"), Net()).state.settings
    assert (found.beta, found.lr, found.compression, found.seed) == (0.5, 0.25, 30.0, 2)


def test_a_loss_of_ones_own_is_given_again_after_loading(tmp_path):
    inputs, _ = clouds(0)
    data, model = (inputs, inputs[:, :3].clone()), make()

    def loss(outputs, targets):
        return (outputs - targets).abs().mean()

    model.learn(data, task="own", loss=loss, steps=2, quiet=True)
    loaded = mnemon.load(model.save(tmp_path / "memory"), Net())
    wanted = "Task 'own' was learned with your own loss, which is not in the file: give loss=."
    assert refused(lambda: loaded.evaluate(data, "own")) == wanted
    assert refused(lambda: loaded.relearn(data, "own")) == wanted
    assert loaded.evaluate(data, "own", loss=loss) == model.evaluate(data, "own")
    assert loaded.relearn(data, "own", loss=loss, steps=1, quiet=True).goal.own_loss is loss


# What does not fit


class Swapped(nn.Module):
    """Net, but for the order in which its layers are named."""

    def __init__(self):
        super().__init__()
        self.last, self.norm, self.first = nn.Linear(16, 3), nn.BatchNorm1d(16), nn.Linear(4, 16)

    forward = Net.forward


def frozen_first() -> nn.Module:
    module = Net()
    module.first.requires_grad_(False)
    return module


MISFITS = {
    "{path} belongs to another module: 'last.weight' is [3, 16] (float32) in the file and [5, 16] (float32) "
    "in this module.": (lambda: Net(5)),
    "{path} belongs to another module: 'first.weight' is [16, 4] (float32) in the file and [16, 4] (float64) "
    "in this module.": (lambda: Net().double()),
    "{path} belongs to another module: 'first.weight' is [16, 4] (float32) in the file and missing in this module.": (
        lambda: nn.Linear(4, 3)
    ),
    "{path} belongs to a module with its parameters in another order: it has 'first.weight' where this module "
    "has 'last.weight'.": Swapped,
    "{path} was saved with 'first.weight' trainable, but it is frozen in this module: set requires_grad as before.": (
        frozen_first
    ),
    "The file holds weights but no code: call load('{path}', module) with a module of the same "
    "architecture.": lambda: None,
    "ContinualModel takes an nn.Module, not str.": lambda: "Net",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    model = make()
    model.learn(clouds(0), task="one", steps=1, quiet=True)
    return model.save(tmp_path_factory.mktemp("models") / "memory")


@pytest.mark.parametrize("message", MISFITS)
def test_a_module_that_does_not_fit_is_refused_with_the_place(message, file):
    assert refused(lambda: mnemon.load(file, MISFITS[message]())) == message.format(path=file)


def test_weights_that_are_used_as_they_came_have_to_be_the_same(tmp_path):
    path = make(generate="last.*").save(tmp_path / "memory")
    torch.manual_seed(2)
    assert refused(lambda: mnemon.load(path, Net())) == (
        f"{path} was saved with other values of 'first.weight', which are not generated: load the same "
        "(pretrained) weights into the module first."
    )
    torch.manual_seed(1)
    module = Net()
    module(clouds(0)[0])  # moves the statistics of its batch norm
    assert "other values of 'norm.running_mean'" in refused(lambda: mnemon.load(path, module))


def damaged(file: Path, copy: Path, how: str) -> Path:
    content = file.read_bytes()
    if how == "cut off":
        copy.write_bytes(content[:-40])
    elif how == "other numbers":
        copy.write_bytes(content[:-40] + bytes(40))
    elif how == "empty":
        copy.write_bytes(b"")
    else:
        tensors, facts = checkpoint.read(file, (FORMAT,))
        if how == "newer":
            facts["format"] = FORMAT + 1
        elif how == "without tasks":
            del facts["tasks"]
        elif how == "strange settings":
            facts["settings"] = {**facts["settings"], "speed": 3}
        elif how == "strange module":
            facts["module"] = []
        elif how == "other tensors":
            tensors.pop(next(name for name in tensors if "readout" in name))
        checkpoint.write(copy, tensors, facts)
    return copy


DAMAGES = {
    "cut off": "{path} is damaged: ",
    "other numbers": "{path} is damaged: its content has changed since it was saved.",
    "empty": "{path} is damaged: ",
    "newer": f"{{path}} has format {FORMAT + 1}; this version reads format {FORMAT}.",
    "without tasks": "{path} is damaged: its header does not describe a model (The setting 'header.tasks' is "
    "missing).",
    "strange settings": "{path} is damaged: its header does not describe a model (",
    "strange module": "{path} is damaged: its header does not describe a model (",
    "other tensors": "{path} is damaged: its header does not describe a model (the hypernetwork that it "
    "claims is larger than",
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_file_that_cannot_be_read_is_named(how, file, tmp_path):
    path = damaged(file, tmp_path / "copy.mnemon", how)
    assert refused(lambda: mnemon.load(path, Net())).startswith(DAMAGES[how].format(path=path))


def test_a_file_that_is_not_there_and_one_of_others_are_named(tmp_path):
    assert refused(lambda: mnemon.load(tmp_path / "gone", Net())) == f"There is no file {tmp_path / 'gone.mnemon'}."
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(3)}, tmp_path / "other.safetensors")
    assert "was not written by mnemon" in refused(lambda: mnemon.load(tmp_path / "other.safetensors", Net()))


def test_a_file_that_cannot_be_written_leaves_the_earlier_one(learned, tmp_path, monkeypatch):
    path = learned.save(tmp_path / "memory")
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    learned.forget("monday")
    assert refused(lambda: learned.save(path)) == (
        f"Could not save the model as {path}: No space left on device. The earlier file is as it was."
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o002])
def test_a_model_can_be_read_by_those_whom_the_umask_lets_read(learned, tmp_path, umask):
    before = os.umask(umask)
    try:
        path = learned.save(tmp_path / "memory")
        assert path.stat().st_mode & 0o777 == 0o666 & ~umask
        path.chmod(0o600)
        assert learned.save(path).stat().st_mode & 0o777 == 0o666 & ~umask
    finally:
        os.umask(before)


def test_pipes_and_folders_are_no_models_and_are_not_replaced(learned, tmp_path):
    (tmp_path / "folder.mnemon").mkdir()
    os.mkfifo(tmp_path / "pipe.mnemon")
    for name, what in (("folder", "it is a folder, not a file."), ("pipe", "it is not a regular file.")):
        path = tmp_path / f"{name}.mnemon"
        assert refused(lambda: mnemon.load(path, Net())) == f"{path} is damaged: {what}"  # noqa: B023
        assert refused(lambda: learned.save(path)) == f"Could not save the model as {path}: {what}"  # noqa: B023
    assert (tmp_path / "folder.mnemon").is_dir()
    assert (tmp_path / "pipe.mnemon").is_fifo()


# What a header claims is compared with what the file holds before anything of that size is made


def crafted(file: Path, copy: Path, change) -> Path:
    """A file whose header and tensors were changed by somebody who knows how to write the digest."""
    tensors, facts = checkpoint.read(file, (FORMAT,))
    change(tensors, facts)
    checkpoint.write(copy, tensors, facts)
    return copy


def claims(path: str, value):
    def change(tensors, facts):
        *tables, last = path.split(".")
        for key in tables:
            facts = facts[int(key) if isinstance(facts, list) else key]
        facts[last] = value

    return change


CLAIMS = {
    "too many tasks": (
        lambda tensors, facts: facts.update(tasks=facts["tasks"] * 200_000),
        "it lists 200000 tasks, but the file holds 1",
    ),
    "many inputs": (claims("n_inputs", 10**7), "densities of 10000000 inputs do not fit 0 numbers"),
    "no inputs": (claims("n_inputs", 0), "densities of 0 inputs do not fit 0 numbers"),
    "a wide hypernetwork": (
        claims("settings.hypernet", {"hidden": [10**9, 10**9]}),
        "the hypernetwork that it claims is larger than the 3317 numbers in the file",
    ),
    "a deep hypernetwork": (
        claims("settings.hypernet", {"hidden": [1] * 100_000}),
        "the hypernetwork that it claims is",
    ),
    "a large chunk": (claims("settings.hypernet", {"chunk": 10**15}), "the hypernetwork that it claims is"),
    "large adapters": (
        claims("settings.adapters", {"layers": "*", "rank": 10**12}),
        "adapters of rank 1000000000000 do not fit 163 numbers",
    ),
    "words for numbers": (claims("n_learned", "two"), "header.n_learned must be a whole number, not 'two'"),
    "fewer learned": (claims("n_learned", 0), "it has a task that is not among the 0 learned ones"),
    "no name": (claims("tasks.0.name", 3), "task.name must be a word, not 3"),
    "a name that means something": (claims("tasks.0.name", "unknown"), "two tasks have the name 'unknown', or"),
    "classes twice": (claims("tasks.0.classes", [1, 1]), "task 'one' has no classes, or some of them twice"),
    "no entropies": (claims("tasks.0.entropies", None), "task 'one' needs the entropies of its answers"),
    "three entropies": (
        claims("tasks.0.entropies", [1.0, 2, 3]),
        "task.entropies must be a list of 2 values, not of 3",
    ),
    "no inputs of a task": (claims("tasks.0.inputs", []), "task 'one' has no inputs, or"),
    "a negative seed": (claims("settings.seed", -1), "seed must be a whole number of at least 0, not -1"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_header_that_claims_what_the_file_does_not_hold_is_refused(claim, file, tmp_path):
    change, reason = CLAIMS[claim]
    path = crafted(file, tmp_path / "copy.mnemon", change)
    assert refused(lambda: mnemon.load(path, Net())).startswith(
        f"{path} is damaged: its header does not describe a model ({reason}"
    )


MISFITTING_TENSORS = {
    "another type": (
        lambda tensors, facts: tensors.update({READOUT: tensors[READOUT].view(torch.int32)}),
        f"'{(READOUT := 'learner/memory.hypernet.readout')}' is int32 instead of float32",
    ),
    "another shape": (
        lambda tensors, facts: tensors.update({READOUT: tensors[READOUT].T}),
        f"'{READOUT}' has shape [5, 33] instead of [33, 5]",
    ),
    "one more": (lambda tensors, facts: tensors.update(more=torch.ones(1)), "'more' is not known"),
}


@pytest.mark.parametrize("kind", MISFITTING_TENSORS)
def test_a_tensor_of_another_type_or_shape_is_not_cast(kind, file, tmp_path):
    change, reason = MISFITTING_TENSORS[kind]
    path = crafted(file, tmp_path / "copy.mnemon", change)
    assert refused(lambda: mnemon.load(path, Net())) == f"The checkpoint does not fit this learner: {reason}."


EARLIER = Path(__file__).parents[1] / "earlier_versions"


@pytest.mark.parametrize("kind", ["everything", "densities", "adapters"])
def test_a_model_of_an_earlier_version_answers_as_it_did(kind, tmp_path):
    torch.manual_seed(1)
    model = mnemon.load(EARLIER / f"{kind}.mnemon", Net())
    inputs = clouds(0, n=8)[0]
    for task, outputs in json.loads((EARLIER / f"{kind}.json").read_text()).items():
        torch.testing.assert_close(model.predict(inputs, task=task).outputs, torch.tensor(outputs))
    torch.manual_seed(1)
    again = mnemon.load(model.save(tmp_path / "again"), Net())
    assert_same(answers(again), answers(model))


def test_a_model_of_an_earlier_version_with_other_types_is_refused(tmp_path):
    content = (EARLIER / "everything.mnemon").read_bytes()
    path = tmp_path / "copy.mnemon"
    path.write_bytes(content.replace(b'"F32"', b'"I32"'))
    torch.manual_seed(1)
    assert "is int32 instead of float32" in refused(lambda: mnemon.load(path, Net()))
