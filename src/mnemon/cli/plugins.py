"""The option --plugin of commands that meet names: modules of the user, imported before anything is done."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from mnemon import plugins

HELP = (
    "A module with methods, benchmarks or presets of your own, imported first: one that can be imported from the "
    "working folder, or the path of a .py file. As often as you like."
)
Plugins = Annotated[
    tuple[str, ...] | None, Parameter(name="--plugin", consume_multiple=False, negative="", help=HELP)
]


def with_plugins(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that has the option --plugin beside its own."""

    @functools.wraps(command)
    def run(*words: Any, plugin: tuple[str, ...] | None = None, **options: Any) -> Any:
        for word in plugin or ():
            plugins.load(word)
        return command(*words, **options)

    signature = inspect.signature(command)
    option = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    run.__signature__ = signature.replace(parameters=[*own, option])  # type: ignore[attr-defined]
    run.__annotations__ = {**typing.get_type_hints(command, include_extras=True), "plugin": Plugins}
    return run
