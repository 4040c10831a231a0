"""What a run is: every setting that decides what it does, from a preset, from words or from a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mnemon import config as settings
from mnemon.benchmarks.registry import BENCHMARKS
from mnemon.errors import CheckpointError, UsageError, choose
from mnemon.experiments.limits import check_limits
from mnemon.experiments.preset import Preset
from mnemon.learners import LEARNERS
from mnemon.models import TargetConfig
from mnemon.optimizer import OptimizerConfig
from mnemon.results.naming import folder_name_of, name_of
from mnemon.results.record import RunRecord
from mnemon.training.trainer import TrainingConfig

REGISTRIES: dict[str, dict[str, Any]] = {
    "benchmark": dict(BENCHMARKS),
    "method": {name: learner.Config for name, learner in LEARNERS.items()},
}
"""Sections whose dataclass depends on their `name`."""
FIXED = {"target": TargetConfig, "optimizer": OptimizerConfig, "training": TrainingConfig}
SECTIONS = (*REGISTRIES, *FIXED)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run does, except its seed."""

    preset: str
    changes: tuple[str, ...]
    """In what it differs from the preset: `section.name=value` words, as `resolve` takes them."""
    published: str
    benchmark_name: str
    method_name: str
    benchmark: Any
    method: Any
    target: TargetConfig
    optimizer: OptimizerConfig
    training: TrainingConfig

    @property
    def name(self) -> str:
        """What a run with these settings is called."""
        return name_of(self.preset, self.changes, self.plain())

    @property
    def folder_name(self) -> str:
        """The name with the settings that differ from the preset, as a folder has it."""
        return folder_name_of(self.preset, self.changes, self.plain())

    def plain(self) -> dict[str, Any]:
        """Return all settings as tables, as a preset has them."""
        tables = {section: settings.plain(getattr(self, section)) for section in SECTIONS}
        for section in REGISTRIES:
            tables[section] = {"name": getattr(self, f"{section}_name"), **tables[section]}
        return {"preset": self.preset, "published": self.published, **tables}


def schema(values: dict[str, Any]) -> dict[str, Any]:
    """Return the dataclass of each section for tables with these names."""
    chosen = {}
    for section, registry in REGISTRIES.items():
        name = _table(values, section).get("name")
        if name is None:
            raise UsageError(f"The setting '{section}.name' is missing. Choose one of: {', '.join(registry)}.")
        chosen[section] = choose(section, str(name), registry)
    return {**chosen, **FIXED}


def resolve(preset: Preset, overrides: Sequence[str] = ()) -> RunConfig:
    """Apply `name=value` words to a preset and check everything."""
    values: dict[str, Any] = {}
    for layer in preset.layers:
        values = _merged(values, layer)
    for section in values:
        choose("section", section, dict.fromkeys(SECTIONS))
    words = [settings.parse_override(word) for word in overrides]
    start = values
    for name, value in words:
        if (section := name.removesuffix(".name")) in REGISTRIES:
            start = _merged(start, {section: {"name": str(value)}})
    built = _build(start, [(name, value) for name, value in words if name.removesuffix(".name") not in REGISTRIES])
    names: dict[str, Any] = {f"{section}_name": start[section]["name"] for section in REGISTRIES}
    config = RunConfig(preset.name, (), preset.published, **names, **built)
    check_limits(config.plain())
    changes = tuple(_changes(values, start, config)) if words else ()
    # A published number belongs to the preset as it stands.
    return replace(config, changes=changes, published="" if changes else preset.published)


