"""`graph-agent policy trial` and `policy suggest` on a log, on both databases."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from graph_agent.db import Database
from graph_agent.record.tables import decision_logs
from tests.cli.conftest import Cli

RULES = """permit (principal, action, resource);
@shadow @id("no milk") forbid (principal, action == Action::"add_task", resource)
when { context.arguments.description like "*milk*" };
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.cedar"
    file.write_text(RULES, encoding="utf-8")
    return file


@pytest.fixture
def log(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


def rows_of(url: str) -> list[dict[str, Any]]:
    database = Database.open(url)
    rows = database.read_now(lambda connection: connection.execute(select(decision_logs)).all())
    database.close_now()
    return [dict(row._mapping) for row in rows]


def write(url: str, statement: Any, *rows: Any) -> None:
    database = Database.open(url)
    database.write_now(lambda connection: connection.execute(statement, *rows).close())
    database.close_now()


def test_a_verdict_that_was_changed_in_the_record_is_named_with_its_decision(cli: Cli, log: str, policy: Path) -> None:
    for thing in ("milk", "bread"):
        cli("ask", f"add a task to buy {thing}", "--conditions", str(policy))
    assert cli("policy", "trial", "--conditions", str(policy)).code == 0
    (row,) = (one for one in rows_of(log) if "milk" in one["message"])
    record = json.loads(row["record"])
    del record["invocations"][0]["shadow"]
    of_row = decision_logs.c.decision_id == row["decision_id"]
    write(log, update(decision_logs).where(of_row).values(record=json.dumps(record)))
    trial = cli("policy", "trial", "--conditions", str(policy))
    assert trial.code == 1
    why = 'a replay finds other verdicts: recorded [], replayed [[1,"no milk","refused"]]'
    assert trial.err == f"graph-agent: {row['decision_id']}: {why}\n"
    (differing,) = json.loads(cli("policy", "trial", "--conditions", str(policy), "--json").out)["differing"]
    assert differing["decision_id"] == row["decision_id"]


@pytest.mark.usefixtures("log")
def test_a_rule_that_has_changed_under_its_name_is_found_and_a_new_one_is_no_difference(cli: Cli, policy: Path) -> None:
    for thing in ("milk", "bread"):
        cli("ask", f"add a task to buy {thing}", "--conditions", str(policy))
    asks = '@shadow @id("new") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };\n'
    policy.write_text(RULES + asks, encoding="utf-8")
    tried = cli("policy", "trial", "--conditions", str(policy))
    assert tried.code == 0
    assert "new: was judged in none of these decisions" in tried.out
    assert "no milk: would have refused 1 call and asked about 0, in 1 of 2 decisions" in tried.out
    policy.write_text(RULES.replace("*milk*", "*bread*"), encoding="utf-8")
    trial = cli("policy", "trial", "--conditions", str(policy))
    assert trial.code == 1
    assert len(trial.err.splitlines()) == 2
    assert 'recorded [[1,"no milk","refused"]], replayed []' in trial.err
    assert 'recorded [], replayed [[1,"no milk","refused"]]' in trial.err


def test_suggest_reads_a_log_and_shows_the_border_of_each_rule_with_the_extra(
    cli: Cli, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("ask", "add a task to buy milk")
    (row,) = rows_of(log)
    record, rows = json.loads(row.pop("record")), []
    for number in range(60):
        at = datetime.fromisoformat("2026-09-07T08:00:00+00:00") + timedelta(days=number % 9, hours=number % 7)
        header, (call,) = record["header"], record["invocations"]
        context = {**header["context"], "user_id": f"u{number % 6}", "conversation_id": f"c{number}"}
        name, moment = f"d{number:05}" if number else row["decision_id"], at.isoformat().replace("+00:00", "Z")
        header = {**header, "decision_id": name, "started_at": moment, "context": context}
        copied = {**record, "header": header, "invocations": [{**call, "invoked_at": moment}]}
        rows.append({**row, "decision_id": name, "created_at": at, "record": json.dumps(copied)})
    # The call itself was not made in the hour of this test either.
    write(log, update(decision_logs).where(decision_logs.c.decision_id == row["decision_id"]).values(**rows.pop(0)))
    write(log, insert(decision_logs), rows)
    suggested = cli("policy", "suggest", "--shadow")
    assert suggested.code == 0
    assert '@shadow @id("add_task: from 8 to 15 o\'clock")' in suggested.out
    assert "add_task: from 8 to 15 o'clock: still runs: add_task(" in suggested.err
    assert "hour=14" in suggested.err
    assert suggested.out == cli("policy", "suggest", "--shadow").out
    # Where the extra is not installed.
    monkeypatch.setattr("graph_agent.cli.suggestions.find_spec", lambda _: None)
    without = cli("policy", "suggest", "--shadow")
    assert without.out == suggested.out
    assert without.err.count("What the rules still permit is not shown: install the extra 'prove'") == 1
    assert "still runs" not in without.err
