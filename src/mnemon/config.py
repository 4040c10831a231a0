"""Settings: from TOML and `name=value` words to frozen dataclasses, with errors that name the setting."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from mnemon.errors import UsageError, suggest
from mnemon.notation import NotationError, read_toml

MOST_NAMED = 3
"""Differences that an error names."""


def build(schema: Any, values: Mapping[str, Any], where: str, what: str = "setting") -> Any:
    """Make a dataclass from plain values, checking every name and type.

    `where` is its section, and `what` its fields are called in errors.
    """
    hints = _hints(schema)
    known = [f.name for f in dataclasses.fields(schema)]
    for name in values:
        if name not in known:
            near = suggest(name, known)
            raise UsageError(f"Unknown {what} '{_path(where, name)}'.{near} Known: {', '.join(known)}.")
    for field in dataclasses.fields(schema):
        if field.name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise UsageError(f"The {what} '{_path(where, field.name)}' is missing.")
    tables = {name: _with_variant(schema, name, value) for name, value in values.items()}
    return schema(**{name: convert(hints[name], value, _path(where, name)) for name, value in tables.items()})


def _with_variant(schema: Any, name: str, value: Any) -> Any:
    """Return a nested table with the name on which its settings depend, if they depend on one.

    The settings of a source of replayed inputs depend on `model`, for instance: their class says so by `chosen_by`,
    and by `variants` and `variant`, which return the classes that stand for it. A table without the name has that of
    the default.
    """
    by = getattr(_hints(schema)[name], "chosen_by", None)
    if by is None or not isinstance(value, Mapping) or by in value:
        return value
    return {by: getattr(_default(schema, name), by), **value}


def _variant(hint: Any, table: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the class of a nested table, and the table without the settings that only other variants have.

    They are without effect. Records of earlier versions have them, and presets that take over another variant's.
    """
    if not hasattr(hint, "chosen_by"):
        return hint, table
    chosen = hint.variant(str(table[hint.chosen_by]))
    others = {f.name for other in hint.variants().values() for f in dataclasses.fields(other)}
    dropped = others - {f.name for f in dataclasses.fields(chosen)}
    return chosen, {name: value for name, value in table.items() if name not in dropped}


def _default(schema: Any, name: str) -> Any:
    (field,) = (f for f in dataclasses.fields(schema) if f.name == name)
    factory = typing.cast(Any, field.default_factory)
    return field.default if factory is dataclasses.MISSING else factory()


