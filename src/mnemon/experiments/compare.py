"""Several methods on one benchmark: what each word of the user stands for, and the runs of them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnemon.benchmarks.scenario import Scenario
from mnemon.config import as_word, differences
from mnemon.errors import DataError, UsageError, choose
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job
from mnemon.experiments.preset import DEFAULT, Preset, all_presets, is_preset, load_preset
from mnemon.experiments.run import build_run, new_folder
from mnemon.experiments.run_config import RunConfig, preset_of, resolve
from mnemon.experiments.study import Failures, dated_folder, keep_begun, resumed_jobs
from mnemon.learners import METHODS
from mnemon.results.comparison import Comparison
from mnemon.results.naming import short_name


@dataclass(frozen=True)
class ComparisonPlan:
    """What is to be compared."""

    benchmark: str
    scenario: Scenario
    methods: dict[str, RunConfig]
    """By the label of each: the word with which the user named it."""
    changes: tuple[str, ...] = ()
    """The settings that are changed in all methods, as the user named them."""


def make_plan(
    words: Sequence[str],
    benchmark: str | None = None,
    scenario: str | None = None,
    overrides: Sequence[str] = (),
) -> ComparisonPlan:
    """Find out what `METHOD` or `METHOD:name=value,name=value` words mean for the benchmark of a preset."""
    if not words:
        raise UsageError("Name the methods to compare, such as: mnemon compare hypernet finetuned-target joint")
    for i, word in enumerate(words):
        if word in words[:i]:
            raise UsageError(f"'{word}' is given twice; a variant is written METHOD:name=value.")
    finder = _Finder(benchmark or DEFAULT, choose("scenario", scenario or "cl1", _SCENARIOS))
    methods = {word: _config(word, finder, overrides) for word in words}
    return ComparisonPlan(finder.title, finder.scenario, methods, tuple(overrides))


def begin_runs(
    plan: ComparisonPlan, seeds: Sequence[int], out: Path | None, compute: Compute
) -> tuple[Path, list[Job]]:
    """Make the folder of a comparison with one for each method and seed; return it and the jobs."""
    records = {}
    for label, config in plan.methods.items():
        with _said_of(label):  # what is wrong with a method shows before a folder is made
            records[label] = build_run(config, seeds[0], compute).record
    name = short_name(f"compare-{plan.benchmark}-{plan.scenario.value}", plan.changes)
    folder = new_folder(out or dated_folder(name))
    folders = _folder_names(plan.methods)
    jobs: list[Job] = []
    for seed in seeds:  # all methods of a seed before the next seed: the table is whole as early as can be
        for label, config in plan.methods.items():
            home = new_folder(folder / folders[label] / f"seed-{seed}")
            jobs.append(Job(len(jobs), config, seed, home, label))
            keep_begun(jobs[-1], records[label])
    Comparison(plan.benchmark, plan.scenario.value, folders).write(folder)
    return folder, jobs


def resumed_runs(folder: Path) -> list[Job]:
    """Return the jobs of a comparison's unfinished runs."""
    folders = Comparison.read(folder).folders
    jobs = [job for label, name in folders.items() for job in resumed_jobs(folder / name, label=label)]
    return [job._replace(number=i) for i, job in enumerate(sorted(jobs, key=lambda job: job.seed))]


def keep_failures(folder: Path, failures: Failures) -> None:
    """Note in a comparison's folder which runs failed, and why."""
    reasons = {job.folder.relative_to(folder).as_posix(): str(error) for job, error in failures}
    replace(Comparison.read(folder), failures=reasons).write(folder)


# From words to settings

_SCENARIOS = {scenario.value: scenario for scenario in Scenario}


