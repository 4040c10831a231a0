"""Packages that only some commands need: which extra of mnemon installs them."""

from __future__ import annotations

import importlib.util

from mnemon.errors import UsageError

EXTRAS = {
    "onnx": {"onnx": "onnx", "onnxscript": "onnxscript", "onnxruntime": "onnxruntime"},
    "report": {"altair": "altair", "vl_convert": "vl-convert-python", "jinja2": "jinja2"},
    "tensorboard": {"tensorboard": "tensorboard"},
    "sweep": {"optuna": "optuna"},
    "postgres": {"sqlalchemy": "sqlalchemy", "alembic": "alembic", "psycopg": "psycopg"},
    "ray": {"ray": "ray", "fsspec": "fsspec"},
}
"""For each extra: the modules that are imported, and the packages that they are in."""


def missing(extra: str, *modules: str) -> list[str]:
    """Return the packages of an extra that are not installed: of these modules, or of all."""
    packages = EXTRAS[extra]
    return [packages[module] for module in modules or packages if importlib.util.find_spec(module) is None]


def require(extra: str, who_needs: str, *modules: str) -> None:
    """Refuse what needs packages that are not installed.

    Args:
        extra: The extra of mnemon that installs them.
        who_needs: The beginning of the message, such as "A report needs".
        *modules: The modules that are needed. Default: all of the extra.

    Raises:
        UsageError: A package is missing.
    """
    if packages := missing(extra, *modules):
        raise UsageError(f"{who_needs} more packages ({', '.join(packages)}): pip install 'mnemon[{extra}]'.")
