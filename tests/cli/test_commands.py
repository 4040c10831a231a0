"""Each command: what it prints, how soon, and that what only looks does not import torch."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import contents, ended

import mnemon as package
from mnemon.config import setting_paths
from mnemon.experiments.preset import all_presets
from mnemon.experiments.run_config import REGISTRIES, settings_class
from mnemon.learners import LEARNERS
from mnemon.replay import REPLAYS

COMMANDS = ("compare", "data", "list", "presets", "report", "reproduce", "run", "settings", "show", "sweep")


def one_line(text: str) -> str:
    """Undo the wrapping and boxes of a help page or table."""
    return " ".join(re.sub("[│╭╮╰╯─┃┏┓]", " ", text).split())


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines())


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_lists_every_command_with_a_sentence(mnemon, words):
    outcome = mnemon(*words)
    text = one_line(outcome.out)
    assert outcome.code == 0
    for command in COMMANDS:
        assert re.search(rf" {command} [A-Z][^.]+\.", text), command
    assert widest(outcome.out) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_explains_each_of_its_words(mnemon, command):
    outcome = mnemon(command, "--help")
    assert outcome.code == 0
    assert f"mnemon {command}" in outcome.out
    text = one_line(outcome.out)
    options = re.findall(r"(--[a-z]+)(?: -s)? (?:INT|STR\.\.\.|STR|PATH) (\S)", text)
    assert all(letter.isupper() or letter in "cp" for _, letter in options), options
    assert len(options) == {
        "compare": 13,
        "run": 11,
        "settings": 2,
        "data": 1,
        "report": 2,
        "reproduce": 12,
        "sweep": 13,
        "list": 1,
        "presets": 1,
        "show": 1,
    }.get(command, 0)
    assert widest(outcome.out) <= 80


def test_the_help_of_show_names_all_that_can_be_shown(mnemon):
    said = one_line(mnemon("show", "--help").out)
    assert "Folder of a run, of several seeds, of a comparison or of a sweep." in said


def test_version(mnemon):
    assert mnemon("--version").out.strip() == package.__version__


@pytest.mark.parametrize("columns", [80, 120])
def test_presets_are_listed_with_what_they_are_and_cost(mnemon, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    outcome = mnemon("presets")
    assert widest(outcome.out) <= columns
    names = [line.removesuffix(" (default)") for line in outcome.out.splitlines() if not line.startswith(" ")]
    assert names == sorted(preset.name for preset in all_presets())
    text = one_line(outcome.out)
    assert "split-digits (default)" in text
    for preset in all_presets():
        assert f"{preset.about} Time per seed: {preset.cost}" in text
        assert f"published: {preset.published}" in text or not preset.published


def test_presets_are_filtered_by_words_in_name_or_description(mnemon, refused):
    def names(*words: str) -> list[str]:
        lines = mnemon("presets", *words).out.splitlines()
        return [line.removesuffix(" (default)") for line in lines if not line.startswith(" ")]

    every = {preset.name: f"{preset.name} {preset.about}".casefold() for preset in all_presets()}
    both = names("MNIST", "replay")
    assert both == [name for name, text in every.items() if "mnist" in text and "replay" in text]
    assert 0 < len(both) < len(every)
    assert names("split-digits-hat") == ["split-digits-hat"]
    assert refused("presets", "mnist", "nowhere") == (
        f"No preset has 'mnist' and 'nowhere' in its name or description. `mnemon presets` lists all {len(every)}."
    )


def test_settings_are_filtered_by_words_in_name_or_explanation(mnemon, refused):
    lines = mnemon("settings", "split-digits", "Strength", "--set", "beta=0.5").out.splitlines()
    assert lines[0] == "method.beta  0.5"
    assert [line for line in lines if not line.startswith(" ")] == lines[:1]
    text = one_line(mnemon("settings", "split-digits", "choose", "joint").out)
    assert text.startswith("method hypernet Choose one of: hypernet, ")
    assert refused("settings", "split-digits", "nowhere") == (
        "No setting of split-digits has 'nowhere' in its name or explanation. mnemon settings split-digits lists all."
    )
    assert refused("settings", "beta").endswith(
        " To search the settings of a preset: mnemon settings split-digits beta"
    )


@pytest.mark.parametrize("section", REGISTRIES)
def test_every_setting_of_every_method_and_benchmark_is_listed(mnemon, section):
    for name in REGISTRIES[section].table:
        config, out = settings_class(section, name), mnemon("settings", "--set", f"{section}={name}").out
        assert f"\n{section}  {name}\n" in f"\n{out}"
        for path in setting_paths(config, f"{section}.", {}):
            assert f"\n{path}  " in out, path


@pytest.mark.parametrize("model", REPLAYS)
def test_the_settings_of_the_chosen_source_of_replayed_inputs_are_listed(mnemon, model):
    out = mnemon("settings", "--set", "method=replay", "--set", f"replay.model={model}").out
    known = set(setting_paths(REPLAYS[model].Config, "method.replay."))
    every = setting_paths(LEARNERS["replay"].Config, "method.")
    assert {path for path in every if f"\n{path}  " in out and path.startswith("method.replay.")} == known


def test_settings_are_listed_with_value_and_meaning(mnemon):
    outcome = mnemon("settings", "split-digits", "--set", "beta=0.5", "--set", "target.hidden=[7]")
    text = one_line(outcome.out)
    assert outcome.code == 0
    assert widest(outcome.out) <= 80
    assert "method hypernet Choose one of: hypernet, hypernet-tir," in text
    assert "method.beta 0.5 Strength of the penalty" in text
    assert "target.hidden [7] Widths of the hidden layers (mlp only)." in text
    assert "method.hypernet.chunk_embedding_size 32" in text
    assert "benchmark.n_tasks none" in text


def test_settings_follow_the_method(mnemon):
    text = one_line(mnemon("settings", "--set", "method=joint").out)
    assert "method joint" in text
    assert "method.beta" not in text


def test_a_dry_run_says_sizes_and_times_and_leaves_nothing_behind(mnemon, tmp_path):
    before = contents(Path())
    outcome = mnemon("run", "--dry-run")
    text = one_line(outcome.out)
    assert outcome.code == 0
    assert "split-digits, not run tasks 5, each 300 steps of 64 examples target network 16,802 weights" in text
    assert "learned for all tasks 17,404 parameters kept for each task 8 numbers, 32 bytes compression 1.038" in text
    assert re.search(r"estimated time [\d.]+ (s|min) of training, [\d.]+ (s|min) of tests, of one core", text)
    assert contents(Path()) == before


def test_data_says_what_is_there_and_how_to_get_the_rest(mnemon, monkeypatch, tmp_path):
    from mnemon.benchmarks import sources

    monkeypatch.setattr(sources, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "mine" / "mnist").mkdir(parents=True)
    lines = mnemon("data", "--data", "mine").out.splitlines()
    assert [re.split(r"\s{2,}", line)[:2] for line in lines[1:]] == [
        ["digits", "verified"],
        ["mnist", "missing"],
        ["fashion-mnist", "missing"],
        ["cifar-10", "missing"],
        ["cifar-100", "missing"],
    ]
    assert "no download needed" in lines[1]
    assert "--data FOLDER or MNEMON_DATA" in lines[2]
    (tmp_path / "mine" / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"\0" * 10)
    text = one_line(mnemon("data", "--data", "mine").out)
    assert "mnist damaged: 'mine/mnist/t10k-labels-idx1-ubyte' should hold 10,008 bytes and holds 10." in text


def test_data_names_a_folder_that_is_missing(refused):
    assert refused("data", "--data", "nowhere").startswith("The data folder 'nowhere' (--data) does not exist.")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_run_is_shown_as_it_was_when_it_ended(mnemon, small, monkeypatch, columns, tmp_path):
    monkeypatch.setenv("COLUMNS", str(columns))
    ran = mnemon("run", *small, "--out", "my run")
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == [f"seed 0  task {i}/3 learned" for i in (1, 2, 3)]
    assert lines[-1] == "Saved to my run. To show it again: mnemon show 'my run'"
    shown = mnemon("show", "my run")
    assert shown.out.splitlines() == lines[3:-1]
    assert widest(shown.out) <= columns
    report = (tmp_path / "my run" / "summary.txt").read_text()
    assert one_line(report) == one_line(shown.out)
    assert "split-digits hypernet, seed 0" in one_line(shown.out)
    assert sorted(contents(tmp_path)) == [
        f"my run/{name}"
        for name in ("checkpoint.safetensors", "config.toml", "losses.jsonl", "record.json", "summary.txt")
    ]


def test_the_runs_that_are_there_are_listed(mnemon, finished, stopped, tmp_path):
    nothing = mnemon("list")
    assert (nothing.code, nothing.out) == (0, "There are no runs yet: no folder runs. To start one: mnemon run\n")
    before = contents(tmp_path)
    outcome = mnemon("list", ".")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert re.fullmatch(r"finished  begun 20\d\d-\d\d-\d\d \d\d:\d\d", lines[0])
    assert re.fullmatch(
        r"    split-digits, hypernet, 1 seed: finished; final accuracy \d\d\.\d\d %", lines[1].rstrip()
    )
    assert lines[2].startswith("stopped  begun 20")
    assert lines[3].rstrip() == "    split-digits, hypernet, 1 seed: 1 of 3 tasks learned"
    assert contents(tmp_path) == before
    (stopped / "record.json").write_text("{")
    outcome = mnemon("list", ".")
    assert outcome.code == 0
    assert [line for line in outcome.out.splitlines() if "damaged" in line] == outcome.out.splitlines()[2:]
    assert "\nThe record in stopped is damaged: record.json holds no run " in outcome.out
    (tmp_path / "empty").mkdir()
    assert mnemon("list", "empty").out == "There are no runs in empty, nor below it.\n"


def test_a_folder_that_is_missing_is_not_listed(refused):
    assert refused("list", "nowhere") == "There is no folder nowhere."


def test_a_long_name_of_a_folder_is_listed_in_one_piece(mnemon, finished, tmp_path):
    finished.rename(tmp_path / ("long-" * 30))
    assert mnemon("list", ".").out.startswith(f"{'long-' * 30}  begun ")


def test_a_run_is_called_what_it_is_everywhere(mnemon, small, monkeypatch, tmp_path):
    monkeypatch.delenv("MNEMON_NO_REPORT")
    outcome = mnemon("run", *small, "--set", "benchmark=permuted-digits", "--quiet")
    (folder,) = Path("runs").iterdir()
    said = "permuted-digits+n_tasks=3+hypernet.chunk=300+hidden=20+steps=20"
    assert re.fullmatch(re.escape(said) + r"-\d{8}-\d{6}", folder.name)
    settings = (
        "Preset split-digits with benchmark=permuted-digits, benchmark.n_tasks=3, method.hypernet.chunk=300, "
        "target.hidden=[20], training.steps=20"
    )
    for text in (outcome.out, mnemon("show", folder).out, (folder / "summary.txt").read_text()):
        assert one_line(text).startswith(f"permuted-digits hypernet, seed 0 {settings} Accuracy (%) on each task ")
    record = json.loads((folder / "record.json").read_text())
    assert (record["name"], record["preset"]) == ("permuted-digits", "split-digits")
    page = (folder / "report.html").read_text()
    assert "<h1>permuted-digits</h1>" in page
    assert page.count(settings) == 2
    # Every setting that is shown can be typed; with all of them the preset makes the same run.
    words = [word for change in record["changes"] for word in ("--set", change)]
    assert mnemon("run", *words, "--quiet", "--no-report", "--out", "again").code == 0
    again = json.loads((tmp_path / "again" / "record.json").read_text())
    assert (again["matrix"], again["changes"]) == (record["matrix"], record["changes"])


def test_showing_changes_nothing(mnemon, stopped):
    before = contents(stopped)
    outcome = mnemon("show", stopped)
    assert outcome.code == 0
    assert "(1 not finished)" in outcome.out
    assert contents(stopped) == before


def test_quiet_shows_only_the_result(mnemon, small):
    out = mnemon("run", *small, "--out", "run", "--quiet").out
    assert "learned:" not in out
    assert "Accuracy (%) on each task" in out


def test_a_matrix_that_was_only_measured_on_the_diagonal_says_so(mnemon, small, tmp_path):
    text = one_line(mnemon("run", *small, "--set", "matrix=diagonal", "--out", "run").out)
    assert "forgetting_chaudhry none: not every row of R was measured" in text
    facts = json.loads((tmp_path / "run" / "record.json").read_text())
    assert facts["matrix"][1][0] is None
    assert facts["metrics"]["forgetting_chaudhry"] is None
    assert facts["metrics"]["bwt_gem"] is not None


def test_a_regression_is_shown_in_its_own_unit(mnemon):
    text = one_line(mnemon("run", "toy", "--set", "steps=2", "--out", "run").out)
    assert "Mean squared error on each task" in text
    assert "forgetting_chaudhry none: it is defined for accuracies, not for errors" in text


def test_a_preset_file_can_be_run(mnemon, small, tmp_path):
    (tmp_path / "mine.toml").write_text('like = "split-digits"\n[method]\nbeta = 0.5\n')
    assert "mine  hypernet, seed 0" in mnemon("run", "mine.toml", *small, "--out", "run").out
    assert "beta = 0.5" in (tmp_path / "run" / "config.toml").read_text()


def test_a_finished_run_says_so_and_is_shown(mnemon, finished):
    before = contents(finished)
    outcome = mnemon("run", "--resume", finished)
    assert outcome.code == 0
    assert outcome.out.startswith(f"The run in {finished} is finished; there is nothing to resume.\n")
    assert "Accuracy (%) on each task" in outcome.out
    after = contents(finished)
    after.pop("summary.txt")
    assert after == before


# Real processes

IMPORTED = """
import sys
from mnemon.cli import main
try:
    main({words!r})
