"""`graph-agent undo`: a question first, then what the decision has done is undone, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graph_agent.bootstrap.secret import launch_token
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import read_settings
from tests.cli.conftest import Cli


@pytest.fixture(autouse=True)
def constitution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped constitution, with a line that says how an added task is removed."""
    lines = Constitution.load().text.splitlines(keepends=True)
    marker = " (undone by delete_task(task_id = result.task.id) for 30 minutes)\n"
    file = tmp_path / "constitution.md"
    file.write_text("".join(one.rstrip() + marker if one.startswith("- add_task:") else one for one in lines))
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(file))
    return file


def added(cli: Cli) -> str:
    """Add a task; return the decision."""
    return str(cli("ask", "add a task to buy bread", "--json").json()["decision_id"])


def count(cli: Cli) -> int:
    found: int = cli("tools", "call", "list_tasks").json()["data"]["count"]
    return found


def test_without_a_terminal_the_question_is_printed_and_waits(cli: Cli) -> None:
    decision = added(cli)
    asked = cli("undo", decision)
    since = "It is not known whether others have changed this since, which the undo takes away too: "
    question = "Undo: Add task 'buy bread'. Should I go ahead? Please answer yes or no."
    assert (asked.code, asked.out.strip()) == (0, f"{since}add task 'buy bread'. {question}")
    assert "to answer: graph-agent ask -c" in asked.err
    assert count(cli) == 1


def test_a_confirmed_undo_is_done_once_and_its_link_is_printed(cli: Cli, tmp_path: Path) -> None:
    decision = added(cli)
    token = tmp_path / "token"
    token.write_text(launch_token(read_settings()))
    undone = cli("undo", decision, "--yes", "--token-file", str(token))
    assert (undone.code, undone.out.splitlines()[0]) == (0, "Done: Undo: Add task 'buy bread'."), undone.err
    again = cli("undo", decision, "--yes", "--token-file", str(token))
    assert again.code == 1
    assert "has undone it already)." in again.err
    assert "Tool call 1 was undone by decision " in cli("log", "show", decision).out
    assert f"undoes call 1 of decision {decision}." in cli("log", "show", "last").out
    assert count(cli) == 0
    assert cli("log", "verify").code == 0
    assert cli("replay", "--all").code == 0
    proof = tmp_path / "proof"
    proof.mkdir()
    assert cli("log", "export", "--proof", "last", "--out", str(proof)).code == 0
    files = ["verify_proof.py", "decision.json", "decision.tlog-proof", "trusted_keys.txt"]
    checked = subprocess.run([sys.executable, *files], cwd=proof, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("given", ["6f1c2a5e-8f0b-5f0e-9a63-0f5a3f3b8c11", "nothing"])
def test_what_does_not_exist_is_refused_in_one_sentence(cli: Cli, given: str) -> None:
    refused = cli("undo", given)
    assert refused.code in (1, 2)
    assert refused.err.count("\n") == 1, refused.err


def test_a_decision_of_another_user_is_not_found(cli: Cli) -> None:
    refused = cli("undo", added(cli), "--user", "eve")
    assert (refused.code, refused.err) == (1, "graph-agent: There is no such decision, or it is still open.\n")
