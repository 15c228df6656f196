"""`graph-agent policy diff` of two folders with servers and lock files: the tools of each are those of its own lock file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool

from graph_agent.tools.pins import Pins
from tests.cli.conftest import Cli
from tests.mcp.conftest import Servers

TOOLS = {
    "notes": [
        Tool(
            name="write",
            description="Writes.",
            input_schema={
                "type": "object",
                "properties": {"text": {"type": "string", "pattern": "^a", "maxLength": 5}, "to": {"default": None}},
                "required": ["text"],
            },
        ),
        Tool(name="find", description="Finds.", input_schema={"type": "object", "properties": {}}),
    ]
}
CONSTITUTION = """You keep notes.

## Available Tools
- write: Write a note (requires confirmation)
- find: Find a note (reads)
"""
UNKNOWN = "it is not known whether anything is newly possible: not compared or not confirmed: "

Folders = tuple[Path, Path]
Edit = Callable[..., None]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Two equal folders: the base of a change, and its head. No server can be started, and no variable of one is set."""
    base, head = tmp_path / "base", tmp_path / "head"
    base.mkdir()
    (base / "constitution.md").write_text(CONSTITUTION, encoding="utf-8")
    entry = {"url": "https://notes.example/${PLACE}", "headers": {"authorization": "Bearer ${NOTES_TOKEN}"}}
    (base / "servers.json").write_text(json.dumps({"mcpServers": {"notes": entry}}), encoding="utf-8")
    Pins.of(TOOLS).save(base / "constitution.lock")
    shutil.copytree(base, head)
    return base, head


