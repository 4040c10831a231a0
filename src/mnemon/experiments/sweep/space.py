"""What a sweep searches: a preset, settings that are fixed, and a range for each setting that is searched."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mnemon.config import as_word, convert, find_setting, parse_override
from mnemon.errors import UsageError, suggest
from mnemon.experiments.preset import Preset, load_preset
from mnemon.experiments.run_config import RunConfig, resolve, setting_paths
from mnemon.experiments.sweep.space_file import OF_A_RANGE, SpaceFile, read_space, said_of, space_of_tables

SECTIONS = ("method", "benchmark")
"""Settings that decide which settings there are."""
HELD_OUT, SHARE = "training.held_out", 0.1
SCENE = ("benchmark.", "training.scenario", "training.matrix", HELD_OUT)
"""Settings that decide on what trials are judged: the same for all of them."""


class Criterion(str, Enum):
    """By which accuracy trials are judged, as a mean over all tasks after the last one."""

    HELD_OUT = "held-out"
    """That on a share of the training data, kept from training (`training.held_out`)."""
    TEST = "test"
    """That on the test data: what comes out is no honest measurement any more."""


class Sampler(str, Enum):
    """How the settings of the next trial are chosen."""

    TPE = "tpe"
    """Where trials were good so far (Optuna's tree-structured Parzen estimator)."""
    RANDOM = "random"
    """At random."""


@dataclass(frozen=True)
class SearchRange:
    """What a setting may be: some choices, or numbers from low to high."""

    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False

    def plain(self) -> dict[str, Any]:
        """Return what is said of the range, as a space file has it."""
        # 0 is said of a range, though it equals False.
        return {name: value for name, value in vars(self).items() if value is not False and value not in ((), None)}


@dataclass(frozen=True)
class Space:
    """What a sweep searches, checked against the settings of its preset."""

    name: str
    about: str
    preset: Preset
    preset_name: str
    """The name or the path by which the preset is found."""
    fixed: dict[str, Any]
    ranges: dict[str, SearchRange]
    sampler: Sampler
    criterion: Criterion
    pruning: bool
    trials: int

    def config(self, chosen: Mapping[str, Any] | None = None) -> RunConfig:
        """Return the config of a trial, given the values of the settings that are searched."""
        return resolve(self.preset, [*_words(self.fixed), *_words(chosen or {})])

    def changes(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that make the preset into what was chosen, tested on the test data."""
        fixed = {path: value for path, value in self.fixed.items() if path != HELD_OUT}
        share = {HELD_OUT: 0.0} if resolve(self.preset).training.held_out else {}
        return {**fixed, **share, **chosen}

    def plain(self) -> dict[str, Any]:
        """Return the space as tables, as its file has them."""
        return {
            "about": self.about,
            "preset": self.preset_name,
            "sampler": self.sampler.value,
            "criterion": self.criterion.value,
            "pruning": self.pruning,
            "set": self.fixed,
            "search": {path: _as_lists(r.plain()) for path, r in self.ranges.items()},
        }

    def identity(self) -> dict[str, Any]:
        """Return all that trials must have in common to belong to one study."""
        plain = {key: value for key, value in self.plain().items() if key not in ("about", "preset", "set")}
        return {**plain, "config": {**self.config().plain(), "preset": "", "published": ""}}


def load_space(what: str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Space:
    """Return a space by its name, from a TOML file by its path, or from tables as a file has them.

    `overrides` fix further settings.
    """
    file = read_space(what) if isinstance(what, str) else space_of_tables(what)
    with said_of(file.path):
        return _space(file, overrides)


def _space(file: SpaceFile, overrides: Sequence[str]) -> Space:
    preset = load_preset(file.preset)
    searched = file.searched
    if not searched:
        raise UsageError(
            "It has nothing to search: add a table [search] with lines such as lr = {low = 1e-4, high = 0.1}."
        )
    given = {**file.fixed, **dict(map(parse_override, overrides))}
    criterion = convert(Criterion, file.entries.get("criterion", Criterion.HELD_OUT.value), "criterion")
    fixed = _fixed(preset, given, criterion)
    config = resolve(preset, _words(fixed))
    paths, of = setting_paths(config.plain())
    ranges: dict[str, SearchRange] = {}
    for name, value in searched.items():
        where = _searchable(name, paths, of)
        if where in ranges or where in fixed:
            raise UsageError(f"{where} is named twice, as '{name}' and elsewhere.")
        with said_of(name):
            ranges[where] = _range(where, value, preset, fixed)
    return Space(
        file.path.stem,
        file.about,
        preset,
        file.preset,
        fixed,
        ranges,
        convert(Sampler, file.entries.get("sampler", Sampler.TPE.value), "sampler"),
        criterion,
        file.pruning,
        file.trials,
    )


def _fixed(preset: Preset, given: dict[str, Any], criterion: Criterion) -> dict[str, Any]:
    """Return the settings that all trials share by their whole paths, what they are tested on included."""
    names = {
        name if "." in name else f"{name}.name": name for name in given if name.removesuffix(".name") in SECTIONS
    }
    config = resolve(preset, _words({path: given[name] for path, name in names.items()}))
    paths, of = setting_paths(config.plain())
    fixed = {path: given[name] for path, name in names.items()}
    fixed |= {find_setting(name, paths, of): value for name, value in given.items() if name not in names.values()}
    share = resolve(preset, _words(fixed)).training.held_out
    if criterion is Criterion.TEST:
        return {**fixed, HELD_OUT: 0.0}
    if not share and HELD_OUT in fixed:
        raise UsageError(f'{HELD_OUT} is 0: nothing is left to judge by. Leave it out, or say criterion = "test".')
    return {**fixed, HELD_OUT: share or SHARE}


def _searchable(name: str, paths: list[str], of: str) -> str:
    if name in SECTIONS or name.removesuffix(".name") in SECTIONS:
        raise UsageError(f"{name} is not searched: fix it under [set], and compare methods by `mnemon compare`.")
    path = find_setting(name, paths, of)
    if path.startswith(SCENE):
        raise UsageError(f"{path} is not searched: all trials are judged on the same tasks and data.")
    return path


def _range(path: str, value: Any, preset: Preset, fixed: dict[str, Any]) -> SearchRange:
    given = _given(value)

    def converted(item: Any) -> Any:
        """Return a value as the setting has it; a wrong one is refused in the words of the setting."""
        found: Any = resolve(preset, _words({**fixed, path: item})).plain()
        for key in path.split("."):
            found = found[key]
        return found

    if "choices" in given:
        if len(given) > 1:
            raise UsageError("choices cannot be combined with low, high, step and log.")
        if not isinstance(given["choices"], list) or not given["choices"]:
            raise UsageError(f"choices must be a list that is not empty, not {given['choices']!r}.")
        if len(given["choices"]) > MOST_CHOICES:
            raise UsageError(f"choices must be at most {MOST_CHOICES:,}, not {len(given['choices']):,}.")
        return SearchRange(choices=tuple(converted(item) for item in given["choices"]))
    if not {"low", "high"} <= given.keys():
        raise UsageError("It takes choices, or low and high.")
    low, high = converted(given["low"]), converted(given["high"])
    if type(low) not in (int, float):
        raise UsageError(f"{path} is not a number: give choices in place of low and high.")
    step, log = given.get("step"), convert(bool, given.get("log", False), "log")
    if not low < high:
        raise UsageError(f"The range is empty: low is {low} and high is {high}.")
    if log and (low <= 0 or step is not None):
        raise UsageError("With log, low must be above 0." if low <= 0 else "log and step cannot be combined.")
    if step is not None:
        step = convert(type(low), step, "step")
        if not 0 < step <= high - low:
            raise UsageError(f"step must be above 0 and at most {high - low}, not {step}.")
    return SearchRange((), low, high, step, log)


MOST_CHOICES = 10_000
"""Values of a setting, such as the networks that layers and widths stand for."""


def _given(value: Any) -> dict[str, Any]:
    """Return what is said of a range; a list stands for choices, layers and widths for all networks of these."""
    if isinstance(value, list):
        return {"choices": value}
    if not isinstance(value, Mapping):
        raise UsageError(f"A range is a list of choices, or a table with low and high, not {value!r}.")
    for key in value:
        if key not in OF_A_RANGE:
            raise UsageError(f"Unknown entry '{key}'.{suggest(key, OF_A_RANGE)} Known: {', '.join(OF_A_RANGE)}.")
    if {"layers", "widths"} & value.keys():
        layers, widths = value.get("layers"), value.get("widths")
        if set(value) != {"layers", "widths"} or not isinstance(layers, list) or not isinstance(widths, list):
            raise UsageError("layers and widths are two lists of integers, given together.")
        if not all(type(depth) is int and depth >= 0 for depth in layers):
            raise UsageError(f"layers must be integers of at least 0, not {layers}.")
        if any(depth > 60 for depth in layers) or sum(len(widths) ** depth for depth in layers) > MOST_CHOICES:
            raise UsageError(
                f"Networks of {layers} layers of {len(widths)} widths are more than {MOST_CHOICES:,}: use fewer."
            )
        shapes = [list(shape) for depth in layers for shape in itertools.product(widths, repeat=depth)]
        return {"choices": shapes}
    return dict(value)


def _words(chosen: Mapping[str, Any]) -> list[str]:
    return [as_word(path, value) for path, value in chosen.items()]


def _as_lists(value: Any) -> Any:
    return json.loads(json.dumps(value))