class _Finder:
    """Finds a method by its name, for one benchmark and scenario."""

    def __init__(self, benchmark: str, scenario: Scenario):
        self.name, self.scenario = benchmark, scenario
        self.preset, self.own = preset_of(benchmark)
        self.config = resolve(self.preset, self.own)
        # In the name of a preset CL1 is left out.
        also = [f"{benchmark}-"] if scenario is Scenario.CL1 else []
        self.prefixes = [f"{benchmark}-{scenario.value}-", *also]

    @property
    def title(self) -> str:
        """What the tasks are called: after their preset, or after a benchmark that has none."""
        return self.name if self.own else self.preset.name

    def find(self, name: str) -> tuple[Preset, list[str]]:
        """Return the preset of a method, and the settings that make it this method in this scenario."""
        for prefix in self.prefixes:
            if is_preset(prefix + name):
                preset = load_preset(prefix + name)
                return preset, self._own_tasks(preset)
        if is_preset(name) or name.endswith(".toml"):
            return load_preset(name), []
        choose("method", name, dict.fromkeys(self.names()))
        changes = [*self.own]
        if name != self.config.method_name:
            changes.append(f"method={name}")
        if self.scenario is not self.config.training.scenario:
            changes.append(f"training.scenario={self.scenario.value}")
        return self.preset, changes

    def _own_tasks(self, preset: Preset) -> list[str]:
        """Return the settings that give a preset the tasks of this benchmark, such as its pairs of digits."""
        own, theirs = (_measured(config)["benchmark"] for config in (self.config, resolve(preset)))
        if own["name"] != theirs["name"]:
            return []
        return [as_word(f"benchmark.{name}", value) for name, value in own.items() if theirs[name] != value]

    def names(self) -> list[str]:
        """Return all names that can be found: short names of presets, learners, and other presets that fit."""
        fitting = [preset.name for preset in all_presets() if self._fits(preset)]
        prefix = {name: self._prefix(name) for name in fitting}
        short = [name.removeprefix(prefix[name]) for name in fitting if prefix[name]]
        return list(dict.fromkeys([*short, *METHODS.all(), *(name for name in fitting if not prefix[name])]))

    def _prefix(self, name: str) -> str:
        """Return what may be left out of the name of a preset."""
        return next((prefix for prefix in self.prefixes if name.startswith(prefix)), "")

    def _fits(self, preset: Preset) -> bool:
        config = resolve(preset, self._own_tasks(preset) if self._prefix(preset.name) else ())
        return config.training.scenario is self.scenario and _measured(config) == _measured(self.config)

    def check(self, config: RunConfig) -> None:
        """Refuse a method of another benchmark or scenario."""
        if different := differences(_measured(config), _measured(self.config)):
            raise UsageError(f"It learns other tasks than {self.title}: {', '.join(different)}.")
        _check_scenario(config, self.scenario)


def _config(word: str, finder: _Finder, overrides: Sequence[str]) -> RunConfig:
    """Return the config that a word stands for; its own settings win over those of all methods."""
    name, own = split_word(word)
    preset, changes = finder.find(name)
    with _said_of(word):
        plain = resolve(preset, changes)
        finder.check(plain)
        common = _changed(preset, changes, overrides) if overrides else plain
        config = resolve(preset, [*changes, *overrides, *own]) if own else common
        for changed in (common, config):
            if changed.method_name != plain.method_name or changed.benchmark_name != plain.benchmark_name:
                raise UsageError("Methods are named by words and their benchmark by --benchmark, not by settings.")
            _check_scenario(changed, finder.scenario)
        if different := differences(_measured(config), _measured(common)):
            raise UsageError(f"All methods learn the same tasks: change {', '.join(different)} by --set.")
    return config


def _changed(preset: Preset, changes: Sequence[str], overrides: Sequence[str]) -> RunConfig:
    try:
        return resolve(preset, [*changes, *overrides])
    except UsageError as error:
        raise UsageError(f"{error} --set is for all methods; for one alone write METHOD:name=value.") from error


def _check_scenario(config: RunConfig, scenario: Scenario) -> None:
    if config.training.scenario is not scenario:
        given = config.training.scenario.value
        raise UsageError(f"Its scenario is {given}, not {scenario.value}. All methods have that of --scenario.")


def _measured(config: RunConfig) -> dict[str, Any]:
    """Return the settings that numbers must share to be compared: what is learned and on what it is tested."""
    tables = config.plain()
    return {"benchmark": tables["benchmark"], "training": {"held_out": tables["training"].get("held_out")}}


def split_word(word: str) -> tuple[str, list[str]]:
    """Split `METHOD:name=value,name=value` into the method and its own settings."""
    name, colon, text = word.partition(":")
    own = _split_at_commas(text) if colon else []
    if not name or not all("=" in setting for setting in own):
        raise UsageError(f"A method is written METHOD or METHOD:name=value,name=value, not '{word}'.")
    return name, own


def _split_at_commas(text: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


@contextmanager
def _said_of(label: str) -> Iterator[None]:
    """Name the method that an error is about; missing data are no matter of the method."""
    try:
        yield
    except DataError:
        raise
    except UsageError as error:
        raise type(error)(f"{label}: {error}") from error


# Folders


def _folder_names(labels: Iterable[str]) -> dict[str, str]:
    """Return a name that any file system takes for each label, no two alike."""
    names: dict[str, str] = {}
    for label in labels:
        name = short_name(label, [])
        taken = {name.casefold() for name in names.values()}
        tries = (name, *(f"{name}-{i}" for i in range(2, len(names) + 2)))
        names[label] = next(name for name in tries if name.casefold() not in taken)
    return names
