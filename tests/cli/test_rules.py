"""`graph-agent rules`, and `@N` in place of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

PERMIT = '@id("base") permit (principal, action, resource);\n'
MILK = '@id("no milk") forbid (principal, action == Action::"add_task", resource)\n'
MILK += 'when { context.arguments.description like "milk*" };\n'


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of conditions of the installation, which forbids milk."""
    file = tmp_path / "policy.cedar"
    file.write_text(PERMIT + MILK, encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(file))
    return file


def test_the_list_says_since_when_rules_were_in_force_and_what_has_changed(
    cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("rules", "list").out == "No rules have been in force yet: the first decision brings them.\n"
    assert cli("rules", "show").err.endswith("no rules have been in force yet; `graph-agent rules list` lists them\n")
    cli("ask", "show my tasks")
    cli("ask", "show my tasks")
    policy.write_text(PERMIT, encoding="utf-8")
    monkeypatch.setenv("GRAPH_AGENT_MAX_ITERATIONS", "3")
    cli("tools", "call", "list_tasks")

    assert "rules         2 (" in cli("log", "show", "last").out
    second, first = cli("rules", "list").out.splitlines()
    assert (first[0], second[0]) == ("1", "2")
    assert second.endswith("conditions, settings, variables  in force")
    assert "in force" not in first
    newest, oldest = (json.loads(line) for line in cli("rules", "list", "--json").out.splitlines())
    assert (newest["number"], newest["in_force"], oldest["changed"]) == (2, True, [])
    assert len(cli("rules", "list", "--last", "1").out.splitlines()) == 1
    parts = cli("rules", "show", "1", "--json").json()["parts"]
    assert parts["conditions"] == PERMIT + MILK
    assert json.loads(parts["settings"])["max_iterations"] == 5
    assert cli("rules", "show", "3").code == 1


def test_the_doctor_says_what_differs_from_the_rules_in_force_and_that_two_processes_alternate(cli: Cli, policy: Path) -> None:
    assert cli("doctor").line("rules").endswith("none yet; the first decision brings them")
    cli("ask", "show my tasks")
    assert cli("doctor").line("rules").endswith("the files here are those")
    policy.write_text(PERMIT, encoding="utf-8")
    assert cli("doctor").line("rules").endswith("the files here differ in conditions")
    cli("ask", "show my tasks")
    policy.write_text(PERMIT + MILK, encoding="utf-8")
    cli("ask", "show my tasks")
    assert "; earlier ones came back 1 time within a day, from " in cli("doctor").line("rules")


def test_stored_rules_stand_for_a_file_in_a_diff_and_in_a_replay(
    cli: Cli, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("ask", "add a task to milk the cow")
    policy.write_text(PERMIT, encoding="utf-8")
    cli("ask", "add a task to milk the cow")
    newly = 'newly possible without a yes: add_task(description="milk")  guard: refused -> runs\n'

    assert cli("policy", "diff", "@1", "@2").out == newly
    assert cli("policy", "diff", "@1", str(policy)).out == newly
    assert cli("policy", "diff", "@2", str(policy)).out == "No call is decided otherwise.\n"
    assert cli("replay", "last").code == 0
    assert cli("replay", "last", "--conditions", "@2").code == 0
    assert cli("replay", "last", "--conditions", "@1").code == 1
    assert cli("replay", "last", "--constitution", "@1").code == 0

    # What stored rules do not have is unset, whatever the variables here say.
    monkeypatch.delenv("GRAPH_AGENT_CONDITIONS")
    cli("ask", "show my tasks")
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(policy))
    assert not cli("rules", "show", "3", "--to", str(tmp_path / "third")).code
    assert [file.name for file in (tmp_path / "third").iterdir()] == ["constitution.md"]
    policy.write_text(PERMIT + MILK, encoding="utf-8")
    assert cli("policy", "diff", str(policy), "@3").out == newly
    refused = cli("replay", "last", "--conditions", "@3")
    assert (refused.code, refused.err) == (1, "graph-agent: these rules have no conditions\n")
    assert cli("policy", "diff", "@1", "@9").err.startswith("graph-agent: there are no rules with the number 9")


def test_a_diff_says_that_servers_of_stored_rules_cannot_be_compared(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "echo.py").write_text('def echo(text: str) -> str:\n    """Echo."""\n    return text\n', encoding="utf-8")
    (tmp_path / "rules.md").write_text("## Available Tools\n- echo: Echo (reads)\n", encoding="utf-8")
    for name, file in {"MCP": "servers.json", "CONSTITUTION": "rules.md"}.items():
        monkeypatch.setenv(f"GRAPH_AGENT_{name}", str(tmp_path / file))
    # Another value of a variable is no other rule, because it may be a secret; another variable is one.
    for variables in ({"TOKEN": "hunter2"}, {"TOKEN": "hunter3"}, {"TOKEN": "hunter3", "MODE": "fast"}):
        entry = {"functions": str(tmp_path / "echo.py"), "env": variables}
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"echo": entry}}), encoding="utf-8")
        assert cli("tools", "call", "echo", '{"text": "hi"}').code == 0
    assert [line[0] for line in cli("rules", "list").out.splitlines()] == ["2", "1"]

    found = cli("policy", "diff", "@1", "@2", "--no-new")
    assert found.out == "not compared: servers: they differ; stored rules have only digests of them\n"
    assert found.code == 2
    shown = cli("rules", "show", "--json").out
    assert '\\"trusted\\":true' in shown
    assert "hunter" not in shown
