"""Test cases about the tools of third-party servers play the recorded results; only --real-tools reaches a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Cli
from tests.mcp.conftest import SAID, Servers, call, notes_server
from tests.written_case import written_case

Script = Callable[..., str]
ROOT = Path(__file__).parents[2]
CONFIRMED = "# Notes\n\nYou keep notes.\n\n## Available Tools\n- write_note: Write a note (requires confirmation)\n"


WRITE = call("write_note", name="b", text="milk")


def write_case(tmp_path: Path, **fields: Any) -> str:
    """Write a file with one case, and return its path."""
    case = {"test_id": "write", "input": "note: milk", "expected_tool": "write_note", "script": [WRITE, SAID], **fields}
    file = tmp_path / "cases.yaml"
    file.write_text(json.dumps([case]), encoding="utf-8")
    return str(file)


def written(notes: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in notes.iterdir()}


@pytest.fixture
def untouched(tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a server would create as soon as it is started; the environment names this server."""
    started = tmp_path / "started"
    file = servers(notes={"command": "touch", "args": [str(started)], "timeout": 5})
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(file))
    return started


def test_the_shipped_cases_do_not_reach_the_configured_servers(cli: Cli, untouched: Path) -> None:
    ended = cli("validate", "--only", "create-*")
    assert (ended.code, untouched.exists()) == (0, False), ended.out + ended.err
    assert "are called only with --real-tools" in ended.err


@pytest.mark.parametrize("confirmed", [False, True], ids=["at once", "after a yes"])
def test_a_case_that_was_written_from_a_change_passes_again_without_the_server(
    cli: Cli,
    script: Script,
    servers: Servers,
    constitution: Path,
    notes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    token: tuple[str, str],
    confirmed: bool,
) -> None:
    if confirmed:
        constitution.write_text(CONFIRMED, encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(servers()))
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(constitution))
    model = script(WRITE) if confirmed else script(WRITE, SAID)
    answer = cli("ask", "note: milk", "--json", "--model", model).json()
    if confirmed:
        answer = cli("ask", "yes", "-c", "--json", "--model", model, *token).json()
    assert written(notes) == {"b": "milk"}
    case = tmp_path / "case.yaml"
    case.write_text(written_case(answer["decision_id"]), encoding="utf-8")
    (notes / "b").unlink()
    # The same file of servers, but none of them can be started.
    servers(notes={"command": "/no/such/command"})
    decisions = cli("log", "list", "--json").out

    ended = cli("validate", str(case), "--model", model)
    assert (ended.code, "1 of 1 cases passed" in ended.out) == (0, True), ended.out + ended.err
    assert (written(notes), cli("log", "list", "--json").out) == ({}, decisions)

    # What the server would answer to another call is not known, so it is no success.
    changed = cli("validate", str(case), "--model", script(call("write_note", name="b", text="cream"), SAID))
    assert changed.code == 1
    assert 'the case has no result for write_note {"name":"b","text":"cream"}' in changed.out
    assert written(notes) == {}


def test_a_case_without_its_tools_is_not_played(cli: Cli, untouched: Path, constitution: Path, tmp_path: Path) -> None:
    ended = cli("validate", write_case(tmp_path), "--constitution", str(constitution))
    assert (ended.code, untouched.exists()) == (1, False)
    assert "has them as `tools` and `results`, or runs with --real-tools" in ended.out


def emptying(notes: Path) -> list[str]:
    return [sys.executable, "-c", f"import pathlib; [file.unlink() for file in pathlib.Path({str(notes)!r}).iterdir()]"]


def test_real_tools_are_emptied_before_a_case_and_recorded_like_any_turn(
    cli: Cli, servers: Servers, constitution: Path, notes: Path, tmp_path: Path
) -> None:
    (notes / "left").write_text("over", encoding="utf-8")
    file = servers(notes=notes_server(notes, empty=emptying(notes)))
    command = ["validate", write_case(tmp_path), "--mcp", str(file), "--constitution", str(constitution)]
    ended = cli(*command, "--real-tools")
    assert (ended.code, "1 of 1 cases passed" in ended.out) == (0, True), ended.out + ended.err
    assert written(notes) == {"b": "milk"}
    shown = cli("log", "show", "last", "--json").json()
    assert shown["header"]["context"]["message"] == "note: milk"
    assert [(one["tool_name"], one["disposition"]) for one in shown["invocations"]] == [("write_note", "executed")]
    assert cli("log", "verify").code == 0


