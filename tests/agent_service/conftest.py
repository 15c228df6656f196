"""A separate GRAPH_AGENT_HOME for each test, with databases that are migrated once and copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.variables import unset_variables


@pytest.fixture(autouse=True)
def home(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The GRAPH_AGENT_HOME of the test; no other variable of the program is set."""
    unset_variables(monkeypatch)
    folder = tmp_path / "home"
    shutil.copytree(template, folder)
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(folder))
    return folder
