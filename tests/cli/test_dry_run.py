"""`ask --dry-run`: the calls are judged and nothing is changed."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(cli: Cli) -> None:
    cli("ask", "add a task to call mom")
    tried = cli("ask", "add a task to buy bread", "--dry-run")
    assert tried.code == 0
    assert "Not done: add task 'buy bread'. This is a dry run: it would be done." in tried.out
    asked = cli("ask", "delete the mom task", "--dry-run")
    assert "This is a dry run: you would be asked first." in asked.out
    assert "Should I go ahead" not in asked.out
    assert "this is a dry run: you would be asked first; nothing was sent" in cli("log", "show", "last").out
    tasks = cli("tools", "call", "list_tasks").json()["data"]
    assert [one["description"] for one in tasks["tasks"]] == ["call mom"]
    assert cli("replay", "--all").out.endswith("identical\n")
    assert cli("replay", "--all").code == 0


def test_a_dry_run_follows_the_rules(cli: Cli, tmp_path: Path) -> None:
    policy = tmp_path / "policy.cedar"
    policy.write_text(
        'permit (principal, action, resource);\n@id("adding needs a yes")\n'
        'forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };',
        encoding="utf-8",
    )
    tried = cli("ask", "add a task to buy bread", "--dry-run", "--conditions", str(policy))
    assert "This is a dry run: you would be asked first (adding needs a yes)." in tried.out


def test_a_dry_run_leaves_the_open_question_alone(cli: Cli, token: tuple[str, str]) -> None:
    cli("ask", "add a task to call mom")
    question = cli("ask", "delete the mom task", "--json").json()
    conversation = question["conversation_id"]
    cli("ask", "add a task to buy bread", "--dry-run", "--conversation", conversation)
    done = cli("questions", "answer", "--yes", question["decision"]["pending_action"]["id"], *token)
    assert "Done: Delete task 'call mom'." in done.out
    assert cli("ask", "yes", "--dry-run", "-c").code == 2
