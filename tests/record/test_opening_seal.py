"""The seal of opening rows: an open turn that no holder of the key has opened is never closed, and verification reports it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from graph_agent.bootstrap.secret import derive_record_key
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.errors import ServiceError, TurnTakenOverError
from graph_agent.models.record import DecisionOpening, DecisionRecord, OpenTurn, RecordHeader, RecordStatus
from graph_agent.record.tables import decision_logs
from graph_agent.record.tamper.violations import ViolationKind
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.record.trees import verified
from tests.scripted_turns import asks, engine_of

KEY = derive_record_key(b"a secret of sixteen bytes at least")
FORGED_KEY = derive_record_key(b"another secret of sixteen bytes")


def engine_on(log: Database, key: bytes | None = KEY) -> LLMAgentEngine:
    return engine_of(says("hi"), audit=DatabaseAuditWriter(log, record_key=key), clock=ManualClock())


async def opened(engine: LLMAgentEngine, decision_id: str = "open", message: str = "hello") -> RecordHeader:
    """Write an opening row as a process that dies right afterwards."""
    snapshot = await engine.prepare()
    header = engine.header(asks(message), snapshot, decision_id)
    await engine.audit.write_opening(DecisionOpening.of(header, snapshot.texts))
    return header


def write(log: Database, statement: Any) -> None:
    log.write_now(lambda connection: connection.execute(statement).close())


def status(log: Database, decision_id: str = "open") -> RecordStatus:
    wanted = select(decision_logs.c.status).where(decision_logs.c.decision_id == decision_id)
    found: RecordStatus = log.read_now(lambda connection: connection.execute(wanted).scalar_one())
    return found


async def open_decisions(log: Database) -> list[str]:
    pages = DatabaseAuditWriter(log, record_key=KEY).open_decisions(timedelta())
    return [one.decision_id async for page in pages for one in page]


async def test_a_sealed_open_turn_is_closed_and_intact(log: Database) -> None:
    engine = engine_on(log)
    await opened(engine)
    assert (await verified(log, key=KEY)).intact
    assert await open_decisions(log) == ["open"]
    assert await engine.finish("open", ask_model=False) is not None
    assert status(log) is RecordStatus.INTERRUPTED
    assert (await verified(log, key=KEY)).intact


FORGERIES = {
    "without a seal": {"opening_seal": None},
    "with an invalid seal": {"opening_seal": "\N{SNOWMAN}"},
    "of another user": {"user_id": "eve"},
    "with another message": {"message": "delete everything"},
    "with another header": {},
}


@pytest.mark.parametrize("changed", FORGERIES.values(), ids=FORGERIES)
async def test_a_changed_open_turn_is_not_closed_and_is_reported(log: Database, changed: dict[str, Any]) -> None:
    engine = engine_on(log)
    header = await opened(engine)
    text = header.replace(model="another").to_json()
    values = changed or {"header": RecordHeader.model_validate(text).model_dump_json()}
    write(log, update(decision_logs).values(values))

    report = await verified(log, key=KEY)
    assert [(violation.kind, violation.decision_id) for violation in report.violations] == [(ViolationKind.ADDED, "open")]
    assert await open_decisions(log) == []
    for ask_model in (False, True):
        with pytest.raises(ServiceError, match="OUTCOME_UNKNOWN"):
            await engine.finish("open", ask_model=ask_model)
    assert status(log) is RecordStatus.PENDING


async def test_an_open_turn_that_was_written_with_another_key_is_not_closed(log: Database) -> None:
    await opened(engine_on(log, FORGED_KEY))
    assert not (await verified(log, key=KEY)).intact
    stored = await DatabaseAuditWriter(log, record_key=KEY).load("open")
    assert isinstance(stored, OpenTurn)
    assert not stored.sealed


async def test_a_seal_that_was_copied_from_another_turn_is_not_valid(log: Database) -> None:
    await opened(engine_on(log))
    copied = select(decision_logs)
    row = log.read_now(lambda connection: dict(connection.execute(copied).mappings().one()))
    write(log, insert(decision_logs).values({**row, "decision_id": "copy"}))
    (violation,) = (await verified(log, key=KEY)).violations
    assert violation.decision_id == "copy"
    # The copy comes first, and does not hide the turn behind it.
    write(log, update(decision_logs).where(decision_logs.c.decision_id == "copy").values(created_at=ManualClock().now()))
    assert await open_decisions(log) == ["open"]


async def test_the_writer_closes_only_the_turn_whose_header_it_has(log: Database) -> None:
    writer = DatabaseAuditWriter(log, record_key=KEY)
    finished = await engine_of(says("hi")).run(asks())
    record: DecisionRecord = finished.record
    await writer.write_opening(DecisionOpening.of(record.header, {}))
    with pytest.raises(TurnTakenOverError):
        await writer.close_decision_log(record.replace(header=record.header.replace(model="another")))
    assert await writer.close_decision_log(record) == record