def test_a_server_that_cannot_be_emptied_is_read_but_not_changed(
    cli: Cli, servers: Servers, constitution: Path, notes: Path, tmp_path: Path
) -> None:
    (notes / "list").write_text("b", encoding="utf-8")
    case = write_case(tmp_path, script=[call("read_note", name="list"), WRITE, SAID])
    ended = cli("validate", case, "--mcp", str(servers()), "--constitution", str(constitution), "--real-tools")
    assert ended.code == 1
    assert "write_note was not sent: the server 'notes' cannot be emptied" in ended.out
    assert written(notes) == {"list": "b"}
    read, refused = cli("log", "show", "last", "--json").json()["invocations"]
    assert (read["success"], refused["success"], refused["error_code"]) == (True, False, "TOOL_UNAVAILABLE")


@pytest.mark.parametrize(
    ("fields", "empty", "why"),
    [
        ({}, [sys.executable, "-c", "raise SystemExit(3)"], "was not emptied: its command ended with 3"),
        ({}, ["/no/such/command"], "its command cannot be started"),
        ({"tasks": ["call mom"]}, ["true"], "the case names tasks"),
        ({"expected_tasks": []}, ["true"], "the case names tasks"),
        ({"minutes_later": 6}, ["true"], "the case moves the clock"),
    ],
)
def test_a_case_that_real_tools_cannot_play_is_not_played(
    cli: Cli, servers: Servers, constitution: Path, notes: Path, tmp_path: Path, fields: Any, empty: list[str], why: str
) -> None:
    file = servers(notes=notes_server(notes, empty=empty))
    files = ("--mcp", str(file), "--constitution", str(constitution))
    ended = cli("validate", write_case(tmp_path, **fields), *files, "--real-tools")
    assert (ended.code, why in ended.out) == (1, True), ended.out
    assert (written(notes), cli("log", "list").out) == ({}, "")


def test_real_tools_need_servers_and_take_one_case_at_a_time(cli: Cli, servers: Servers) -> None:
    nowhere = cli("validate", "--real-tools")
    assert (nowhere.code, nowhere.err) == (
        1,
        "graph-agent: there are no real tools: name the file of their servers with --mcp or GRAPH_AGENT_MCP\n",
    )
    for more in (["--parallel", "2"], ["--workers", "2"], ["--checkpoint", "parts"]):
        assert cli("validate", "--real-tools", "--mcp", str(servers()), *more).code == 2


def test_a_question_with_a_preview_is_played(
    cli: Cli, script: Script, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: tuple[str, str]
) -> None:
    notebook = {"python": str(ROOT / "examples" / "notes" / "server.py"), "args": [str(tmp_path / "notes.db")]}
    file = servers(notes={**notebook, "trusted": True, "timeout": 60})
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(file))
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(ROOT / "examples" / "notes" / "constitution.md"))
    note = cli("tools", "call", "write_note", '{"text": "buy milk"}').json()["data"]["note_id"]
    asked = script(call("find_notes", words="milk"), call("delete_note", note_id=note))
    cli("ask", "delete it", "--model", asked)
    answer = cli("ask", "yes", "-c", "--json", "--model", asked, *token).json()
    case = tmp_path / "case.yaml"
    case.write_text(written_case(answer["decision_id"]), encoding="utf-8")
    (fixture,) = yaml.safe_load(case.read_text(encoding="utf-8"))
    assert [[(one["tool"], one.get("preview", False)) for one in turn["results"]] for turn in fixture["turns"]] == [
        [("delete_note", True), ("find_notes", False)],
        [("delete_note", True), ("delete_note", False)],
    ]
    (tmp_path / "notes.db").unlink()
    ended = cli("validate", str(case), "--model", asked)
    assert (ended.code, "1 of 1 cases passed" in ended.out) == (0, True), ended.out + ended.err
    assert not (tmp_path / "notes.db").exists()
