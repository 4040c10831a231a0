# ruff: noqa: E501 (a message is easier to read in one piece)
"""Spaces: what is searched is checked before anything runs, and said in the words of the settings."""

from __future__ import annotations

import pytest

from mnemon.errors import UsageError
from mnemon.experiments.sweep.space import Criterion, Sampler, SearchRange, load_space
from mnemon.experiments.sweep.space_file import all_spaces, read_space
from mnemon.notation import write_toml


@pytest.fixture
def space(tmp_path):
    """Load a space of the toy preset with these lines under [search], and others above it."""

    def load(search: str, above: str = 'preset = "toy"', overrides=()):
        (tmp_path / "my.toml").write_text(f"{above}\n[search]\n{search}\n")
        return load_space(str(tmp_path / "my.toml"), list(overrides))

    return load


def refusal(*arguments) -> str:
    load, *rest = arguments
    with pytest.raises(UsageError) as error:
        load(*rest)
    message = str(error.value)
    _, found, tail = message.partition("my.toml: ")
    return tail if found else message


def test_the_spaces_that_come_along_fit_their_presets():
    spaces = {name: load_space(name) for name in all_spaces()}
    assert len(spaces) == 6
    assert all(space.criterion is Criterion.HELD_OUT and space.about for space in spaces.values())
    assert all(space.config().training.held_out > 0 for space in spaces.values())
    # The paper's lists: 8 strengths, 9 shapes of 0 to 2 layers, 7 sizes for both embeddings.
    paper = spaces["split-mnist"]
    assert paper.sampler is Sampler.RANDOM
    assert [
        len(paper.ranges[f"method.{name}"].choices) for name in ("beta", "hypernet.hidden", "hypernet.embedding_size")
    ] == [8, 9, 7]
    assert len(spaces["split-mnist-architectures"].ranges["method.hypernet.hidden"].choices) == 11 + 11**2
    assert spaces["permuted-100-online-ewc"].config().method_name == "online-ewc"


def test_the_file_of_a_space_says_what_a_trial_costs_and_what_is_searched_by_the_names_of_the_settings():
    for name in all_spaces():
        file, space = read_space(name), load_space(name)
        assert list(file.searched) == list(space.ranges)
        assert (file.trials, file.pruning, file.about) == (space.trials, space.pruning, space.about)
    assert read_space("split-digits").seconds == 10 * 60 / 300  # the preset's cost, with fewer steps
    assert read_space("split-mnist").seconds == 2.5 * 60
    assert read_space("permuted-100-online-ewc").seconds == 4 * 3600  # as it says: another method than the preset's


def test_names_may_be_endings_and_numbers_are_of_the_type_of_the_setting(space):
    found = space(
        'lr = {low = 1, high = 2}\nsteps = {low = 1, high = 9, step = 2}\nhypernet.hidden = [[], [3, 3]]\n"old-embeddings" = ["fixed"]'
    ).ranges
    assert found["optimizer.lr"].plain() == {"low": 1.0, "high": 2.0}
    assert isinstance(found["optimizer.lr"].low, float)
    assert found["training.steps"].plain() == {"low": 1, "high": 9, "step": 2}
    assert found["method.hypernet.hidden"].choices == ([], [3, 3])
    assert found["method.old_embeddings"].choices == ("fixed",)


def test_layers_and_widths_stand_for_all_networks_of_these(space):
    shapes = space("hypernet.hidden = {layers = [0, 2], widths = [3, 5]}").ranges["method.hypernet.hidden"].choices
    assert shapes == ([], [3, 3], [3, 5], [5, 3], [5, 5])


def test_a_space_that_was_written_down_is_read_back_the_same(space, tmp_path):
    found = space(
        "beta = {low = 0, high = 1}\nmomentum = {low = 0.0, high = 0.5, step = 0.1}\nlr = {low = 1e-3, high = 1, log = true}\n"
        "label_smoothing = [0, 0.1]\nhypernet.hidden = [[], [4]]"
    )
    (tmp_path / "again.toml").write_text(write_toml(found.plain()))
    again = load_space(str(tmp_path / "again.toml"))
    assert again.ranges == found.ranges
    assert again.identity() == found.identity()
    assert found.ranges["method.beta"].plain() == {"low": 0.0, "high": 1.0}
    assert SearchRange(low=0, high=3).plain() == {"low": 0, "high": 3}
    assert SearchRange(low=-3, high=0).plain() == {"low": -3, "high": 0}


def test_data_are_held_out_unless_the_test_data_are_asked_for_by_name(space):
    assert space("lr = [0.1]").config().training.held_out == 0.1
    assert space("lr = [0.1]", overrides=["held_out=0.3"]).config().training.held_out == 0.3
    on_test = space("lr = [0.1]", 'preset = "toy"\ncriterion = "test"')
    assert on_test.config().training.held_out == 0
    assert "training.held_out" not in on_test.changes({})
    assert refusal(space, "lr = [0.1]", 'preset = "toy"', ["held_out=0"]) == (
        'training.held_out is 0: nothing is left to judge by. Leave it out, or say criterion = "test".'
    )


