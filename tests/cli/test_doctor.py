"""`graph-agent doctor`."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Ended


def verdicts(ended: Ended) -> dict[str, str]:
    return {line.split()[0]: line.split()[1] for line in ended.out.splitlines()}


def test_all_is_well_after_the_first_turn(cli: Cli) -> None:
    cli("ask", "hi")

    ended = cli("doctor")

    names = ("settings", "model", "endpoint", "constitution", "database", "log", "stops", "rules", "retention")
    assert verdicts(ended) == dict.fromkeys((*names, "tools", "effects", "approvals", "due", "key"), "ok")
    assert "after a lost answer settled by ledger: add_task, update_task, complete_task, delete_task\n" in ended.out
    assert "embedded: no GEMINI_API_KEY is set" in ended.out
    assert "5 tools, 1 with confirmation" in ended.out
    assert ended.code == 0


def test_a_variable_that_is_no_setting_is_named_and_a_misspelt_one_ends_every_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("doctor").line("settings").split() == ["settings", "ok", "GRAPH_AGENT_HOME"]
    monkeypatch.setenv("GRAPH_AGENT_RULES_OF_CEDAR", "policy.cedar")
    ended = cli("doctor")
    assert (ended.code, verdicts(ended)["settings"], verdicts(ended)["tools"]) == (1, "broken", "ok")
    assert "without effect: GRAPH_AGENT_RULES_OF_CEDAR\n" in ended.out
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONSS", "policy.cedar")
    for command in (["doctor"], ["ask", "hi"], ["log", "list"]):
        refused = cli(*command)
        assert (refused.code, refused.out) == (1, "")
        assert "GRAPH_AGENT_CONDITIONSS is no setting; the nearest one is GRAPH_AGENT_CONDITIONS" in refused.err


def test_every_tool_that_writes_without_confirmation_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "write without confirmation: add_task, update_task, complete_task\n" in cli("doctor").out

    lines = "- add_task: Add (requires confirmation)\n- list_tasks: List tasks\n- delete_task: Delete (requires confirmation)\n"
    (tmp_path / "rules.md").write_text(f"## Available Tools\n{lines}", encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(tmp_path / "rules.md"))
    assert "write without confirmation: none\n" in cli("doctor").out


def test_an_endpoint_that_does_not_answer_is_reported_without_the_key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("GEMINI_API_KEY", "AIzaVerySecret")
        monkeypatch.setenv("GEMINI_BASE_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        monkeypatch.setenv("GRAPH_AGENT_TIMEOUT_SECONDS", "1")
        ended = cli("doctor")

    assert verdicts(ended)["endpoint"] == "broken"
    assert "GEMINI_API_KEY is set" in ended.out
    assert "VerySecret" not in ended.out + ended.err
    assert ended.code == 1


@pytest.mark.parametrize(("days", "hint"), [("30", True), ("182", True), ("183", False), ("400", False)])
def test_less_than_six_months_of_records_are_pointed_out(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, days: str, hint: bool
) -> None:
    monkeypatch.setenv("GRAPH_AGENT_RETENTION_DAYS", days)
    line = cli("doctor").line("retention")
    assert f"decisions are kept for {days} days" in line
    assert ("GRAPH_AGENT_RETENTION_DAYS=183" in line) is hint


def test_a_missing_command_and_file_are_named_and_a_value_is_not(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"command": "no-such-command", "args": ["--token", "hunter2", "server.py"]}
    broken = {"command": sys.executable, "args": [str(tmp_path / "absent.py"), "hunter2"]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"a": missing, "b": broken}}), encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_MCP", str(tmp_path / "servers.json"))

    ended = cli("doctor")

    assert verdicts(ended)["tools"] == "broken"
    assert "there is no such command or folder: no-such-command" in ended.out
    assert str(tmp_path / "absent.py") in ended.out
    assert "hunter2" not in ended.out + ended.err
    assert ended.code == 1


def test_a_key_that_others_can_read_is_broken(cli: Cli, home: Path) -> None:
    cli("ask", "hi")
    (home / "secret").chmod(0o644)

    ended = cli("doctor")

    assert verdicts(ended)["key"] == "broken"
    assert f"chmod 600 {home / 'secret'}" in ended.out
    assert ended.code == 1


def test_a_broken_constitution_and_database_are_reported_together(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.md").write_text("## Available Tools\n- add_task: Add (requires confirmaton)\n", encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(tmp_path / "rules.md"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/log")

    ended = cli("doctor")

    assert {what for what, verdict in verdicts(ended).items() if verdict == "broken"} == {
        "approvals",
        "constitution",
        "database",
        "due",
        "effects",
        "log",
        "rules",
        "stops",
        "tools",
    }
    assert "line 2" in ended.out
    assert "hunter2" not in ended.out + ended.err
    assert ended.code == 1


@pytest.mark.postgresql
def test_the_skew_against_the_clock_of_postgresql_is_shown(
    cli: Cli, fresh_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", fresh_postgresql_url)
    line = cli("doctor").line("database")
    assert re.search(r"; this host's clock is \d+\.\d s (ahead of|behind) the database's$", line)


def test_a_replica_of_the_log_is_queried(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_READ_URL", f"sqlite:///{home / 'graph_agent.db'}")
    assert f"; queries: {home / 'graph_agent.db'}\n" in cli("doctor").out
    monkeypatch.setenv("LOG_READ_URL", "postgresql://me:hunter2@127.0.0.1:1/log")

    ended = cli("doctor")

    assert {what for what, verdict in verdicts(ended).items() if verdict == "broken"} == {"database"}
    assert "the replica of the log (LOG_READ_URL) cannot be queried" in ended.out
    assert "hunter2" not in ended.out + ended.err
    assert ended.code == 1