def _build(values: dict[str, Any], words: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dataclass of each section for tables in which some settings are changed."""
    tables = settings.merged({}, values)
    classes, (paths, of) = schema(tables), setting_paths(tables)
    for name, value in words:
        settings.apply_override(tables, name, value, paths, of)
    built = {}
    for section, cls in classes.items():
        table = {k: v for k, v in _table(tables, section).items() if section in FIXED or k != "name"}
        built[section] = settings.build(cls, table, section)
    return built


def _changes(preset: dict[str, Any], start: dict[str, Any], config: RunConfig) -> Iterator[str]:
    """Name what differs between a config and the tables of its preset.

    `start` are these tables after another benchmark or method was chosen: what that alone brings about is not named.
    """
    for section in REGISTRIES:
        if (name := start[section]["name"]) != _table(preset, section).get("name"):
            yield settings.as_word(section, name)
    for section, cls in schema(start).items():
        before = dict(settings.flat(settings.with_defaults(cls, _table(start, section)), f"{section}."))
        for path, value in settings.flat(settings.plain(getattr(config, section)), f"{section}."):
            if path not in before or before[path] != value:
                yield settings.as_word(path, value)


def setting_paths(values: dict[str, Any]) -> tuple[list[str], str]:
    """Return the dotted paths of all settings for tables with these names, and of what they are the settings."""
    paths = [path for section, cls in schema(values).items() for path in settings.setting_paths(cls, f"{section}.")]
    return paths, " of " + " and ".join(str(values[section]["name"]) for section in REGISTRIES)


class Explained(NamedTuple):
    """A setting, as a user is told of it."""

    path: str
    value: object
    meaning: str


def explained(config: RunConfig) -> list[Explained]:
    """Return every setting of a run, and before those of a section with a choice what can be chosen."""
    values, found = config.plain(), []
    by_path = dict(settings.flat({section: values[section] for section in SECTIONS}))
    for section, cls in schema(values).items():
        if section in REGISTRIES:
            choices = f"Choose one of: {', '.join(REGISTRIES[section])}."
            found.append(Explained(section, by_path[f"{section}.name"], choices))
        for path, meaning in settings.setting_paths(cls, f"{section}.").items():
            found.append(Explained(path, by_path[path], meaning))
    return found


def is_setting(name: str) -> bool:
    """Tell whether a name, or the end of one, stands for a setting of any method, benchmark, network or training."""
    tables = [(section, cls) for section, registry in REGISTRIES.items() for cls in registry.values()]
    paths = (
        path for section, cls in (*tables, *FIXED.items()) for path in settings.setting_paths(cls, f"{section}.")
    )
    return name.removesuffix(".name") in REGISTRIES or any(f".{path}".endswith(f".{name}") for path in paths)


def _table(values: dict[str, Any], section: str) -> dict[str, Any]:
    table = values.get(section, {})
    if not isinstance(table, dict):
        raise UsageError(f"'{section}' must be a table of settings, not {table!r}.")
    return table


def _merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return tables with some values replaced; what another method or benchmark does not know is dropped."""
    kept = dict(values)
    for section, registry in REGISTRIES.items():
        old, name = _table(values, section), _table(changes, section).get("name")
        if name is not None and old.get("name", name) != name:
            cls = choose(section, str(name), registry)
            known = {path.partition(".")[0] for path in settings.setting_paths(cls)}
            kept[section] = {k: v for k, v in old.items() if k in known}
    return settings.merged(kept, changes)


def from_record(record: RunRecord, overrides: Sequence[str] = ()) -> RunConfig:
    """Return the config with which a run was begun, with some settings changed."""
    values = {k: v for k, v in record.config.items() if k in SECTIONS}
    published = str(record.config.get("published", ""))
    config = resolve(Preset(record.preset, "", "", published, (values,)), overrides)
    return replace(config, changes=(*record.changes, *config.changes))


def resume_config(record: RunRecord, preset: Preset | None, overrides: Sequence[str]) -> RunConfig:
    """Return the config with which a run was begun; what is given beside it must be the same."""
    config = from_record(record)
    given = from_record(record, overrides) if preset is None else resolve(preset, overrides)
    one, other = ({**c.plain(), "preset": "", "published": ""} for c in (given, config))
    if different := settings.differences(one, other):
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        raise CheckpointError(
            f"The run was begun with other settings: {', '.join(different[:3])}{more} "
            "(given and begun with). Resume it without them, or start a new run."
        )
    return config
