"""A folder of notes, its MCP server, and a constitution for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph_agent.testing import calls, says
from tests import fork_server
from tests.cli.conftest import cli, home, script, token  # noqa: F401 (fixtures)

ROOT = Path(__file__).parent.parent.parent
CONSTITUTION = """# Notes

You keep notes.

## Available Tools
- read_note: Read a note (reads)
- write_note: Write a note (without confirmation)
- write_two: Write two notes (without confirmation)
"""

Servers = Callable[..., Path]

SAID = says("Done.").to_json()
"""The step of a script in which the model says that it is done."""


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the step of a script in which the model calls one tool."""
    return calls(tool, **arguments).to_json()


def notes_server(folder: Path, *arguments: str, **keys: Any) -> dict[str, Any]:
    """Return the entry of a notes server on `folder` in a file of servers."""
    # The limit is generous, because a busy machine may need long to start a process.
    return {
        "command": fork_server.python(),
        "args": [str(ROOT / "tests" / "mcp" / "notes_server.py"), str(folder), *arguments],
        "timeout": 60,
        **keys,
    }


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def servers(tmp_path: Path, notes: Path) -> Servers:
    """`servers(name=entry, ...)` writes a file of servers; without entries it lists one notes server."""

    def write(**entries: Any) -> Path:
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({"mcpServers": entries or {"notes": notes_server(notes)}}), encoding="utf-8")
        return file

    return write


@pytest.fixture
def constitution(tmp_path: Path) -> Path:
    file = tmp_path / "constitution.md"
    file.write_text(CONSTITUTION, encoding="utf-8")
    return file
