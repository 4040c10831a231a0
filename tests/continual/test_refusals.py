"""What a user can get wrong is said in one line, and the model is as it was before."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from clouds import Net, answers, assert_same, clouds, make, refused
from torch import nn
from torch.utils.data import DataLoader

import mnemon

X, Y = clouds(0)
NAN = float("nan")
NAMES = "A task's name must be some text other than 'unknown', not "

MESSAGES = {
    # Names
    "There is a task 'monday' already: choose another name, relearn it, or forget it first.": lambda m: m.learn(
        (X, Y), task="monday"
    ),
    "There is a task 'tuesday' already: choose another name, relearn it, or forget it first.": lambda m: m.rename(
        "monday", "tuesday"
    ),
    "Unknown task 'monda'. Did you mean 'monday'? Choose one of: monday, tuesday.": lambda m: m.predict(X, "monda"),
    "Unknown task 'tusday'. Did you mean 'tuesday'? Choose one of: monday, tuesday.": lambda m: m.forget("tusday"),
    "Unknown task 'x'. Choose one of: monday, tuesday.": lambda m: m.relearn((X, Y), task="x"),
    "Unknown task '5'. Choose one of: monday, tuesday.": lambda m: m.evaluate((X, Y), task=5),
    "Unknown task 'Monday '. Did you mean 'monday'? Choose one of: monday, tuesday.": lambda m: m.network("Monday "),
    NAMES + "'unknown'.": lambda m: m.rename("monday", "unknown"),
    NAMES + "' '.": lambda m: m.learn((X, Y), task=" "),
    NAMES + "3.": lambda m: m.learn((X, Y), task=3),
    "A task's name must be text, not tuple: data first, then the name, as in "
    "model.learn((inputs, targets), task='monday').": lambda m: m.learn("monday", (X, Y)),
    # Data
    "data: it is empty.": lambda m: m.learn((X[:0], Y[:0]), task="x"),
    "data: there are 120 inputs but 119 targets.": lambda m: m.learn((X, Y[1:]), task="x"),
    "data: inputs hold a value that is not finite, first in example 0.": lambda m: m.learn((X * NAN, Y), task="x"),
    "data: inputs must be dense, not sparse_coo.": lambda m: m.learn((X.to_sparse(), Y), task="x"),
    "data: targets hold a value that is not finite, first in example 0.": lambda m: m.learn((X, X * NAN), task="x"),
    "inputs hold a value that is not finite, first in example 0.": lambda m: m.predict(X * NAN, "monday"),
    "There are no inputs.": lambda m: m.predict(X[:0], "monday"),
    "The module cannot take the inputs of task 'x' ((7,) float32): mat1 and mat2 shapes cannot be multiplied (2x7 "
    "and 4x16)": lambda m: m.learn((torch.rand(9, 7), torch.arange(9) % 2), task="x"),
    "The module cannot take the inputs of task 'x' ((4,) int64): mat1 and mat2 must have the same dtype, but got "
    "Long and Float": lambda m: m.learn((X.long(), Y), task="x"),
    "The module cannot take the inputs of task 'x' ((4,) float32): Expected more than 1 value per channel when "
    "training, got input size torch.Size([1, 16])": lambda m: m.learn((X, Y), task="x", batch_size=1),
    "The module cannot take these inputs ((7,) float32; it was learned with (4,) float32): mat1 and mat2 shapes "
    "cannot be multiplied (3x7 and 4x16)": lambda m: m.predict(torch.rand(3, 7), "monday"),
    "The inputs do not fit task 'monday': an example is () float32, but the task was learned with (4,) "
    "float32. A single example needs a batch dimension: x[None].": lambda m: m.predict(X[0], "monday"),
    "The inputs do not fit task 'monday': an example is (2, 2) float32, but the task was learned with (4,) "
    "float32.": (lambda m: m.predict(X.view(-1, 2, 2), "monday")),
    "inputs are masked: fill the masked values (.filled(0)), or leave out these examples.": lambda m: m.predict(
        np.ma.masked_array(X.numpy(), X.numpy() > 0.5), "monday"
    ),
    "data: targets are masked: fill the masked values (.filled(0)), or leave out these examples.": lambda m: m.learn(
        (X, np.ma.masked_array(Y.numpy(), Y.numpy() > 0)), "x"
    ),
    "inputs hold no values: they are on the device 'meta'.": lambda m: m.predict(X.to("meta"), "monday"),
    "data: its examples cannot be combined: stack expects each tensor to be equal size, but got [4] at entry 0 "
    "and [3] at entry 1.": lambda m: m.learn(DataLoader([(X[0], 0), (X[0, :3], 1)], batch_size=2), "x"),
    "Classes must be below 2**63; there is a larger one.": lambda m: m.learn(
        (X, Y.numpy().astype(np.uint64) + np.uint64(2**63)), "x"
    ),
    # Names, devices and files
    "A task's name must be printable text of at most 200 characters, not 'a\\x1b[31m'.": lambda m: m.learn(
        (X, Y), "a\x1b[31m"
    ),
    "The model cannot move to 'meta': it holds no values.": lambda m: m.to("meta"),
    "The model cannot move to '': Device string must not be empty.": lambda m: m.to(""),
    "The file of a model needs a name; '.' has none.": lambda m: m.save(""),
    "The file of a model must be a path, not NoneType.": lambda m: m.save(None),
    # Targets
    "Task 'x' has 5 classes, but the module has 3 outputs (for a regression, give loss='numbers').": lambda m: (
        m.learn((X, torch.arange(120) % 5), task="x")
    ),
    "Task 'x' has only class 1: it needs at least two classes.": lambda m: m.learn((X, Y * 0 + 1), task="x"),
    "There is no class: all targets are -100, which is ignored.": lambda m: m.learn((X, Y * 0 - 100), task="x"),
    "Task 'monday' has no class 1: learn the new classes as a new task.": lambda m: m.relearn(
        (X, Y * 0 + 1), "monday"
    ),
    "Task 'x' has no class 7, 8, which the validation data hold.": lambda m: m.learn(
        (X, Y), task="x", validation=(X, Y + 7)
    ),
    "Task 'x': a target has shape (2,), but the module returns (3,) for an input.": lambda m: m.learn(
        (X, X[:, :2].clone()), task="x"
    ),
    "Task 'x': a target has shape (4,), so the module should return (4, classes) for an input; it returns (3,).": (
        lambda m: m.learn((X, Y[:, None].expand(-1, 4)), task="x")
    ),
    "Task 'monday': a target has shape (2,), so the module should return (2, classes) for an input; it returns "
    "(3,).": lambda m: m.evaluate((X, Y[:, None].expand(-1, 2) + 4), "monday"),
    "Classes must be whole numbers, not float32.": lambda m: m.learn((X, X[:, 0].clone()), task="x", loss="classes"),
    "Classes must be whole numbers, not bool.": lambda m: m.evaluate((X, Y == 1), "monday"),
    "Labels must be 0 or 1 (or booleans).": lambda m: m.learn((X, Y + 1), task="x", loss="labels"),
    # Options
    "Give epochs or steps, not both.": lambda m: m.learn((X, Y), task="x", epochs=1, steps=1),
    "steps must be a whole number of at least 1, not 0.": lambda m: m.learn((X, Y), task="x", steps=0),
    "batch_size must be a whole number of at least 1, not 2.5.": lambda m: m.learn((X, Y), task="x", batch_size=2.5),
    "batch_size must be a whole number of at least 1, not None.": lambda m: m.learn((X, Y), "x", batch_size=None),
    "steps must be a whole number of at least 1, not True.": lambda m: m.learn((X, Y), "x", steps=True),
    f"steps must be below 2**62, not {10**30}.": lambda m: m.learn((X, Y), "x", steps=10**30),
    "epochs must be below 2**62, not inf.": lambda m: m.learn((X, Y), "x", epochs=float("inf")),
    "epochs must be a number above 0, not nan.": lambda m: m.relearn((X, Y + 4), task="monday", epochs=NAN),
    "Unknown loss 'clases'. Did you mean 'classes'? Choose one of: auto, classes, labels, numbers.": lambda m: (
        m.learn((X, Y), task="x", loss="clases")
    ),
    "loss must be a name or a function of outputs and targets, not int.": lambda m: m.learn((X, Y), "x", loss=3),
    "Task 'monday' was learned with classes: leave out the loss.": lambda m: m.relearn(
        (X, Y), "monday", loss=nn.functional.cross_entropy
    ),
    "Task 'monday' was learned with classes: it takes no other loss.": lambda m: m.evaluate(
        (X, Y), "monday", loss=nn.functional.cross_entropy
    ),
    "A loss must return a tensor with one number, such as a mean; this one returns float.": lambda m: m.learn(
        (X, Y), task="x", loss=lambda outputs, targets: 1.0
    ),
    "A loss must return a tensor with one number, such as a mean; this one returns a tensor of shape (2,).": (
        lambda m: m.learn((X, Y), task="x", loss=lambda outputs, targets: outputs.mean(1))
    ),
    "The loss does not depend on the outputs: it has no gradient.": lambda m: m.learn(
        (X, Y), task="x", loss=lambda outputs, targets: targets.float().mean()
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_bad_input_is_said_in_one_line_and_changes_nothing(message, learned):
    before, tensors = answers(learned), {k: v.clone() for k, v in learned.state.learner.tensors().items()}
    assert refused(lambda: MESSAGES[message](learned)) == message
    assert_same(before, answers(learned))
    assert_same(tensors, learned.state.learner.tensors())
    assert (learned.tasks, learned.state.n_learned) == (["monday", "tuesday"], 2)


def test_a_loss_that_is_no_function_is_refused():
    model = make()
    model.learn((X, X[:, :3].clone()), task="own", loss=nn.functional.l1_loss, steps=1, quiet=True)
    assert refused(lambda: model.evaluate((X, X[:, :3]), "own", loss="numbers")) == (
        "loss must be a function of outputs and targets, not 'numbers'."
    )


def test_a_task_is_asked_for_before_any_was_learned():
    assert refused(lambda: make().predict(X, "monday")) == "There is no task 'monday': nothing was learned yet."
    assert refused(lambda: make().forget("monday")) == "There is no task 'monday': nothing was learned yet."


# Modules


class NoParameters(nn.Module):
    """Nothing to learn."""

    def forward(self, x):
        return x


class NoCopies(Net):
    """A module that cannot be copied."""

    def __deepcopy__(self, memo):
        raise RuntimeError("a handle is open")


SETTINGS = {
    "ContinualModel takes an nn.Module, not str.": lambda: mnemon.ContinualModel("net"),
    "ContinualModel takes an nn.Module, not type.": lambda: mnemon.ContinualModel(Net),
    "NoParameters has no parameters: there is nothing to learn.": lambda: mnemon.ContinualModel(NoParameters()),
    "The module has lazy parameters: run it on an example first.": lambda: mnemon.ContinualModel(nn.LazyLinear(3)),
    "The module has no values yet (it is on the device 'meta'): load its weights first.": lambda: (
        mnemon.ContinualModel(nn.Linear(3, 3, device="meta"))
    ),
    "NoCopies cannot be copied: a handle is open": lambda: mnemon.ContinualModel(NoCopies()),
    "All parameters that could be generated are frozen (requires_grad is False).": lambda: mnemon.ContinualModel(
        Net().requires_grad_(False)
    ),
    "'weight' holds complex numbers, which cannot be generated: leave it out or freeze it.": lambda: (
        mnemon.ContinualModel(nn.Linear(2, 2, dtype=torch.complex64))
    ),
    "No parameter of Net matches 'last.wieght'. Did you mean 'last.weight'? It has: first.weight, first.bias, "
    "norm.weight, norm.bias, last.weight, last.bias.": lambda: make(generate=["first.*", "last.wieght"]),
    "generate must be a pattern of parameter names, or a list of patterns, not [].": lambda: make(generate=[]),
    "generate must be a pattern of parameter names, or a list of patterns, not 3.": lambda: make(generate=3),
    "With adapters nothing else is generated: leave out generate.": lambda: make(
        generate="last.*", adapters=mnemon.LoRA()
    ),
    "adapters must be a LoRA(...), not 4.": lambda: make(adapters=4),
    "hypernet must be a HypernetConfig(...), not {'chunk': 3}.": lambda: make(hypernet={"chunk": 3}),
    "No linear layer of Net matches 'x*'; it has: first, last.": lambda: make(adapters=mnemon.LoRA("x*")),
    "The layers of LoRA must be a pattern of layer names, not ['first'].": lambda: mnemon.LoRA(["first"]),
    "The rank of an adapter must be a whole number of at least 1, not 0.": lambda: mnemon.LoRA(rank=0),
    "The module itself is a linear layer, which cannot get an adapter: wrap it in nn.Sequential.": lambda: (
        mnemon.ContinualModel(nn.Linear(3, 3), adapters=mnemon.LoRA())
    ),
    "compression must be a finite number above 0, not 0.": lambda: make(compression=0),
    "compression must be a finite number above 0, not '1'.": lambda: make(compression="1"),
    "A hypernetwork of 0.5 times 163 weights is too small to be useful: set compression to 1.8 or more, or give "
    "hypernet=HypernetConfig(...).": lambda: make(memory="generated", compression=0.5),
    "beta must be a finite number of at least 0, not -1.": lambda: make(beta=-1),
    "beta must be a finite number of at least 0, not None.": lambda: make(beta=None),
    "lr must be a finite number above 0, not 0.": lambda: make(lr=0),
    "lr must be a finite number above 0, not nan.": lambda: make(lr=NAN),
    "seed must be a whole number of at least 0, not -1.": lambda: make(seed=-1),
    "seed must be a whole number of at least 0, not 1.5.": lambda: make(seed=1.5),
    "Unknown way to recognise tasks 'densty'. Did you mean 'density'? "
    "Choose one of: statistics, density, entropy.": lambda: make(recognise="densty"),
    "Unknown kind of memory 'exakt'. Did you mean 'exact'? Choose one of: exact, generated.": lambda: make(
        memory="exakt"
    ),
    "Unknown start 'stored'. Choose one of: kept, given.": lambda: make(start="stored"),
    "tolerance must be a finite number of at least 0, not -1.": lambda: make(tolerance=-1),
}


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("message", SETTINGS)
def test_modules_and_settings_that_cannot_be_are_refused(message):
    assert refused(SETTINGS[message]) == message


def test_numbers_of_numpy_are_settings_too():
    assert make(seed=np.int64(3), beta=np.float32(0.5)).state.settings.beta == 0.5


class Hooked(Net):
    """A module whose hook computes with weights that it holds apart."""

    def __init__(self):
        super().__init__()
        apart = self.last.weight.detach().clone()
        self.last.register_forward_hook(lambda module, inputs, outputs: inputs[0] @ apart.T)
        self.first.requires_grad_(False)
        self.norm.requires_grad_(False)


class Kept(Net):
    """A module that keeps its parameters in a list of its own."""

    def __init__(self):
        super().__init__()
        self.own = [self.last.weight, self.last.bias]

    def forward(self, x):
        return nn.functional.linear(self.norm(self.first(x)).relu(), *self.own)


class Several(Net):
    """A module that returns more than one tensor."""

    def forward(self, x):
        return super().forward(x), x


NOT_FUNCTIONAL = (
    "{} does not use the weights that are generated for it; hooks or copies of its parameters may be the reason."
)
MODULES = {
    Hooked: NOT_FUNCTIONAL.format("Hooked"),
    Kept: NOT_FUNCTIONAL.format("Kept"),
    Several: "The module must return one tensor, not tuple.",
    lambda: Net(1): "Task 'one': the module has only one output; it needs one for each class.",
}


@pytest.mark.parametrize("module", MODULES)
def test_modules_that_cannot_learn_are_refused_with_the_first_task(module):
    model = mnemon.ContinualModel(module())
    assert refused(lambda: model.learn((X, Y), task="one", quiet=True)) == MODULES[module]
    assert model.tasks == []


def test_examples_that_are_blank_at_first_do_not_make_a_module_suspect():
    model = make(generate="first.weight")
    inputs = torch.cat([torch.zeros(2, 4), X])
    model.learn((inputs, torch.cat([Y[:2], Y])), task="one", steps=1, quiet=True)
    assert model.tasks == ["one"]


def test_paths_that_no_file_can_have_are_refused(learned, tmp_path):
    path = tmp_path / ("a" * 300)
    assert refused(lambda: learned.save(path)) == f"Could not save the model as {path}.mnemon: File name too long."
    assert refused(lambda: mnemon.load(path, Net())) == f"There is no file {path}.mnemon."
    with pytest.raises(mnemon.UsageError, match="it is a folder, not a file"):
        learned.save((tmp_path / "folder.mnemon").mkdir() or tmp_path / "folder")


def test_without_a_task_too_an_example_needs_its_batch(learned):
    assert refused(lambda: learned.predict(X[0])).endswith("A single example needs a batch dimension: x[None].")


class Detached(Net):
    def forward(self, x):
        return super().forward(x).detach()


def test_a_module_without_a_gradient_is_refused():
    model = mnemon.ContinualModel(Detached())
    assert refused(lambda: model.learn((X, Y), "one", steps=1)) == (
        "The module's outputs have no gradient: it may detach them, or compute without one."
    )
    assert model.tasks == []


def test_a_scripted_module_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(4, 2))
    assert refused(lambda: mnemon.ContinualModel(scripted)) == (
        "A scripted module cannot use generated weights: give the original module."
    )


def test_quantized_inputs_are_refused(learned):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to give them up
        inputs = torch.quantize_per_tensor(X, 0.1, 0, torch.quint8)
    wanted = "inputs must be plain numbers, not quantized: call .dequantize()."
    assert refused(lambda: learned.predict(inputs, "monday")) == wanted
