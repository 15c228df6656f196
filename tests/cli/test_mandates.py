"""`graph-agent mandates` shows the plans that people have agreed to, and revokes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from graph_agent.db import Database
from graph_agent.models.mandate import AtMost, Line, Mandate, Plan
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.record.mandates import mint
from graph_agent.record.tree.leaves import Sealer
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
        database.write_now(lambda connection, mandate=mandate: mint(connection, mandate, Sealer(None)))  # type: ignore[misc]
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
