"""Names of configs: in what they differ from their preset, whatever the words by which that was said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mnemon.config import as_word, flat
from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.older_records import up_to_date
from mnemon.experiments.preset import Preset, all_presets, load_preset
from mnemon.experiments.run import build_run
from mnemon.experiments.run_config import SECTIONS, RunConfig, from_record, resolve, resume_config
from mnemon.replay import REPLAYS
from mnemon.results.record import RunRecord

DIGITS = load_preset("split-digits")
RECORDS = Path(__file__).parents[2] / "docs" / "results" / "records"


def changed(*words: str, preset: str = "split-digits") -> RunConfig:
    return resolve(load_preset(preset), words)


@pytest.mark.parametrize("preset", all_presets()[::7], ids=lambda preset: preset.name)
def test_every_setting_at_its_own_value_changes_nothing(preset):
    config = resolve(preset)
    tables = {section: config.plain()[section] for section in SECTIONS}
    words = [as_word(path, value) for path, value in flat(tables)]
    assert len(words) > 20
    assert resolve(preset, words) == config
    assert config.changes == ()
    assert config.name == preset.name


CASES = [
    (["beta=0.1"], (), "split-digits"),
    (["beta=0"], ("method.beta=0.0",), "split-digits+beta=0"),
    (["lr=1e-2", "beta=5"], ("method.beta=5.0", "optimizer.lr=0.01"), "split-digits+beta=5+lr=0.01"),
    (["beta=5", "beta=0.1"], (), "split-digits"),
    (["benchmark=permuted-digits"], ("benchmark=permuted-digits",), "permuted-digits"),
    (["benchmark=split-digits"], (), "split-digits"),
    (["method=joint"], ("method=joint",), "split-digits-joint"),
    (["benchmark.name=permuted-digits", "n_tasks=10"], ("benchmark=permuted-digits",), "permuted-digits"),
    (
        ["n_tasks=3", "benchmark=permuted-digits", "method=replay", "scenario=cl2"],
        ("benchmark=permuted-digits", "method=replay", "benchmark.n_tasks=3", "training.scenario=cl2"),
        "permuted-digits-cl2-replay+n_tasks=3",
    ),
    (["epochs=none", "target.hidden=[7]"], ("target.hidden=[7]",), "split-digits+hidden=7"),
]


@pytest.mark.parametrize(("words", "changes", "name"), CASES)
def test_a_config_names_what_differs_from_its_preset(words, changes, name):
    config = changed(*words)
    assert config.changes == changes
    assert config.folder_name == name
    assert config.name == name.partition("+")[0]
    # They are all there is to say: with them the preset becomes the same config.
    assert changed(*changes) == config


def test_another_benchmark_may_make_a_preset_valid_only_with_more_settings():
    config = changed("benchmark=split-digits", "n_tasks=2", preset="permuted-digits")
    assert config.changes == ("benchmark=split-digits", "benchmark.n_tasks=2")
    assert config.folder_name == "split-digits+n_tasks=2"


def test_a_published_number_stays_where_nothing_is_changed():
    published = load_preset("split-mnist").published
    assert published
    assert changed("beta=0.01", preset="split-mnist").published == published
    assert changed("beta=0.02", preset="split-mnist").published == ""


def test_a_record_keeps_its_name(tmp_path):
    config = changed("benchmark=permuted-digits", "n_tasks=2", "target.hidden=[4]")
    build_run(config, 0, Compute("cpu")).record.write(tmp_path)
    record = RunRecord.read(tmp_path)
    assert record.name == config.name == "permuted-digits"
    assert record.changes == list(config.changes)
    assert from_record(record) == config


def test_a_record_of_an_earlier_version_is_called_after_its_preset(tmp_path):
    record = replace(build_run(changed("beta=0"), 0, Compute("cpu")).record, changes=[])
    assert record.name == "split-digits"
    assert from_record(record).name == "split-digits"


# Settings that depend on the source of replayed inputs

REPLAYED = ["method.name=replay", "method.replay.encoder=[9]", "method.replay.condition=none"]


def test_a_source_of_replayed_inputs_has_only_its_own_settings():
    tables = {name: resolve(DIGITS, ["method=replay", f"replay.model={name}"]).plain()["method"] for name in REPLAYS}
    assert {name: table["replay"]["model"] for name, table in tables.items()} == {name: name for name in REPLAYS}
    assert list(tables["real"]["replay"]) == list(tables["present"]["replay"]) == ["model"]
    assert "dropout" in tables["gan"]["replay"]
    assert "dropout" not in tables["vae"]["replay"]
    assert "beta" not in tables["plain-vae"]["replay"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=real", "replay.beta=0.1"], "method.replay.model=real has no setting 'beta'. Known: model."),
        (["replay.hypernet.chunk=7", "model=present"], "model=present has no setting 'hypernet'. Known: model."),
        (["replay.dropout=0.1"], "method.replay.model=vae has no setting 'dropout'. Known: beta, penalty,"),
        (
            ["replay.betta=0.1"],
            "Unknown setting 'replay.betta' of split-digits and replay. Did you mean 'method.replay",
        ),
        (
            ["replay.model=gann"],
            "Unknown replay model 'gann'. Did you mean 'gan'? Choose one of: vae, gan, plain-vae,",
        ),
    ],
)
def test_a_setting_that_the_chosen_source_does_not_have_is_refused(words, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        resolve(DIGITS, ["method=replay", *words])


def test_the_order_of_words_does_not_matter():
    words = ["replay.dropout=0.1", "replay.model=gan", "method=replay"]
    assert resolve(DIGITS, words) == resolve(DIGITS, words[::-1])


def test_another_source_takes_over_the_settings_that_it_knows():
    vae = resolve(DIGITS, REPLAYED)
    gan = resolve(
        Preset("own", "", "", "", ({k: v for k, v in vae.plain().items() if k in SECTIONS},)), ["model=gan"]
    )
    assert gan.method.replay.encoder == (9,)
    assert gan.method.replay.condition.value == "none"
    assert gan.changes == ("method.replay.model=gan",), "what the choice alone brings about is not named"
    assert resolve(DIGITS, ["method=replay", "model=real"]).changes == ("method=replay", "method.replay.model=real")


def test_settings_without_effect_in_records_of_earlier_versions_are_left_out():
    record = RunRecord.read(RECORDS / "split-mnist-cl2-replay-bound" / "seed-0")
    assert record.config["method"]["replay"]["beta"] == 0.01
    assert from_record(record).plain()["method"]["replay"] == {"model": "real"}
    now = from_record(record).plain()
    assert up_to_date({**record.config, "preset": ""}) == {**now, "preset": ""}
    assert resume_config(record, load_preset("split-mnist-cl2-replay-bound"), ()) == from_record(record)
