"""`graph-agent mandates` shows the plans that people have agreed to, and revokes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graph_agent.bootstrap.secret import launch_token
from graph_agent.db import Database
from graph_agent.models.mandate import AtMost, Line, Mandate, Plan
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.policy.constitution import Constitution
from graph_agent.record.mandates import mint
from graph_agent.record.tree.leaves import Sealer
from graph_agent.settings import read_settings
from tests.cli.conftest import Cli


def agree(home: Path, *users: str) -> None:
    database, now = Database.open(f"sqlite:///{home / 'graph_agent.db'}"), datetime.now(UTC)
    plan = Plan(lines=(Line(tool="refund", arguments={"amount": AtMost(5)}, times=2),))
    for user in users:
        mandate = Mandate(
            id=f"plan of {user}",
            plan=plan,
            user_id=user,
            conversation_id="c1",
            decision_id="d1",
            asked_under=RulesDigests(constitution="0"),
            created_at=now - timedelta(minutes=1),
            until=now + timedelta(minutes=59),
        )
        database.write_now(lambda connection, mandate=mandate: mint(connection, mandate, database.time(), Sealer(None)))  # type: ignore[misc]
    database.close_now()


def test_a_plan_is_listed_shown_and_revoked(cli: Cli, home: Path) -> None:
    cli("db", "migrate")
    agree(home, "ann", "bob", "cara")
    assert cli("mandates", "list", "--user", "ann").out.startswith("plan of ann: open, until ")
    shown = cli("mandates", "show", "plan of ann").out
    assert '1. refund {"amount": {"at_most": 5}}: 0 of 2' in shown
    assert cli("mandates", "revoke", "plan of ann").out == "revoked plan of ann\n"
    assert json.loads(cli("mandates", "show", "plan of ann", "--json").out)["state"] == "revoked"
    assert cli("mandates", "revoke", "--all", "--user", "bob").out == "revoked 1 mandate\n"
    assert cli("mandates", "revoke", "--all").out == "revoked 1 mandate\n"
    assert {json.loads(one)["state"] for one in cli("mandates", "list", "--json").out.splitlines()} == {"revoked"}


def test_what_is_not_in_force_is_not_revoked(cli: Cli) -> None:
    cli("db", "migrate")
    assert cli("mandates", "list").out == "Nobody has agreed to a plan.\n"
    for arguments in (("show", "m"), ("revoke", "m"), ("revoke",), ("revoke", "m", "--all"), ("revoke", "m", "--user", "ann")):
        found = cli("mandates", *arguments)
        assert found.code != 0
        assert found.err.strip()


@pytest.fixture
def made(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The decision that has added a task, under a constitution whose plans may have additions."""
    file, text = tmp_path / "constitution.md", Constitution.load(None).text
    file.write_text(text.replace('"Add task[ {description}]"', '"Add task[ {description}]" (in plans)'))
    monkeypatch.setenv("GRAPH_AGENT_CONSTITUTION", str(file))
    return str(cli("ask", "add a task to buy bread", "--json").json()["decision_id"])


def test_a_plan_is_made_from_a_decision(cli: Cli, made: str, tmp_path: Path) -> None:
    asked = cli("mandates", "from", made)
    assert (asked.code, asked.out.splitlines()[:2]) == (0, ["Plan, at most:", '1. Add task: description = "buy bread"'])
    assert "to answer: graph-agent ask -c" in asked.err
    assert f"plan for      decision {made}, to do it again" in cli("log", "show", "last").out
    assert cli("replay", "last").code == cli("log", "verify").code == 0

    plan = cli("mandates", "from", made, "--show").json()
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"lines": plan["lines"]}))
    assert "For 5 minutes after your yes." in cli("mandates", "from", made, "--plan", str(file), "--minutes", "5").out
    file.write_text(json.dumps({"lines": [{**plan["lines"][0], "times": 2}]}))
    refused = cli("mandates", "from", made, "--plan", str(file))
    assert (refused.code, "Line 1 permits more than a line of the record" in refused.err) == (2, True)
    file.write_text("{")
    assert "is no plan: " in cli("mandates", "from", made, "--plan", str(file)).err
    refused = cli("mandates", "from", "last")
    assert (refused.code, "has made no change that could be done again" in refused.err) == (1, True)


def test_a_standing_plan_covers_the_runs_of_its_job(
    cli: Cli, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = tmp_path / "policy.cedar"
    conditions.write_text(
        "permit (principal, action, resource);\n"
        '@id("ask") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };\n'
    )
    monkeypatch.setenv("GRAPH_AGENT_CONDITIONS", str(conditions))
    token = tmp_path / "token"
    token.write_text(launch_token(read_settings()))
    asked = cli("mandates", "from", made, "--job", "groceries", "--days", "7")
    assert asked.out.startswith(
        'Standing plan, in each of at most 7 runs of the job "groceries", at most:\n'
        '1. Add task: description = "buy bread"\nFor 7 days'
    )
    asked = cli("mandates", "from", made, "--job", "groceries", "--days", "7", "--runs", "2")
    assert asked.out.startswith('Standing plan, in each of at most 2 runs of the job "groceries", at most:\n'), asked.err
    question = json.loads(cli("questions", "list", "--json").out.splitlines()[0])["id"]
    agreed = cli("questions", "answer", question, "--yes", "--token-file", str(token))
    in_force = 'Your plan is in force for 7 days, in each of at most 2 runs of the job "groceries".'
    assert agreed.out.startswith(in_force), agreed.err
    assert cli("mandates", "list").out.rstrip().endswith("0 of 2 runs, for local, job groceries")

    other = cli("ask", "add a task to buy bread", "--job", "cleaning", "--json").json()
    assert other["decision"]["decision_type"] == "REQUEST_CONFIRMATION"
    for runs in (1, 2):
        assert "✓ Add task 'buy bread' (plan, 1 of 1)" in cli("ask", "add a task to buy bread", "--job", "groceries").out
        listed = cli("mandates", "list").out.rstrip()
        assert listed.endswith(f"{runs} of 2 runs, for local, job groceries")
    assert ": used, until" in listed
    assert 'buy bread"]}}: 2, at most 1 in each run' in cli("mandates", "show", listed.partition(":")[0]).out
    later = cli("ask", "add a task to buy bread", "--job", "groceries")
    assert "Should I go ahead?" in later.out
    assert "groceries" in cli("log", "show", "last").out
    assert cli("questions", "list").out.count("buy bread") == 2
    for wrong in (("--job", "a b"), ("--job", "groceries", "-c"), ("--job", "groceries", "--conversation", "last")):
        assert cli("ask", "add a task to buy bread", *wrong).code == 2
    for wrong_time in (
        ("--days", "7"),
        ("--job", "groceries", "--days", "91"),
        ("--job", "groceries", "--days", "7", "--minutes", "5"),
        ("--runs", "2"),
        ("--job", "groceries", "--runs", "91"),
        ("--job", "groceries", "--days", "7", "--runs", "8"),
    ):
        assert cli("mandates", "from", made, *wrong_time).code == 2
