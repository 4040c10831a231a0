"""What a run is: every setting that decides what it does, from a preset, from words or from a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mnemon import config as settings
from mnemon.benchmarks.registry import BENCHMARKS
from mnemon.errors import CheckpointError, UsageError, choose
from mnemon.experiments.limits import check_limits
from mnemon.experiments.preset import Preset
from mnemon.learners import LEARNERS
from mnemon.models import TargetConfig
from mnemon.optimizer import OptimizerConfig
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
    published: str
    benchmark_name: str
    method_name: str
    benchmark: Any
    method: Any
    target: TargetConfig
    optimizer: OptimizerConfig
    training: TrainingConfig

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
    for name, value in words:
        if (section := name.removesuffix(".name")) in REGISTRIES:
            values = _merged(values, {section: {"name": str(value)}})
    classes = schema(values)
    paths, of = setting_paths(values)
    for name, value in words:
        if name.removesuffix(".name") not in REGISTRIES:
            settings.apply_override(values, name, value, paths, of)
    built = {}
    for section, cls in classes.items():
        table = {k: v for k, v in _table(values, section).items() if section in FIXED or k != "name"}
        built[section] = settings.build(cls, table, section)
    chosen = {f"{section}_name": values[section]["name"] for section in REGISTRIES}
    # A published number belongs to the preset as it stands.
    published = preset.published if not overrides else ""
    config = RunConfig(preset.name, published, **chosen, **built)
    check_limits(config.plain())
    return config


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
    return resolve(Preset(record.preset, "", "", published, (values,)), overrides)


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
