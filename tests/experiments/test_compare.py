"""What a method's word stands for on a benchmark, and what is refused because its numbers could not be compared."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import UsageError
from mnemon.experiments import compare
from mnemon.experiments.compare import begin_runs, make_plan, resumed_runs, split_word
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Event, Job
from mnemon.experiments.preset import load_preset
from mnemon.experiments.progress import MOST_BARS, Display
from mnemon.experiments.run_config import RunConfig, resolve
from mnemon.learners import LEARNERS

PLACE = Compute("cpu")
SMALL = ("steps=3", "n_tasks=2", "target.hidden=[8]")


def config_of(word: str, *more, **options) -> RunConfig:
    return make_plan([word], *more, **options).methods[word]


def refused(*words: str, **options) -> str:
    with pytest.raises(UsageError) as error:
        make_plan(words, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("word", "benchmark", "scenario", "preset"),
    [
        ("hnet-r", "split-mnist", "cl3", "split-mnist-cl3-hnet-r"),
        ("replay-bound", "split-mnist", "cl1", "split-mnist-cl1-replay-bound"),
        ("finetuned-hypernet", "split-mnist", None, "split-mnist-finetuned-hypernet"),
        ("joint", "split-digits", "cl1", "split-digits-joint"),
        ("split-digits-cl2-hnet-tir", "split-digits", "cl2", "split-digits-cl2-hnet-tir"),
        ("hypernet", "split-mnist", None, "split-mnist"),
        ("short", "permuted-10", None, "permuted-10-short"),
    ],
)
def test_a_word_that_names_a_preset_is_that_preset_as_it_stands(word, benchmark, scenario, preset):
    assert config_of(word, benchmark, scenario) == resolve(load_preset(preset))


@pytest.mark.parametrize("word", ["joint", "replay"])
def test_another_method_is_put_into_the_preset_of_the_benchmark(word):
    expected = resolve(load_preset("split-mnist"), [f"method={word}", "scenario=cl3"])
    assert config_of(word, "split-mnist", "cl3") == expected
    assert expected.published == ""


def test_a_preset_file_may_be_compared_and_may_be_the_benchmark(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('like = "split-digits"\n[method]\nbeta = 0.5\n')
    assert config_of(str(mine)).method.beta == 0.5
    plan = make_plan(["hypernet", "joint"], str(mine))
    assert plan.benchmark == "mine"
    assert plan.methods["hypernet"].method.beta == 0.5
    assert plan.methods["joint"].method_name == "joint"


def test_settings_of_all_methods_and_of_one(tmp_path):
    words = ["hypernet", "hypernet:beta=0.5,target.hidden=[8,8],steps=9", "joint"]
    plan = make_plan(words, None, None, ["steps=7"])
    assert list(plan.methods) == words
    own, changed, other = plan.methods.values()
    assert [config.training.steps for config in (own, changed, other)] == [7, 9, 7]
    assert (own.method.beta, changed.method.beta) == (0.1, 0.5)
    assert (own.target.hidden, changed.target.hidden) == ((100, 100), (8, 8))


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("joint", ("joint", [])),
        ("a:b=1", ("a", ["b=1"])),
        ("a:b=[8,8],c=2", ("a", ["b=[8,8]", "c=2"])),
        ("a:b=[[1,2],[3]],c=x:y", ("a", ["b=[[1,2],[3]]", "c=x:y"])),
        ("my/own.toml:b=1", ("my/own.toml", ["b=1"])),
    ],
)
def test_a_word_is_a_method_and_its_own_settings(word, parts):
    assert split_word(word) == parts


@pytest.mark.parametrize("word", ["", ":b=1", "a:", "a:b", "a:b=1,", "a:b=1,c"])
def test_a_word_of_another_form_is_refused(word):
    form = "A method is written METHOD or METHOD:name=value,name=value"
    assert refused(word) == f"{form}, not '{word}'."


def test_an_unknown_method_is_answered_with_what_there_is_for_the_benchmark_and_scenario():
    message = refused("hnet-rr", scenario="cl3")
    names = ["dgr", "hnet-ent", "hnet-lik", "hnet-r", "hnet-stat", "hnet-tir", "lwf", "replay-bound", "statistics"]
    assert message.startswith("Unknown method 'hnet-rr'. Did you mean 'hnet-r'? Choose one of: ")
    listed = message.partition("Choose one of: ")[2].rstrip(".").split(", ")
    assert listed[: len(names)] == names
    assert set(LEARNERS) <= set(listed)
    assert len(listed) == len(set(listed))
    finder = compare._Finder("split-digits", Scenario.CL3)
    assert all(finder.find(name) for name in listed)


def test_what_is_listed_in_cl1_is_of_cl1():
    listed = refused("nothing").partition("Choose one of: ")[2].rstrip(".").split(", ")
    assert {"finetuned-hypernet", "joint", "hypernet", "split-digits"} <= set(listed)
    assert not [name for name in listed if "cl2" in name or "cl3" in name or "mnist" in name]


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        ([], {}, "Name the methods to compare, such as: mnemon compare hypernet finetuned-target joint"),
        (["joint", "joint"], {}, "'joint' is given twice; a variant is written METHOD:name=value."),
        (["joint"], {"scenario": "cl4"}, "Unknown scenario 'cl4'. Did you mean 'cl3'? Choose one of: cl1, cl2, cl3."),
        (
            ["joint"],
            {"benchmark": "split-digit"},
            "Unknown preset 'split-digit'. Did you mean 'split-digits'? `mnemon presets` lists",
        ),
        (["none.toml"], {}, "There is no preset file none.toml."),
        (
            ["split-mnist"],
            {},
            "split-mnist: It learns other tasks than split-digits: benchmark.name (split-mnist and split-digits).",
        ),
        (
            ["cl3-hnet-r"],
            {},
            "cl3-hnet-r: Its scenario is cl3, not cl1. All methods have that of --scenario.",
        ),
        (
            ["split-digits"],
            {"scenario": "cl2"},
            "split-digits: Its scenario is cl1, not cl2. All methods have that of --scenario.",
        ),
        (
            ["joint"],
            {"overrides": ["scenario=cl2"]},
            "joint: Its scenario is cl2, not cl1. All methods have that of --scenario.",
        ),
        (
            ["hypernet", "joint"],
            {"overrides": ["chunk=5"]},
            "joint: Unknown setting 'chunk' of split-digits and joint. `mnemon settings` lists them all. "
            "--set is for all methods; for one alone write METHOD:name=value.",
        ),
        (
            ["hypernet:bta=1"],
            {},
            "hypernet:bta=1: Unknown setting 'bta' of split-digits and hypernet. Did you mean 'beta'? "
            "`mnemon settings` lists them all.",
        ),
        (
            ["hypernet", "joint:n_tasks=3"],
            {},
            "joint:n_tasks=3: All methods learn the same tasks: change benchmark.n_tasks (3 and none) by --set.",
        ),
        *(
            (
                [word],
                {"overrides": overrides},
                f"{word}: Methods are named by words and their benchmark by --benchmark, not by settings.",
            )
            for word, overrides in (
                ("hypernet:method=joint", []),
                ("hypernet", ["method=joint"]),
                ("hypernet", ["benchmark=permuted-digits"]),
            )
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(words, options, message):
    assert refused(*words, **options).startswith(message)


def test_tasks_that_are_changed_for_all_are_the_same_for_all():
    plan = make_plan(["hypernet", "joint"], None, None, ["n_tasks=3"])
    assert [config.benchmark.n_tasks for config in plan.methods.values()] == [3, 3]


@pytest.mark.parametrize(("overrides", "pairs"), [((), "natural"), (("pairs=shuffled",), "shuffled")])
def test_a_method_whose_preset_has_other_pairs_is_run_on_those_of_the_benchmark(overrides, pairs):
    words = ["hypernet", "online-ewc", "online-ewc:gamma=0.5", "dgr"]
    plan = make_plan(words, "split-mnist", None, overrides)
    assert {config.benchmark.pairs.value for config in plan.methods.values()} == {pairs}
    own = resolve(load_preset("split-mnist-online-ewc"))
    assert (own.benchmark.pairs.value, own.published) == ("shuffled", "99.12 ± 0.11")
    assert plan.methods["online-ewc"].method == own.method
    assert plan.methods["online-ewc"].published == ("" if pairs == "natural" else own.published)


def test_the_tasks_of_a_preset_that_is_named_in_full_are_its_own():
    assert refused("split-mnist-online-ewc", benchmark="split-mnist") == (
        "split-mnist-online-ewc: It learns other tasks than split-mnist: benchmark.pairs (shuffled and natural)."
    )


def test_methods_whose_presets_have_other_pairs_are_listed_by_their_short_names():
    listed = refused("nothing", benchmark="split-mnist").partition("Choose one of: ")[2].rstrip(".").split(", ")
    assert {"online-ewc", "synaptic-intelligence", "dgr", "online-ewc-searched"} <= set(listed)


def test_each_method_has_a_folder_with_one_for_each_seed(tmp_path):
    words = ["finetuned-target:lr=1e-2", "joint:target.hidden=[8,8]", "joint"]
    folder, jobs = begin_runs(make_plan(words, overrides=SMALL[:2]), range(2, 4), tmp_path / "out", PLACE)
    folders = ["finetuned-target-lr=1e-2", "joint-target.hidden=-8-8", "joint"]
    assert [job.folder.relative_to(folder).as_posix() for job in jobs] == [
        f"{name}/seed-{seed}" for seed in (2, 3) for name in folders
    ]
    assert [job.label for job in jobs] == [*words, *words]
    assert [job.title for job in jobs[-1:]] == ["joint, seed 3"]
    assert resumed_runs(folder) == jobs


def test_labels_that_look_alike_have_folders_of_their_own():
    names = compare._folder_names(["a:b=1", "a-b=1", "A:b=1", "../../x.toml", ":", "…", "x" * 300])
    assert list(names.values()) == ["a-b=1", "a-b=1-2", "A-b=1-3", "x.toml", "run", "run-2", "x" * 90]


def test_a_method_that_refuses_the_scenario_is_named_before_anything_is_made(tmp_path):
    plan = make_plan(["joint", "hypernet-tir"], scenario="cl1", overrides=SMALL)
    with pytest.raises(UsageError, match=r"^hypernet-tir: .*cl1"):
        begin_runs(plan, range(1), tmp_path / "out", PLACE)
    assert list(tmp_path.iterdir()) == []


# What is shown meanwhile

CONFIG = resolve(load_preset("split-digits"), ["steps=10"])


def displayed(n_jobs: int, *events: Event) -> str:
    """Return the last that a terminal shows of methods called [a0], [a1], …"""
    text = io.StringIO()
    jobs = [Job(i, CONFIG, 7, Path(f"{i}"), f"[a{i}]") for i in range(n_jobs)]
    with Display(jobs, Console(file=text, width=100, height=50, force_terminal=True), quiet=False) as display:
        for event in events:
            display.on_event(event)
    return text.getvalue().rpartition("\x1b[2K")[2]


def test_a_bar_is_named_after_method_and_seed():
    text = displayed(2, Event(1, 2, 0, 4, {}, None))
    assert "[a0], seed 7" in text
    assert "[a1], seed 7" in text


def test_of_many_runs_those_are_shown_that_are_under_way_or_failed():
    events = [Event(i, 2, 0, 4, {}, None) for i in (0, 1, 2)]
    ends = [Event(0, 2, 1, 0, {}, [90.0, 90.0]), Event(1, 0, 0, 0, {}, None, "no.")]
    text = displayed(MOST_BARS + 1, *events, *ends)
    assert [i for i in range(MOST_BARS + 1) if f"[a{i}], seed 7 " in text] == [1, 2]