finally:
    print("IMPORTED", *sorted({{"torch", "sklearn", "scipy"}} & sys.modules.keys()))
"""


BARE = """
import cyclopts
app = cyclopts.App(name="bare")
@app.command
def look():
    "Look."
app(["look", "--help"])
"""


def processor_time(code):
    """Return the standard output of a Python process and the seconds of processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return outcome.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


LOOKS = (["--help"], ["--version"], ["presets"], ["show", "RUN"], ["compare", "--help"], ["sweep"], ["list", "RUN"])


@pytest.mark.parametrize("words", LOOKS, ids=lambda words: words[0])
def test_commands_that_only_look_answer_at_once_and_without_torch(words, finished):
    words = [str(finished) if word == "RUN" else word for word in words]
    ours, bare = [], []
    for _ in range(3):
        output, seconds = processor_time(IMPORTED.format(words=words))
        assert output.splitlines()[-1] == "IMPORTED"
        ours.append(seconds)
        # What the command-line library takes for the help of an empty command: a slow machine is slow for both.
        bare.append(processor_time(BARE)[1])
    assert min(ours) < 2 * min(bare)


def test_the_recipes_are_listed_without_torch():
    assert processor_time(IMPORTED.format(words=["reproduce"]))[0].splitlines()[-1] == "IMPORTED"


