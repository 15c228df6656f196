"""`last` in the place of an id."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def test_every_command_that_takes_the_id_of_a_decision_takes_last(cli: Cli, tmp_path: Path) -> None:
    first = cli("ask", "add a task to call mom", "--json").json()
    newest = cli("ask", "show my tasks", "--json").json()
    assert first["decision_id"] != newest["decision_id"]
    assert cli("log", "show", "last", "--json").json()["header"]["decision_id"] == newest["decision_id"]
    assert newest["decision_id"] in cli("replay", "last", "--json").out
    exported = cli("log", "export", "--id", "last").out
    assert newest["decision_id"] in exported
    assert first["decision_id"] not in exported
    assert cli("log", "export", "--proof", "last", "--out", str(tmp_path / "proof")).code == 0
    assert newest["decision_id"] in (tmp_path / "proof" / "decision.json").read_text(encoding="utf-8")


def test_every_command_that_takes_the_id_of_a_conversation_takes_last(cli: Cli) -> None:
    cli("ask", "add a task to call mom", "--json")
    newest = cli("ask", "add a task to buy milk", "--json").json()["conversation_id"]
    assert cli("ask", "show my tasks", "--conversation", "last", "--json").json()["conversation_id"] == newest
    assert f"conversation: {newest}" in cli("step", "show my tasks", "--conversation", "last").err
    assert f"conversation: {newest}" in cli("chat", "--conversation", "last", stdin=b"hello\n").err
    listed = [json.loads(line) for line in cli("log", "list", "--conversation", "last", "--json").out.splitlines()]
    assert {one["conversation_id"] for one in listed} == {newest}
    assert len(listed) == 4


@pytest.mark.parametrize("command", [("log", "show"), ("replay",), ("log", "export", "--id"), ("log", "export", "--proof")])
def test_an_empty_log_has_no_last_decision(cli: Cli, command: tuple[str, ...]) -> None:
    ended = cli(*command, "last")
    assert ended.code != 0
    assert "The log has no decision yet." in ended.err


def test_a_script_that_has_ended_says_so(cli: Cli, script: Callable[..., str]) -> None:
    ended = cli("ask", "hi", "--model", script({"function_calls": [{"name": "list_tasks"}], "finish_reason": "tool_calls"}))
    assert ended.out == "The script that plays the model here has ended, so nothing answers this.\n"
    assert "the cause: the script that plays the model has ended: add a step for this call to its file" in ended.err
