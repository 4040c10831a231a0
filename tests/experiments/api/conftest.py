"""Experiments from Python are run in an empty folder."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MNEMON_DATA", raising=False)