RUN_AND_RESUMED = """
import sys
from mnemon.cli import main
for words in (["run", *sys.argv[1:]], ["run", "--resume", "run", "--no-report", "--quiet"]):
    try:
        main(words)
    except SystemExit as end:
        assert end.code == 0
slow = ("torch._dynamo", "torch._inductor", "sympy", "sklearn", "scipy", "pandas", "altair", "optuna", "ray")
print("IMPORTED", *(name for name in slow if name in sys.modules))
"""


@pytest.mark.parametrize("preset", ["split-digits", "toy"])
def test_a_run_imports_no_compiler_and_nothing_else_that_is_slow_and_not_needed(preset, tmp_path):
    words = [preset, "--set", "steps=1", "--set", "checkpoint_seconds=0", "--out", "run", "--no-report", "--quiet"]
    command = [sys.executable, "-c", RUN_AND_RESUMED, *words]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome.stdout.splitlines()[-1:] == ["IMPORTED"], outcome.stderr


def test_the_installed_command_and_the_module_are_the_same():
    script = Path(sys.executable).with_name("mnemon")
    commands = [[sys.executable, "-m", "mnemon"], *([[str(script)]] if script.exists() else [])]
    for command in commands:
        outcome = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert outcome.stdout.strip() == package.__version__
        outcome = subprocess.run([*command, "show", "nowhere"], capture_output=True, text=True)
        assert (outcome.returncode, outcome.stdout) == (2, "")
        assert outcome.stderr == "mnemon: There is no folder nowhere.\n"


def test_a_reader_that_goes_away_is_no_error(start):
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "mnemon", "presets"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert ended(process).err == ""
