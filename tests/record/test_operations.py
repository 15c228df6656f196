"""The operations of calls, which budgets count, are compared with the record: a change by hand is found."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from graph_agent.audit.retention import KEEP_USES, prune
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.models.record import OperationState
from graph_agent.record.tables import call_operations, decision_logs, reports_table
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.testing import says
from tests.frozen_clock import pass_time
from tests.record.trees import tree_of, verified
from tests.scripted_turns import asks, calls, done, failed
from tests.settling import settle_unknown
from tests.turn.test_budgets import SHORT, refund, service, shop, total, uses

OTHER: dict[str, Any] = {
    "decision_id": "another",
    "sequence": 77,
    "operation_key": "another",
    "user_id": "bob",
    "tool_name": "ship",
    "attempt": 2,
    "state": OperationState.VOID,
    "request": "another",
    "undoes": "another:1",
    "amounts": {"amount": 1},
    "intended_at": datetime(2025, 1, 1, tzinfo=UTC),
    "mac": "0" * 64,
}
"""For each column a value that no row of these tests has."""


async def report(log: Database) -> set[ViolationKind]:
    return {one.kind for one in (await verified(log, key=None)).violations}


async def operations(log: Database) -> list[Row[Any]]:
    query = select(call_operations).order_by(call_operations.c.decision_id, call_operations.c.sequence)
    return await log.read(lambda connection: list(connection.execute(query)))


async def run(log: Database, *statements: Any) -> None:
    await log.write(lambda connection: [connection.execute(statement) for statement in statements].clear())


def of(row: Row[Any]) -> Any:
    return (call_operations.c.decision_id == row.decision_id) & (call_operations.c.sequence == row.sequence)


async def put_back(log: Database, rows: list[Row[Any]]) -> None:
    await run(log, delete(call_operations), *(insert(call_operations).values(**row._mapping) for row in rows))


async def settled_and_unknown(log: Database) -> None:
    """A decision with calls that were done, failed, settled in the turn, settled later, and that are still unknown."""
    lost = failed(ToolErrorCode.TIMEOUT_ERROR)
    outcomes = {"1": done(), "2": failed(ToolErrorCode.NOT_FOUND), "3": lost, "4": lost, "5": lost}
    learned = [done(), lost, lost]
    server = shop(answers={"refund": lambda call: outcomes[call["order"]]}, settlements=learned)
    requested = [refund(10 * number, str(number)) for number in range(1, 6)]
    await service(log, server, calls(*requested), says("Done.")).run(asks())

    class Ledger:
        asked = itertools.count()

        def get_available_tools(self) -> list[str]:
            return server.get_available_tools()

        def traits(self, name: str) -> Any:
            return server.traits(name)

        async def settle(self, *_: Any, **__: Any) -> Any:
            return done() if next(self.asked) == 0 else lost

    await settle_unknown(Ledger(), log, clock=ManualClock())  # type: ignore[arg-type]  # what it uses of a server


async def still_open(log: Database) -> None:
    """A decision whose process died after its first call."""
    script = [calls(refund(10, "1"), refund(20, "2")), says("Done.")]
    crashing = service(log, shop(), *script, config=SHORT, clock=(clock := ManualClock()), crash_after=3)

    async def crash() -> None:
        with suppress(ServiceError):
            await crashing.run(asks(), decision_id="open")

    await pass_time(clock, crash())


async def confirmed(log: Database) -> None:
    """A decision that a user has confirmed, whose operation has the key of the question."""
    rule = "permit (principal, action, resource); forbid (principal, action, resource) when { context.used.day.calls > 0 }"
    run_ = service(log, shop(), calls(refund(50)), says("Done."), rules=f"{rule} unless {{ context.confirmed }};")
    await run_.answer(await run_.run(asks()), yes=True)


PREPARED = pytest.mark.parametrize("prepare", [settled_and_unknown, still_open, confirmed])
SEALED = pytest.mark.parametrize("sealed", [False, True], ids=["waiting", "sealed"])


@PREPARED
@SEALED
async def test_every_changed_column_of_every_operation_is_found(log: Database, prepare: Any, sealed: bool) -> None:
    await prepare(log)
    if sealed:
        await tree_of(log, None).seal()
    rows = await operations(log)
    assert rows
    assert await report(log) == set()
    unnoticed = []
    for row in rows:
        for column in call_operations.columns:
            others = [OTHER[column.name], *([None] if column.nullable else [])]
            if column.name == "state":
                others = list(OperationState)
            for value in others:
                if value != row._mapping[column.name]:
                    with suppress(IntegrityError):
                        await run(log, update(call_operations).where(of(row)).values({column.name: value}))
                    if await report(log) == set():
                        unnoticed.append((row.sequence, column.name, value))
                    await put_back(log, rows)
    assert unnoticed == []
    assert await report(log) == set()


@PREPARED
@SEALED
async def test_every_removed_operation_of_a_closed_decision_is_found_and_every_added_one(
    log: Database, prepare: Any, sealed: bool
) -> None:
    await prepare(log)
    if sealed:
        await tree_of(log, None).seal()
    rows = await operations(log)
    closed = await log.read(
        lambda connection: set(
            connection.execute(select(decision_logs.c.decision_id).where(decision_logs.c.record.is_not(None))).scalars()
        )
    )
    for row in rows:
        await run(log, delete(call_operations).where(of(row)))
        # Only the MAC of the opening row says something about an open decision until it is closed.
        assert await report(log) == ({ViolationKind.PROJECTION} if row.decision_id in closed else set())
        for copy in ({"sequence": 99}, {"decision_id": "another"}, {"user_id": "bob"}):
            await put_back(log, rows)
            if "user_id" in copy:
                await run(log, delete(call_operations).where(of(row)))
            await run(log, insert(call_operations).values({**row._mapping, **copy}))
            assert await report(log) == {ViolationKind.PROJECTION}
        await put_back(log, rows)


async def test_a_removed_operation_of_an_open_decision_is_found_when_it_is_closed(log: Database) -> None:
    await still_open(log)
    await run(log, delete(call_operations))
    assert await report(log) == set()
    await service(log, shop()).finish("open", ask_model=False)
    assert await report(log) == {ViolationKind.PROJECTION}


async def test_an_unknown_outcome_may_become_known_and_only_by_a_settlement(log: Database) -> None:
    await settled_and_unknown(log)
    states = {row.sequence: row.state for row in await operations(log)}
    assert states == {1: "done", 2: "void", 3: "done", 4: "done", 5: "unknown"}
    assert await report(log) == set()
    # The settlement is a row with a leaf of its own: without it the outcome is not known.
    await run(log, delete(reports_table))
    assert await report(log) >= {ViolationKind.PROJECTION}


async def test_a_freed_budget_is_found(log: Database) -> None:
    await confirmed(log)
    assert total(await uses(log)) == 50
    await run(log, update(call_operations).values(amounts=None))
    assert total(await uses(log)) == 0
    assert await report(log) == {ViolationKind.PROJECTION}


@pytest.mark.parametrize("later", [timedelta(days=1), KEEP_USES + timedelta(days=1)])
async def test_a_pruned_log_keeps_the_settlements_and_operations_of_what_it_keeps(log: Database, later: timedelta) -> None:
    await settled_and_unknown(log)
    await confirmed(log)
    await tree_of(log, None).seal()

    def unseal(connection: Connection) -> None:
        """The decisions wait for the tree again, so they stay; their settlements would be old enough."""
        connection.exec_driver_sql("DELETE FROM record_leaves WHERE kind = 'decision'")

    now = datetime(2026, 1, 5, 9, tzinfo=UTC) + later
    leaves = await log.read(lambda connection: connection.exec_driver_sql("SELECT * FROM record_leaves").all())
    await log.write(unseal)
    await prune(log, now, now=now)
    assert len(await log.read(lambda connection: connection.execute(select(reports_table)).all())) == 1
    assert len(await operations(log)) == 6
    kept = [tuple(leaf) for leaf in leaves if leaf.kind == "decision"]
    await log.write(partial(_insert_leaves, rows=kept))
    assert await report(log) == set()
    await prune(log, now, now=now)
    assert await report(log) == set()
    assert await log.read(lambda connection: connection.execute(select(reports_table)).all()) == []
    # The budgets of the day are still known.
    assert len(await operations(log)) == (6 if later < KEEP_USES else 0)


def _insert_leaves(connection: Connection, rows: list[Any]) -> None:
    table = tree_leaves.metadata.tables["record_leaves"]
    connection.execute(insert(table), [dict(zip(("n", "kind", "item"), row, strict=True)) for row in rows])
