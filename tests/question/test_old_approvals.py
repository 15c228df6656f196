"""The approval requests of a database from before there were questions wait as questions under the rules that they name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, inspect, text

from graph_agent.clock import ManualClock
from graph_agent.db import Database, UtcDateTime
from graph_agent.models.approval import ApprovalAnswer, ApproverIdentity
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ApprovalRequest, PendingAction
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.question.approvals import ApprovalStore, rules_digest, void_copied
from graph_agent.question.migrations.old_approvals import move_old_approvals
from graph_agent.record.tree.leaves import Sealer
from tests.question.conftest import Store

KEY = b"key"
RULES = RulesDigests(constitution="c", conditions="p", tools={"pay": "t"})


def request_of(number: int, clock: ManualClock, user: str = "ann") -> ApprovalRequest:
    now = clock.now()
    times: dict[str, Any] = {"created_at": now, "expires_at": now + timedelta(hours=1)}
    action = PendingAction(
        id=f"r{number}", tool_name="pay", arguments={"n": number}, description="pay", asked_under=RULES, **times
    )
    return ApprovalRequest(
        action=action,
        roles=("finance",),
        rules=("pay",),
        prompt="p",
        user_id=user,
        conversation_id="c",
        decision_id=f"d{number}",
        origin="",
    )


def create_old_tables(connection: Connection) -> None:
    time = UtcDateTime().load_dialect_impl(connection.dialect).compile(connection.dialect)
    columns = f"""id VARCHAR(255) PRIMARY KEY, user_id VARCHAR(255), conversation_id VARCHAR(255), decision_id VARCHAR(64),
        call_digest VARCHAR(64), request TEXT, state VARCHAR(32), why TEXT, created_at {time}, expires_at {time},
        ended_at {time}, closing_decision VARCHAR(64), mac VARCHAR(64)"""
    given = f"""approval_id VARCHAR(255) REFERENCES approvals (id), approver VARCHAR(255), approve BOOLEAN, role VARCHAR(255),
        reason TEXT, digest VARCHAR(64), identity VARCHAR(32), signature TEXT, answered_at {time}, mac VARCHAR(64)"""
    connection.execute(text(f"CREATE TABLE approvals ({columns})"))
    connection.execute(text(f"CREATE TABLE approval_answers ({given})"))


def insert(connection: Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})"), row)


def put(store: Store, request: ApprovalRequest, state: str = "open", mac: str = "", **more: Any) -> None:
    facts = [request.id, request.user_id, request.conversation_id, request.decision_id, request.call_digest]
    mac = mac or Sealer(KEY).macs("approval request", *facts, text=canonical_json(request.to_json()))[0]
    at = {name: getattr(request.action, name).isoformat(timespec="microseconds") for name in ("created_at", "expires_at")}
    names = ("id", "user_id", "conversation_id", "decision_id", "call_digest")
    row = {**dict(zip(names, facts, strict=True)), "request": canonical_json(request.to_json()), "state": state, "mac": mac}
    store.database.write_now(lambda connection: insert(connection, "approvals", {**row, **at, **more}))


def approve(store: Store, request: ApprovalRequest, mac: str = "") -> None:
    given: Any = {"approver": "bob", "role": "finance", "digest": request.digest, "identity": ApproverIdentity.TOKEN}
    answer = ApprovalAnswer(approve=True, answered_at=request.action.created_at, **given)
    mac = mac or Sealer(KEY).macs("approval answer", request.id, text=canonical_json(answer.to_json()))[0]
    at = request.action.created_at.isoformat(timespec="microseconds")
    row = {**given, "identity": "token", "approve": True, "reason": "", "signature": "", "answered_at": at}
    store.database.write_now(
        lambda connection: insert(connection, "approval_answers", {**row, "approval_id": request.id, "mac": mac})
    )


async def test_what_waited_waits_for_the_same_people_under_the_same_rules(
    migrated_database: Database, clock: ManualClock, open_store: Callable[..., Store]
) -> None:
    store = open_store(key=KEY)
    migrated_database.write_now(create_old_tables)
    requests = [request_of(number, clock) for number in range(5)]
    for number, request in enumerate(requests):
        match number:
            case 1:
                put(store, request, "denied", ended_at=clock.now().isoformat(timespec="microseconds"))
            case 2:
                put(store, request, mac="forged")
            case _:
                put(store, request)
    approve(store, requests[0])
    approve(store, requests[3], mac="forged")
    assert move_old_approvals(migrated_database, KEY) == 4
    assert move_old_approvals(migrated_database, KEY) == 0
    assert not migrated_database.read_now(lambda connection: inspect(connection).has_table("approvals"))
    moved = ApprovalStore(migrated_database, record_key=KEY)
    found = [await moved.find(one.id) for one in requests]
    assert [None if one is None else (one.request, one.state, [each.approver for each in one.answers]) for one in found] == [
        (requests[0], "open", ["bob"]),
        (requests[1], "denied", []),
        None,
        (requests[3], "open", []),
        (requests[4], "open", []),
    ]
    assert store.waiting("eve", "finance") == ["r0", "r3", "r4"]
    lane = rules_digest(RULES, requests[0].evidence)
    assert store.sql("SELECT kind, key, lane FROM due ORDER BY kind, key") == [
        ("decide", "r0", lane),
        *(("end", one, "") for one in ("r0", "r1", "r3", "r4")),
    ]


async def test_what_waits_in_a_copied_database_is_void_there(
    migrated_database: Database, clock: ManualClock, open_store: Callable[..., Store]
) -> None:
    store = open_store(key=KEY)
    requests = ApprovalStore(migrated_database, record_key=KEY)
    migrated_database.write_now(lambda connection: requests.open(connection, request_of(1, clock)))
    store.ask_requester()
    assert void_copied(migrated_database) == 1
    found = await requests.find("r1")
    assert found is not None
    assert (found.state, found.closing_decision, "copied" in found.why) == ("void", None, True)
    assert store.waiting("bob", "finance") == []
