"""TOML in and out, on every Python that mnemon supports."""

from __future__ import annotations

import sys

from tomli_w import dumps

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads

__all__ = ["TOMLDecodeError", "dumps", "loads"]
