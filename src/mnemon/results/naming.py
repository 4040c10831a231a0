"""What a run is called: after what runs, with the settings that differ from its preset.

A *change* is a word `section.name=value`, as `--set` takes it. A preset with all its changes makes the same run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST = 90
"""Bytes of a name; settings for which there is no room are counted, in a few more."""
_PARTS = {
    "benchmark": ("benchmark", "name"),
    "training.scenario": ("training", "scenario"),
    "method": ("method", "name"),
}
"""What the name of a preset says, in this order, and where it stands: the name is not true where one is changed."""
_LEFT_OUT = ("cl1", "hypernet")
"""What is meant where a name says nothing else."""


def name_of(preset: str, changes: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the name of what is run: its preset's, or BENCHMARK-SCENARIO-METHOD where one of these was changed."""
    if _PARTS.keys().isdisjoint(_path(change) for change in changes):
        return preset
    words = [str(config.get(section, {}).get(name, "")) for section, name in _PARTS.values()]
    return "-".join(word for word in words if word and word not in _LEFT_OUT) or preset


def folder_name_of(preset: str, changes: Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the name with what else is changed, short and for any file system: NAME+name=value."""
    others = _without_sections(change for change in changes if _path(change) not in _PARTS)
    return short_name(name_of(preset, changes, config), others)


def _without_sections(changes: Iterable[str]) -> list[str]:
    """Leave out the sections, which say little, but where two of them have settings of one name."""
    whole = list(changes)
    ends = [_path(change).partition(".")[2] for change in whole]
    return [
        change.partition(".")[2] if end and ends.count(end) == 1 else change
        for change, end in zip(whole, ends, strict=True)
    ]


def short_name(base: str, words: Sequence[str]) -> str:
    """Return a base and `name=value` words as one name of bounded length, for any file system: BASE+name=value.

    Other words give another name: of those without room there is a digest.
    """
    name = _cut(safe(base)).rstrip("-.") or "run"
    for i, word in enumerate(words):
        longer = f"{name}+{_short(word)}"
        if len(longer.encode()) > LONGEST:
            rest = words[i:]
            digest = hashlib.sha256("\n".join(rest).encode("utf-8", "replace")).hexdigest()[:6]
            return f"{name}+{len(rest)}-more-{digest}"
        name = longer
    return name


def safe(text: str) -> str:
    """Return a text without the characters that some file system or shell takes amiss."""
    return re.sub(r"[^\w.=@+-]+", "-", text).strip("-.")


def describe_changes(preset: str, changes: Sequence[str]) -> str:
    """Say from which preset a run was made and what was changed; nothing where nothing was."""
    return f"Preset {preset} with {', '.join(changes)}" if changes else ""


def _path(change: str) -> str:
    return change.partition("=")[0]


def _cut(text: str) -> str:
    return text.encode("utf-8", "ignore")[:LONGEST].decode("utf-8", "ignore")


def _short(word: str) -> str:
    """Return `name=value` without brackets and quotes: hidden=10-10 for hidden=[10, 10]."""
    name, equals, value = word.partition("=")
    value = re.sub(r"(?<![\w.])(\d+)\.0(?![\w.])", r"\1", re.sub(r"(?<=\d)e\+", "e", value))
    return safe(name) + equals + "-".join(re.findall(r"[\w.-]+", value))
