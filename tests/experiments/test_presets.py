"""Presets: all of them resolve and say what they are; a preset file that is wrong is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mnemon.config import setting_paths
from mnemon.errors import UsageError
from mnemon.experiments.preset import DEFAULT, FOLDER, all_presets, load_preset
from mnemon.experiments.run_config import from_record, resolve, schema
from mnemon.results.record import RunRecord

N_PRESETS = 156
PRESETS = {preset.name: preset for preset in all_presets()}


def refused(*words) -> str:
    with pytest.raises(UsageError) as error:
        resolve(load_preset(str(words[0])), words[1:])
    assert "\n" not in str(error.value).strip()
    return str(error.value)


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "mine.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_the_number_of_presets_is_known():
    assert len(PRESETS) == N_PRESETS == len(list(FOLDER.iterdir()))
    assert DEFAULT in PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_resolves_and_says_what_it_is(name):
    preset = PRESETS[name]
    config = resolve(preset)
    assert config.preset == preset.name == name
    assert config.published == preset.published
    for text in (preset.about, preset.cost):
        assert "?" not in text
        assert text.strip()
    assert preset.about.endswith(".")
    assert preset.published == preset.published.strip()


@pytest.mark.parametrize("name", PRESETS)
def test_the_settings_of_a_preset_are_all_explained(name):
    for section, cls in schema(resolve(PRESETS[name]).plain()).items():
        for path, sentence in setting_paths(cls, f"{section}.").items():
            assert sentence.endswith("."), path


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_comes_back_from_a_run_folder(name, tmp_path):
    config = resolve(PRESETS[name])
    counts = dict.fromkeys(("learned", "per_task", "n_tasks", "target", "compression"), 1)
    record = RunRecord(name, config.plain(), 0, "accuracy", ["a"], counts, {}, "", published=config.published)
    record.write(tmp_path)
    assert from_record(RunRecord.read(tmp_path)) == config


def test_a_changed_preset_does_not_carry_its_published_number():
    assert resolve(load_preset("split-mnist")).published
    assert resolve(load_preset("split-mnist"), ["beta=1"]).published == ""


def test_changing_the_method_drops_the_settings_that_it_does_not_know():
    preset = load_preset("split-digits")
    assert resolve(preset, ["method=hypernet"]) == replace(resolve(preset), published="")
    assert resolve(preset, ["method=joint"]).method_name == "joint"


def test_changing_the_benchmark_keeps_the_settings_that_it_knows():
    changed = resolve(load_preset("split-digits"), ["benchmark=permuted-digits", "n_tasks=3"])
    assert (changed.benchmark_name, changed.benchmark.n_tasks) == ("permuted-digits", 3)


def test_a_preset_may_be_a_file_that_is_like_another(write):
    path = write('like = "split-digits"\nabout = "Mine."\ncost = "1 s"\n[method]\nbeta = 0.5\n')
    preset = load_preset(str(path))
    assert (preset.name, preset.about, preset.cost) == ("mine", "Mine.", "1 s")
    assert resolve(preset).method.beta == 0.5
    assert resolve(preset).method.hypernet == resolve(load_preset("split-digits")).method.hypernet


def test_a_file_may_be_like_another_file_beside_it(write):
    write('like = "split-digits"\n[training]\nsteps = 7\n', "base.toml")
    path = write('like = "base.toml"\n[method]\nbeta = 0.5\n')
    config = resolve(load_preset(str(path)))
    assert (config.training.steps, config.method.beta) == (7, 0.5)


@pytest.mark.parametrize("method", ["joint", "hypernet-tir", "online-ewc"])
def test_another_method_takes_over_the_same_settings_in_a_file_as_by_a_word(write, method):
    path = write(f'like = "split-digits"\n[method]\nname = "{method}"\n')
    by_word = resolve(load_preset("split-digits"), [f"method={method}"])
    by_file = resolve(load_preset(str(path)))
    assert replace(by_file, preset="split-digits", changes=(f"method={method}",)) == by_word


def test_a_setting_that_another_method_does_not_know_is_dropped_only_if_it_is_the_first_ones(write):
    write('like = "split-digits"\n[method]\nname = "joint"\n', "joint.toml")
    again = write('like = "joint.toml"\n[method]\nname = "hypernet"\n')
    assert resolve(load_preset(str(again))).method.hypernet != resolve(load_preset("split-digits")).method.hypernet
    own = write('like = "split-digits"\n[method]\nname = "joint"\nbeta = 0.5\n')
    assert refused(own).startswith("Unknown setting 'method.beta'.")


def test_a_setting_is_found_as_the_files_give_it(write):
    preset = load_preset(str(write('like = "split-digits"\n[training]\nsteps = 7\n')))
    assert preset.given("training", "steps") == 7
    assert preset.given("benchmark", "name") == "split-digits"
    assert preset.given("training", "epochs") is None


def test_a_file_that_is_like_itself_is_refused(write):
    one = write('like = "other.toml"\n', "one.toml")
    write('like = "one.toml"\n', "other.toml")
    assert refused(one) == f"The preset file {one} inherits from itself."


def test_a_missing_preset_file_is_named(tmp_path):
    assert refused(tmp_path / "none.toml") == f"There is no preset file {tmp_path / 'none.toml'}."


@pytest.mark.parametrize("content", [b"[method\nname =", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_damaged_preset_file_is_named(tmp_path, content):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    assert refused(path).startswith(f"The preset file {path} cannot be read: ")


BASE = 'like = "split-digits"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            BASE + "[trainig]\nsteps = 5",
            "Unknown section 'trainig'. Did you mean 'training'? "
            "Choose one of: benchmark, method, target, optimizer, training.",
        ),
        (
            "seed = 5\n" + BASE,
            "Unknown section 'seed'. Choose one of: benchmark, method, target, optimizer, training.",
        ),
        (
            BASE + "[method.hypernet]\nhiden = [5]",
            "Unknown setting 'method.hypernet.hiden'. Did you mean 'hidden'? Known: form, hidden, activation, "
            "embedding_size, chunk, chunk_embedding_size, init.",
        ),
        (BASE + "training = 5", "'training' must be a table of settings, not 5."),
        (BASE + "[method]\nhypernet = 5", "method.hypernet must be a table of settings, not 5."),
        (BASE + '[training]\nsteps = "many"', "training.steps must be a whole number, not 'many'."),
        ("[method]\nname = 'joint'", "The setting 'benchmark.name' is missing. Choose one of: "),
        ("[benchmark]\nname = 'split-digits'\n[method]\nname = 5", "Unknown method '5'. Choose one of: hypernet, "),
        ('like = "split-digit"', "Unknown preset 'split-digit'. Did you mean 'split-digits'? `mnemon presets` "),
        ("like = 5", "Unknown preset '5'. `mnemon presets` lists all "),
    ],
)
def test_a_wrong_preset_file_is_answered_with_the_remedy(write, text, message):
    assert refused(write(text)).startswith(message)