def _path(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


@functools.cache
def _hints(schema: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields; kept, since to evaluate them takes longer than all the rest."""
    return typing.get_type_hints(schema)


def convert(hint: Any, value: Any, where: str) -> Any:
    """Turn a plain value into the type of a setting."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return build(*_variant(hint, value), where)
    if origin in (typing.Union, types.UnionType):
        if type(None) in args and (value is None or value == "none"):
            return None
        options = [a for a in args if a is not type(None)]
        return convert(type(value) if type(value) in options else options[0], value, where)
    if origin in (tuple, list) and isinstance(value, list | tuple):
        return _converted_items(origin, args, value, where)
    if origin is dict and isinstance(value, Mapping):
        return {str(name): convert(args[1], item, f"{where}.{name}") for name, item in value.items()}
    if hint is Any:
        return value
    simple = origin is None and isinstance(hint, type)  # in Python 3.10 tuple[int, ...] is a type, too
    if simple and issubclass(hint, Enum):
        members = [str(m.value) for m in hint]
        if value not in members:
            hint_text = suggest(str(value), members)
            raise UsageError(f"Unknown {where} '{value}'.{hint_text} Choose one of: {', '.join(members)}.")
        return hint(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if simple and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise UsageError(f"{where} must be {_in_words(hint)}, not {value!r}.")


def _converted_items(origin: Any, args: tuple[Any, ...], values: Sequence[Any], where: str) -> Any:
    """Turn a plain list into a list or a tuple, of one type or of a type for each place."""
    alike = origin is list or args[-1] is Ellipsis
    if not alike and len(values) != len(args):
        raise UsageError(f"{where} must be a list of {len(args)} values, not of {len(values)}.")
    if alike and args[0] is float and all(type(value) is float for value in values):
        return origin(values)  # most of what is read are numbers, and to look at each takes a while
    hints = itertools.repeat(args[0], len(values)) if alike else args
    return origin(convert(hint, value, where) for hint, value in zip(hints, values, strict=True))


def _in_words(hint: Any) -> str:
    if typing.get_origin(hint) in (tuple, list):
        return "a list such as [10, 10]"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
    return names.get(hint, "a table of settings")


def plain(config: Any) -> dict[str, Any]:
    """Turn a dataclass back into plain values that TOML can hold."""
    return {f.name: _plain_value(getattr(config, f.name)) for f in dataclasses.fields(config)}


def _plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return plain(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    return "none" if value is None else value


def with_defaults(schema: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values with the defaults of what they lack; nothing is checked."""
    found = {}
    for field in dataclasses.fields(schema):
        hint, value = _hints(schema)[field.name], _with_variant(schema, field.name, values.get(field.name))
        if field.name in values:
            inner = dataclasses.is_dataclass(hint) and isinstance(value, Mapping)
            found[field.name] = with_defaults(*_variant(hint, value)) if inner else value
        elif not field.default is field.default_factory is dataclasses.MISSING:
            found[field.name] = _plain_value(_default(schema, field.name))
    return found


def parse_override(word: str) -> tuple[str, Any]:
    """Split `name=value`; the value is read as TOML, or as a plain word."""
    name, equals, text = word.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--set takes name=value, not '{word}'.")
    try:
        value = read_toml(f"value = {text}")["value"]
    except NotationError:
        value = text.strip()
    return name.strip().replace("-", "_"), value


def apply_override(values: dict[str, Any], name: str, value: Any, paths: Sequence[str], of: str = "") -> str:
    """Set one value in nested tables, and return its dotted path, of which `name` may be any ending."""
    path = find_setting(name, paths, of)
    *tables, last = path.split(".")
    for table in tables:
        values = values.setdefault(table, {})
    values[last] = value
    return path


def check_given(config: Any, path: str, where: str) -> None:
    """Refuse a setting that only another variant has than the one that is chosen."""
    name, _, rest = path.partition(".")
    if not name or not dataclasses.is_dataclass(config):
        return
    known = [f.name for f in dataclasses.fields(config)]
    if name not in known:
        by = getattr(config, "chosen_by", "")
        chosen = f"{where}.{by}={getattr(config, by)}" if by else where
        raise UsageError(f"{chosen} has no setting '{name}'.{suggest(name, known)} Known: {', '.join(known)}.")
    check_given(getattr(config, name), rest, f"{where}.{name}")


def find_setting(name: str, paths: Sequence[str], of: str = "") -> str:
    """Return the dotted path of a setting, of which `name` is any ending.

    It must fit only one setting, or one that is further out than all others of its section.
    """
    matches = [path for path in paths if path == name or path.endswith(f".{name}")]
    if not matches:
        endings = [*paths, *(path.rpartition(".")[2] for path in paths)]
        raise UsageError(f"Unknown setting '{name}'{of}.{suggest(name, endings)} `mnemon settings` lists them all.")
    if len({path.partition(".")[0] for path in matches}) == 1:
        # Within a section the outermost is meant: `beta` is the method's own, `replay.beta` that of its replay model.
        outermost = min(path.count(".") for path in matches)
        matches = [path for path in matches if path.count(".") == outermost]
    if len(matches) > 1:
        raise UsageError(f"Setting '{name}' is ambiguous: write {' or '.join(matches)}.")
    return matches[0]


def as_word(name: str, value: Any) -> str:
    """Return `name=value` as `parse_override` takes it."""
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, str) and parse_override(f"name={value}")[1] != value:  # it would be read as a number
        text = json.dumps(value)
    return f"{name}={text}"


def variant_names(config: Any) -> dict[str, Any]:
    """Return the names on which it depends which settings there are, as nested tables."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if dataclasses.is_dataclass(value):
            by = getattr(value, "chosen_by", None)
            inner = {by: getattr(value, by)} if by else {}
            if inner := {**inner, **variant_names(value)}:
                found[f.name] = inner
    return found


def setting_paths(schema: Any, prefix: str = "", table: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return each setting's dotted path with the sentence that explains it.

    Without the table of the settings it is those of all variants.
    """
    hints = _hints(schema)
    found: dict[str, str] = {}
    sentences = explanations(schema)
    for f in dataclasses.fields(schema):
        hint = hints[f.name]
        if hasattr(hint, "chosen_by") and table is None:
            for variant in hint.variants().values():
                found |= setting_paths(variant, f"{prefix}{f.name}.")
        elif dataclasses.is_dataclass(hint):
            inner = None if table is None else _with_variant(schema, f.name, table.get(f.name, {}))
            chosen = hint if inner is None else _variant(hint, inner)[0]
            found |= setting_paths(chosen, f"{prefix}{f.name}.", inner)
        else:
            found[prefix + f.name] = sentences.get(f.name, "")
    return found


@functools.cache
def explanations(schema: Any) -> dict[str, str]:
    """Return the string literals that stand beneath the fields of a dataclass and its bases."""
    found: dict[str, str] = {}
    for cls in reversed(schema.__mro__[:-1]):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except OSError:  # source not at hand, as in some frozen applications
            continue
        body = typing.cast(ast.ClassDef, tree.body[0]).body
        for item, following in itertools.pairwise(body):
            if isinstance(item, ast.AnnAssign) and isinstance(following, ast.Expr):
                found[ast.unparse(item.target)] = str(ast.literal_eval(following.value))
    return found


def merge(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables with some values replaced."""
    found = dict(tables)
    for key, value in changes.items():
        if isinstance(value, Mapping):
            old = found.get(key)
            value = merge(old if isinstance(old, Mapping) else {}, value)
        found[key] = value
    return found


def flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Give every setting of nested tables with its dotted name."""
    for name, value in tables.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def differences(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Name the settings in which two nested tables differ, with both values."""
    found = []
    for key in sorted({*one, *other}):
        a, b = one.get(key), other.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} ({a} and {b})")
    return found


def first_of(differences: Sequence[str]) -> str:
    """Name the first of some differences, and how many more there are."""
    more = len(differences) - MOST_NAMED
    return ", ".join(differences[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