def edit_lock(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = folder / "constitution.lock"
    document = json.loads(file.read_text(encoding="utf-8"))
    change(document["servers"]["notes"])
    file.write_text(json.dumps(document), encoding="utf-8")


def edit_servers(folder: Path, **changes: Any) -> None:
    file = folder / "servers.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["mcpServers"]["notes"] |= changes
    file.write_text(json.dumps(document), encoding="utf-8")


def diff(cli: Cli, folders: Folders) -> tuple[int, str, str]:
    found = cli("policy", "diff", *map(str, folders), "--no-new")
    return found.code, found.out, found.err


def test_equal_folders_are_compared_without_their_servers_and_their_secrets(cli: Cli, folders: Folders) -> None:
    assert diff(cli, folders) == (0, "No call is decided otherwise.\n", "")


def test_a_schema_of_the_lock_file_that_accepts_more_is_not_compared_or_newly_possible(cli: Cli, folders: Folders) -> None:
    edit_lock(folders[1], lambda tools: tools["write"]["inputSchema"]["properties"]["text"].pop("pattern"))
    code, out, err = diff(cli, folders)
    assert (code, out) == (2, "not compared: write: its schema may accept more: `pattern` of 'text'\n")
    assert f"{UNKNOWN}write" in err
    edit_lock(folders[1], lambda tools: tools["find"]["inputSchema"]["properties"].update(all={"type": "boolean"}))
    code, out, err = diff(cli, folders)
    assert code == 1
    assert out.splitlines()[1] == "newly possible without a yes: find(all=false)  guard: refused -> runs"
    assert f"{UNKNOWN}write" in err


def test_a_server_that_is_trusted_now_or_is_another_one_is_named(cli: Cli, folders: Folders) -> None:
    edit_servers(folders[1], trusted=True)
    code, out, _ = diff(cli, folders)
    assert (code, out.splitlines()[-1].partition(":")[0]) == (1, "is trusted now")
    edit_servers(folders[1], trusted=False, url="https://other.example/mcp")
    code, out, err = diff(cli, folders)
    assert (code, out) == (2, "not compared: server 'notes': it is another program or address\n")
    assert f"{UNKNOWN}server 'notes'" in err


def test_a_trusted_hint_that_makes_a_change_a_read_is_named(cli: Cli, folders: Folders) -> None:
    text = CONSTITUTION.replace("write: Write a note (requires", "write: Write a note (without")
    for folder in folders:
        (folder / "constitution.md").write_text(text, encoding="utf-8")
        edit_servers(folder, trusted=True)
    edit_lock(folders[1], lambda tools: tools["write"].update(annotations={"readOnlyHint": True}))
    code, out, _ = diff(cli, folders)
    assert (code, out) == (1, "counts as a read now: no receipt, and conditions about changes do not cover it: write\n")


def test_a_lock_file_that_is_gone_is_named(cli: Cli, servers: Servers, constitution: Path, tmp_path: Path) -> None:
    base, head = tmp_path / "base", tmp_path / "head"
    base.mkdir()
    shutil.copy(servers(), base / "servers.json")
    shutil.copy(constitution, base / "constitution.md")
    files = ("--mcp", str(base / "servers.json"), "--constitution", str(base / "constitution.md"))
    shutil.copytree(base, head)
    assert cli("tools", "pin", *files).code == 0
    code, out, err = diff(cli, (base, head))
    assert (code, out) == (2, "not compared: lock file: there is none any more, so tools may change\n")
    assert f"{UNKNOWN}lock file" in err


def test_promises_are_checked_for_the_pinned_tools(cli: Cli, folders: Folders, tmp_path: Path) -> None:
    promises = tmp_path / "promises.cedar"
    promises.write_text(
        '@id("short") forbid (principal, action == Action::"write", resource) when { context.arguments.text == "abcdefg" };',
        encoding="utf-8",
    )
    files = ("--constitution", str(folders[0] / "constitution.md"), "--mcp", str(folders[0] / "servers.json"))
    proved = cli("policy", "prove", str(promises), *files)
    assert (proved.code, proved.out) == (0, "PROVED  short\n")


def test_a_pinned_definition_is_the_one_that_was_listed(tmp_path: Path) -> None:
    Pins.of(TOOLS).save(tmp_path / "pins.lock")
    pins = Pins.load(tmp_path / "pins.lock")
    assert pins is not None
    assert pins.differences(Pins.of(TOOLS)) == []
    assert pins.servers["notes"]["write"] == TOOLS["notes"][0]


def test_settings_and_keys_of_the_folders_are_compared(cli: Cli, folders: Folders) -> None:
    (folders[1] / "settings.env").write_text('export GRAPH_AGENT_ROLES="groups=manager"  # ours\n', encoding="utf-8")
    code, out, err = diff(cli, folders)
    assert (code, out) == (2, "not compared: GRAPH_AGENT_ROLES: others have the roles that conditions name\n")
    assert f"{UNKNOWN}GRAPH_AGENT_ROLES" in err
    (folders[0] / "settings.env").write_text("GRAPH_AGENT_APPROVAL_HOURS=4\nGRAPH_AGENT_JWT_SECRET=\n", encoding="utf-8")
    (folders[1] / "settings.env").write_text("GRAPH_AGENT_APPROVAL_HOURS=48\n", encoding="utf-8")
    assert diff(cli, folders)[:2] == (1, "permits more now: GRAPH_AGENT_APPROVAL_HOURS: an approval may be given later\n")
    (folders[1] / "settings.env").write_text("GRAPH_AGENT_APPROVAL_HOURS=3\n", encoding="utf-8")
    for folder, keys in zip(folders, ("ann ssh-ed25519 A\n", "bob ssh-ed25519 B\n"), strict=True):
        (folder / "allowed_signers").write_text(keys, encoding="utf-8")
    code, out, _ = diff(cli, folders)
    assert (code, out) == (2, "not compared: GRAPH_AGENT_APPROVER_KEYS: the answers of others count as approvals\n")
    (folders[1] / "settings.env").write_text("GRAPH_AGENT_APPROVAL_HOURS\n", encoding="utf-8")
    code, out, err = diff(cli, folders)
    assert (code, out) == (1, "")
    assert "line 1, is not NAME=VALUE" in err