def test_a_trial_has_the_fixed_and_the_chosen_settings(space):
    found = space("lr = [0.1]", 'preset = "toy"\n[set]\nsteps = 7')
    config = found.config({"optimizer.lr": 0.1})
    assert (config.training.steps, config.optimizer.lr) == (7, 0.1)
    assert found.changes({"optimizer.lr": 0.1}) == {"training.steps": 7, "optimizer.lr": 0.1}


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("btea = [1]", "Unknown setting 'btea' of toy-regression and hypernet. Did you mean 'beta'? `mnemon settings` lists them all."),
        ("hidden = [[1]]", "Setting 'hidden' is ambiguous: write method.hypernet.hidden or target.hidden."),
        ("lr = {low = 1.0, high = 0.1}", "lr: The range is empty: low is 1.0 and high is 0.1."),
        ("lr = {low = 0.1, high = 0.1}", "lr: The range is empty: low is 0.1 and high is 0.1."),
        ("lr = []", "lr: choices must be a list that is not empty, not []."),
        ("lr = {choices = []}", "lr: choices must be a list that is not empty, not []."),
        ("lr = {choices = [1.0], low = 1}", "lr: choices cannot be combined with low, high, step and log."),
        ("lr = {low = 1}", "lr: It takes choices, or low and high."),
        ("lr = {}", "lr: It takes choices, or low and high."),
        ("lr = 3", "lr: A range is a list of choices, or a table with low and high, not 3."),
        ("lr = {low = 1, hgih = 2}", "lr: Unknown entry 'hgih'. Did you mean 'high'? Known: choices, low, high, step, log, layers, widths."),
        ("beta = {low = 0, high = 1, log = true}", "beta: With log, low must be above 0."),
        ("beta = {low = 1, high = 2, log = true, step = 1}", "beta: log and step cannot be combined."),
        ("beta = {low = 1, high = 2, log = 3}", "beta: log must be true or false, not 3."),
        ("steps = {low = 1, high = 5, step = 0}", "steps: step must be above 0 and at most 4, not 0."),
        ("steps = {low = 1, high = 5, step = 0.5}", "steps: step must be a whole number, not 0.5."),
        ("steps = {low = 1.5, high = 5}", "steps: training.steps must be a whole number, not 1.5."),
        ("steps = {low = 0, high = 5}", "steps: training.steps must be at least 1, not 0."),
        ("target.activation = ['rleu']", "target.activation: Unknown activation 'rleu'. Did you mean 'relu'? Choose one of: relu, elu, leaky-relu, sigmoid, tanh, linear."),
        ("target.hidden = {low = 1, high = 2}", "target.hidden: target.hidden must be a list such as [10, 10], not 1."),
        ("lookahead = {low = 'off', high = 'constant'}", "lookahead: method.lookahead is not a number: give choices in place of low and high."),
        ("target.hidden = {layers = 2, widths = [1]}", "target.hidden: layers and widths are two lists of integers, given together."),
        ("target.hidden = {layers = ['2'], widths = [1]}", "target.hidden: layers must be integers of at least 0, not ['2']."),
        ("target.hidden = {layers = [1, -1], widths = [1]}", "target.hidden: layers must be integers of at least 0, not [1, -1]."),
        ("target.hidden = {layers = [1], widths = ['8']}", "target.hidden: target.hidden must be a whole number, not '8'."),
        ("target.hidden = {layers = [1], widths = [-8]}", "target.hidden: target.hidden must hold widths of at least 1, not [-8]."),
        ("method = ['hypernet', 'joint']", "method is not searched: fix it under [set], and compare methods by `mnemon compare`."),
        ("held_out = [0.1, 0.2]", "training.held_out is not searched: all trials are judged on the same tasks and data."),
        ("lr = [0.1]\noptimizer.lr = [0.2]", "optimizer.lr is named twice, as 'optimizer.lr' and elsewhere."),
        ("", "It has nothing to search: add a table [search] with lines such as lr = {low = 1e-4, high = 0.1}."),
    ],
)  # fmt: skip
def test_a_wrong_range_is_refused(space, search, message):
    assert refusal(space, search) == message


@pytest.mark.parametrize(
    ("above", "message"),
    [
        ("", 'It has no preset: add a line such as preset = "split-digits".'),
        ('preset = "toy"\npruning = 3', "pruning must be true or false, not 3."),
        ('preset = "toy"\nsampler = "tpee"', "Unknown sampler 'tpee'. Did you mean 'tpe'? Choose one of: tpe, random."),
        ('preset = "toy"\ncriterion = "tests"', "Unknown criterion 'tests'. Did you mean 'test'? Choose one of: held-out, test."),
        ('preset = "toy"\ntrials = -3', "trials must be above 0, not -3."),
        ('preset = "toy"\ntrials = 0', "trials must be above 0, not 0."),
        ('preset = "toy"\ntrials = 2.5', "trials must be a whole number, not 2.5."),
        ('preset = "toy"\nset = 3', "'set' must be a table, not 3."),
        ('preset = "toy"\nserach = 3', "Unknown entry 'serach'. Did you mean 'search'? Known: about, cost, preset, sampler, criterion, pruning, trials, set, search."),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused(space, above, message):
    assert refusal(space, "lr = [0.1]", above) == message


def test_an_unknown_preset_or_space_is_answered_with_the_nearest(space):
    assert refusal(space, "lr = [0.1]", 'preset = "toi"').startswith("Unknown preset 'toi'. Did you mean 'toy'?")
    assert refusal(load_space, "split-digit").startswith("Unknown space 'split-digit'. Did you mean 'split-digits'?")


def test_a_file_that_is_missing_or_no_toml_is_named(tmp_path):
    assert refusal(load_space, str(tmp_path / "none.toml")) == f"There is no space file {tmp_path / 'none.toml'}."
    (tmp_path / "bad.toml").write_text("lr = ")
    assert refusal(load_space, str(tmp_path / "bad.toml")).startswith(
        f"The space file {tmp_path / 'bad.toml'} cannot be read: "
    )
