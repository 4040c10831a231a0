"""What a run is: every setting that decides what it does, from a preset, from words or from a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mnemon import config as settings
from mnemon import hypernet, models, plugins, replay
from mnemon.benchmarks import given
from mnemon.benchmarks import registry as benchmarks
from mnemon.errors import CheckpointError, UsageError, choose
from mnemon.experiments.limits import check_limits
from mnemon.experiments.preset import DEFAULT, Preset, is_preset, load_preset
from mnemon.learners import METHODS
from mnemon.models import TargetConfig
from mnemon.optimizer import OptimizerConfig
from mnemon.plugins import Plugin
from mnemon.registry import Registry
from mnemon.results.naming import folder_name_of, name_of
from mnemon.results.record import RunRecord
from mnemon.training.trainer import TrainingConfig

REGISTRIES: dict[str, Registry[Any]] = {"benchmark": benchmarks.REGISTRY, "method": METHODS}
"""Sections whose dataclass depends on their `name`."""
NAMED = (*REGISTRIES.values(), models.REGISTRY, hypernet.REGISTRY, replay.REGISTRY)
"""All that settings name and plugins can add to."""
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

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins that have what its settings name."""
        named = [(path, str(value)) for path, value in settings.flat(self.plain())]
        found = [r.plugins.get(name) for r in NAMED for path, name in named if r.is_named_by(path)]
        return list(dict.fromkeys(plugin for plugin in found if plugin))

    def __reduce__(self) -> tuple[Any, ...]:
        # It travels as tables, with its plugins, which are imported where it arrives before they are needed.
        stream = given.pack(self.benchmark_name)
        return _arrived, (plugins.that_travel(self.plugins), stream, self.preset, self.changes, self.plain())


def _arrived(
    needed: list[Plugin],
    stream: given.Packed | None,
    preset: str,
    changes: tuple[str, ...],
    tables: dict[str, Any],
) -> RunConfig:
    """Return a config that another process has sent."""
    plugins.require(needed)
    given.unpack(stream)
    values = {section: tables[section] for section in SECTIONS}
    config = resolve(Preset(preset, "", "", tables["published"], (values,)))
    return replace(config, changes=changes)


def settings_class(section: str, name: str) -> Any:
    """Return the dataclass of a section that depends on its `name`."""
    found = REGISTRIES[section].find(name)
    return found.Config if section == "method" else found


def schema(values: dict[str, Any]) -> dict[str, Any]:
    """Return the dataclass of each section for tables with these names."""
    chosen = {}
    for section, registry in REGISTRIES.items():
        name = _table(values, section).get("name")
        if name is None:
            choices = ", ".join(registry.all())
            raise UsageError(f"The setting '{section}.name' is missing. Choose one of: {choices}.")
        chosen[section] = settings_class(section, str(name))
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


def preset_of(name: str) -> tuple[Preset, list[str]]:
    """Return the preset of a name, or the default one with the words that choose a benchmark which has no preset."""
    if not is_preset(name) and name in benchmarks.REGISTRY.all():
        return load_preset(DEFAULT), [f"benchmark={name}"]
    return load_preset(name), []


def _build(values: dict[str, Any], words: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dataclass of each section for tables in which some settings are changed."""
    tables = settings.merge({}, values)
    classes, (paths, of) = schema(tables), setting_paths(tables)
    changed = [settings.apply_override(tables, name, value, paths, of) for name, value in words]
    built = {}
    for section, cls in classes.items():
        table = {k: v for k, v in _table(tables, section).items() if section in FIXED or k != "name"}
        built[section] = settings.build(cls, table, section)
    for path in changed:
        section, _, name = path.partition(".")
        settings.check_given(built[section], name, section)
    return built


def _changes(preset: dict[str, Any], start: dict[str, Any], config: RunConfig) -> Iterator[str]:
    """Name what differs between a config and the tables of its preset.

    `start` are these tables after another benchmark or method was chosen: what that alone brings about is not named.
    """
    for section in REGISTRIES:
        if (name := start[section]["name"]) != _table(preset, section).get("name"):
            yield settings.as_word(section, name)
    for section, cls in schema(start).items():
        built, table = getattr(config, section), _table(start, section)
        chosen = settings.merge(table, settings.variant_names(built))
        # What another variant alone has is named only if it is not what its choice brings about.
        before = {path: value for one in (chosen, table) for path, value in _with_defaults(section, cls, one)}
        for path, value in settings.flat(settings.plain(built), f"{section}."):
            if path not in before or before[path] != value:
                yield settings.as_word(path, value)


def _with_defaults(section: str, cls: Any, table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return settings.flat(settings.with_defaults(cls, table), f"{section}.")


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
            choices = f"Choose one of: {', '.join(REGISTRIES[section].all())}."
            found.append(Explained(section, by_path[f"{section}.name"], choices))
        for path, meaning in settings.setting_paths(cls, f"{section}.", values[section]).items():
            found.append(Explained(path, by_path[path], meaning))
    return found


def is_setting(name: str) -> bool:
    """Tell whether a name, or the end of one, stands for a setting of any method, benchmark, network or training."""
    tables = [(section, settings_class(section, of)) for section, r in REGISTRIES.items() for of in r.all()]
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
    for section in REGISTRIES:
        old, name = _table(values, section), _table(changes, section).get("name")
        if name is not None and old.get("name", name) != name:
            cls = settings_class(section, str(name))
            known = {path.partition(".")[0] for path in settings.setting_paths(cls)}
            kept[section] = {k: v for k, v in old.items() if k in known}
    return settings.merge(kept, changes)


def from_record(record: RunRecord, overrides: Sequence[str] = ()) -> RunConfig:
    """Return the config with which a run was begun, with some settings changed."""
    values = {k: v for k, v in record.config.items() if k in SECTIONS}
    published = str(record.config.get("published", ""))
    with _missing_plugins_named(record):
        config = resolve(Preset(record.preset, "", "", published, (values,)), overrides)
    return replace(config, changes=(*record.changes, *config.changes))


@contextmanager
def _missing_plugins_named(record: RunRecord) -> Iterator[None]:
    """Say which plugins a record needs, where its settings name something that is not known without them."""
    try:
        yield
    except UsageError as error:
        if note := plugins.note_of_missing(record.plugins):
            raise UsageError(f"{note} {error}") from error
        raise


def resume_config(record: RunRecord, preset: Preset | None, overrides: Sequence[str]) -> RunConfig:
    """Return the config with which a run was begun; what is given beside it must be the same."""
    config = from_record(record)
    given = from_record(record, overrides) if preset is None else resolve(preset, overrides)
    one, other = ({**c.plain(), "preset": "", "published": ""} for c in (given, config))
    if different := settings.differences(one, other):
        raise CheckpointError(
            f"The run was begun with other settings: {settings.first_of(different)} "
            "(given and begun with). Resume it without them, or start a new run."
        )
    return config
