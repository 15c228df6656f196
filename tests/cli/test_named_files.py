"""A file that a setting names and that cannot be used stops the start with one sentence, whatever the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graph_agent.agent_service import get_default_config, run_agent
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings
from tests.cli.conftest import Cli

FILES = {
    str(field.alias): name
    for name, field in Settings.model_fields.items()
    if "Path" in str(field.annotation) and name != "home"
}
"""The settings that name a file; GRAPH_AGENT_HOME is a folder, which is made."""
WORDS = {
    "constitution": "the constitution",
    "conditions": "the conditions file",
    "mcp": "the file of MCP servers",
    "approver_keys": "the file of the approvers' keys",
    "page_logo": "the logo of the page",
}
COMMANDS = ("ask hi", "serve --port 0", "gateway", "chat", "step hi", "validate", "tools list", "policy check")
USED_BY = {"GRAPH_AGENT_PAGE_LOGO": ("serve --port 0",), "GRAPH_AGENT_APPROVER_KEYS": COMMANDS[:5]}
"""The commands that use a file, if not all do."""


def missing(folder: Path) -> Path:
    return folder / "missing"


def a_folder(folder: Path) -> Path:
    return folder


def not_utf8(folder: Path) -> Path:
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    return folder / "binary"


def empty(folder: Path) -> Path:
    (folder / "empty").touch()
    return folder / "empty"


@pytest.mark.parametrize(
    ("setting", "command"),
    # Test cases play their tools, and call no server of this file.
    [
        (setting, command)
        for setting in FILES
        for command in USED_BY.get(setting, COMMANDS)
        if (setting, command) != ("GRAPH_AGENT_MCP", "validate")
    ],
)
def test_a_named_file_that_does_not_exist_stops_every_command(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, command: str
) -> None:
    if command == "gateway" and setting != "GRAPH_AGENT_CONSTITUTION":
        monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", "constitution.md")
    monkeypatch.setenv(setting, str(missing(tmp_path)))
    ended = cli(*command.split())
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"graph-agent: {WORDS[FILES[setting]]} {missing(tmp_path)} cannot be read\n"


@pytest.mark.parametrize("setting", FILES)
@pytest.mark.parametrize("made", [a_folder, not_utf8, empty])
def test_a_named_file_that_cannot_be_used_stops_the_start(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, made: Callable[[Path], Path]
) -> None:
    monkeypatch.setenv(setting, str(made(tmp_path)))
    for command in {"ask hi", "serve --port 0"} & {*USED_BY.get(setting, COMMANDS)}:
        ended = cli(*command.split())
        assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1), ended.err


@pytest.mark.parametrize("setting", sorted(FILES.keys() - USED_BY.keys()))
async def test_a_named_file_that_does_not_exist_stops_the_agent_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(tmp_path))
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.setenv(setting, str(missing(tmp_path)))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        await run_agent([{"role": "user", "content": "hi"}], "ann", get_default_config())


def test_a_script_and_a_home_that_cannot_be_read_stop_the_start(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_MODEL", f"scripted:{missing(tmp_path)}")
    assert cli("ask", "hi").err == f"graph-agent: the script {missing(tmp_path)} cannot be read\n"
    monkeypatch.setenv("GRAPH_AGENT_HOME", str(empty(tmp_path)))
    ended = cli("serve", "--port", "0")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
