"""Queries of the log: one decision, filtered pages, invalid filters, time limits and indexes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import ClauseElement, Connection, Executable, insert, select, text, update
from sqlalchemy.ext.compiler import compiles

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import COUNTED_EXACTLY, LogQueryService
from graph_agent.audit.trace import ROW_COLUMNS, ConstitutionInForce
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory
from graph_agent.models.record import DecisionOpening, RecordStatus
from graph_agent.record.projection import decision_row
from graph_agent.record.statements import read
from graph_agent.record.tables import decision_logs, record_blobs
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import NOON, TEXTS, make_record, store_records

CLARIFICATION: dict[str, Any] = {
    "decision_type": DecisionType.ASK_CLARIFICATION,
    "outcome": OutcomeCategory.MULTIPLE_MATCHES,
    "intent": IntentType.AMBIGUOUS,
}
FAILURE: dict[str, Any] = {
    "decision_type": DecisionType.RESPOND_ONLY,
    "outcome": OutcomeCategory.RESPONSE_GENERATION,
    "intent": IntentType.GENERAL_CHAT,
}


@pytest.fixture
def queries(log: Database) -> LogQueryService:
    """Queries of a log with six decisions, a minute apart."""
    store_records(
        log,
        make_record(1),
        make_record(2, user="bob", conversation="c2"),
        make_record(3, **CLARIFICATION),
        make_record(4, user="bob", conversation="c3", model="embedded", **FAILURE),
        make_record(5, conversation="c4", status=RecordStatus.INTERRUPTED, **FAILURE),
        make_record(6, outcome=OutcomeCategory.TOOL_INVOCATION, constitution="another"),
    )
    return LogQueryService(log)


async def numbers(service: LogQueryService, **given: Any) -> list[int]:
    page = await service.query_decisions(DecisionFilter.of(**given))
    assert page.total == len(page.items)
    return [int(item.decision_id[-4:]) for item in page.items]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, [6, 5, 4, 3, 2, 1]),
        ({"user_id": "bob"}, [4, 2]),
        ({"conversation_id": "c1"}, [6, 3, 1]),
        ({"since": NOON + timedelta(minutes=5)}, [6, 5]),
        ({"until": NOON + timedelta(minutes=2)}, [1]),
        ({"since": NOON + timedelta(minutes=2), "until": NOON + timedelta(minutes=4)}, [3, 2]),
        ({"decision_type": "RESPOND_ONLY"}, [5, 4]),
        ({"outcome": "ERROR:RESPONSE_GENERATION"}, [5, 4]),
        ({"outcome": "ERROR"}, [6, 5, 4]),
        ({"outcome": "ERROR:T"}, [6]),
        ({"outcome": "A"}, [3]),
        ({"intent_type": "AMBIGUOUS"}, [3]),
        ({"status": "interrupted"}, [5]),
        ({"model": "embedded"}, [4]),
        ({"constitution": make_record(6, constitution="another").header.constitution}, [6]),
        ({"user_id": "ann", "outcome": "ERROR"}, [6, 5]),
        ({"user_id": "ann", "outcome": "ERROR", "decision_type": "RESPOND_ONLY", "since": NOON}, [5]),
        ({"decision_type": "INVOKE_TOOL", "outcome": "ERROR"}, [6]),
        ({"intent_type": "GENERAL_CHAT", "outcome": "ERROR", "model": "embedded"}, [4]),
        ({"user_id": "unknown"}, []),
    ],
)
async def test_filters_select_alone_and_combined(queries: LogQueryService, given: dict[str, Any], found: list[int]) -> None:
    assert await numbers(queries, **given) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"outcome": "OOPS"}, "outcome: no outcome"),
        ({"outcome": "success"}, "outcome: "),
        ({"decision_type": "NOPE"}, "decision_type: must be one of RESPOND_ONLY"),
        ({"intent_type": "NOPE"}, "intent_type: must be one of CREATE_TASK"),
        ({"since": NOON, "until": NOON}, "until must be after since"),
        ({"user_id": "a\x00b"}, "user_id: contains a NUL character"),
        ({"since": "yesterday"}, "since: "),
        ({"colour": "red"}, "colour: "),
        ({"constitution": "abc"}, "constitution: "),
    ],
)
def test_an_invalid_filter_is_refused_with_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ServiceError) as refused:
        DecisionFilter.of(**given)
    assert refused.value.code is ServiceErrorCode.VALIDATION_ERROR
    assert refused.value.message.startswith(message)
    assert "\n" not in refused.value.message


async def test_pages_have_no_gap_or_overlap_also_for_equal_times(log: Database) -> None:
    store_records(log, *(make_record(number, at=NOON) for number in range(1, 26)))
    service = LogQueryService(log)
    seen: list[str] = []
    offset = 0
    while True:
        page = await service.query_decisions(limit=10, offset=offset)
        assert (page.total, page.total_is_exact) == (25, True)
        seen += [item.decision_id for item in page.items]
        offset += len(page.items)
        if not page.has_more:
            break
    assert seen == [make_record(number).header.decision_id for number in range(25, 0, -1)]
    beyond = await service.query_decisions(limit=10, offset=100)
    assert (beyond.items, beyond.total, beyond.has_more) == ([], 25, False)


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 1001}, {"offset": -1}, {"offset": 10**12}])
async def test_limit_and_offset_are_bounded(queries: LogQueryService, given: dict[str, Any]) -> None:
    with pytest.raises(ServiceError) as refused:
        await queries.query_decisions(**given)
    assert refused.value.code is ServiceErrorCode.VALIDATION_ERROR


async def test_a_total_is_exact_up_to_ten_thousand_and_then_a_lower_bound(log: Database) -> None:
    row = decision_row(make_record(1).to_json())

    def many(first: int, last: int) -> None:
        rows = [{**row, "decision_id": f"d{number}", "record": None, "header": None} for number in range(first, last)]
        log.write_now(lambda connection: connection.execute(insert(decision_logs), rows).close())

    many(0, COUNTED_EXACTLY)
    service = LogQueryService(log)
    page = await service.query_decisions(DecisionFilter(outcome="SUCCESS", decision_type="INVOKE_TOOL"), limit=10)
    assert (page.total, page.total_is_exact, page.has_more) == (COUNTED_EXACTLY, True, True)
    many(COUNTED_EXACTLY, COUNTED_EXACTLY + 5)
    page = await service.query_decisions(limit=10)
    assert (page.total, page.total_is_exact, page.has_more) == (COUNTED_EXACTLY, False, True)
    end = await service.query_decisions(limit=10, offset=COUNTED_EXACTLY)
    assert (end.total, end.total_is_exact, end.has_more) == (COUNTED_EXACTLY + 5, True, False)


async def test_a_trace_contains_the_row_the_calls_the_record_and_the_policy_in_force(log: Database) -> None:
    before = make_record(1, constitution="the old one")
    store_records(log, before, texts={before.header.constitution: "the old one"})
    record = make_record(2, tokens=7, calls=({}, {"success": False, "error_code": "NOT_FOUND", "error_message": "gone"}))
    store_records(log, record)
    trace = await LogQueryService(log).get_decision_trace(record.header.decision_id)
    assert trace.record == record
    assert trace.header == record.header
    assert trace.tool_invocations == record.invocations
    assert [(call.sequence, call.finish_reason, call.duration_ms) for call in trace.llm_calls] == [(1, "stop", 100)]
    assert trace.decision.usage == record.usage
    assert trace.decision.created_at == record.header.started_at
    assert trace.constitution is not None
    assert (trace.constitution.text, trace.constitution.previous_text) == ("the constitution", "the old one")
    assert trace.constitution.since == record.header.started_at


async def test_a_policy_without_a_time_has_no_previous_one(log: Database) -> None:
    record = make_record(1)
    store_records(log, record)
    await log.write(lambda connection: connection.execute(update(record_blobs).values(first_used_at=None)).close())
    trace = await LogQueryService(log).get_decision_trace(record.header.decision_id)
    assert trace.constitution is not None
    assert trace.constitution == ConstitutionInForce(digest=trace.constitution.digest, text="the constitution")


async def test_an_open_turn_has_a_trace(log: Database) -> None:
    record = make_record(1)
    await DatabaseAuditWriter(log).write_opening(DecisionOpening.of(record.header, TEXTS))
    trace = await LogQueryService(log).get_decision_trace(record.header.decision_id)
    assert (trace.decision.status, trace.decision.decision_type, trace.record) == (RecordStatus.PENDING, "PENDING", None)
    assert trace.header == record.header
    (listed,) = (await LogQueryService(log).query_decisions(DecisionFilter(status=RecordStatus.PENDING))).items
    assert listed == trace.decision


async def test_a_missing_decision_and_one_of_another_user_are_not_found(queries: LogQueryService) -> None:
    mine = make_record(1).header.decision_id
    assert (await queries.get_decision_trace(mine, user_id="ann")).decision.user_id == "ann"
    for decision_id, user_id in (("nothing", None), (mine, "bob")):
        with pytest.raises(ServiceError) as refused:
            await queries.get_decision_trace(decision_id, user_id=user_id)
        assert refused.value.code is ServiceErrorCode.DECISION_NOT_FOUND


async def test_a_query_that_exceeds_its_time_limit_is_cancelled(log: Database) -> None:
    slow = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT max(i) FROM n",
        "postgresql": "SELECT pg_sleep(60)",
    }[log.dialect]
    with pytest.raises(ServiceError) as refused:
        await read(log, lambda connection: connection.execute(text(slow)).scalar(), seconds=0.05)
    assert refused.value.code is ServiceErrorCode.QUERY_TIMEOUT
    assert (await LogQueryService(log).query_decisions()).total == 0


async def test_a_closed_database_is_a_storage_error(log: Database) -> None:
    await log.close()
    with pytest.raises(ServiceError) as refused:
        await LogQueryService(log).query_decisions()
    assert refused.value.code is ServiceErrorCode.STORAGE_ERROR


class Explain(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, statement: Any) -> None:
        self.statement = statement


@compiles(Explain, "sqlite")
def _explain_sqlite(element: Explain, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN QUERY PLAN {compiler.process(element.statement, **options)}"


@compiles(Explain, "postgresql")
def _explain_postgresql(element: Explain, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN {compiler.process(element.statement, **options)}"


@pytest.mark.parametrize(
    ("given", "index"),
    [
        ({}, "ix_decision_logs_created_at"),
        ({"since": NOON}, "ix_decision_logs_created_at"),
        ({"user_id": "ann"}, "ix_decision_logs_user"),
        ({"conversation_id": "c1", "since": NOON}, "ix_decision_logs_conversation"),
        ({"outcome": "REFUSAL:OUT_OF_SCOPE"}, "ix_decision_logs_outcome"),
        ({"outcome": "ERROR"}, "ix_decision_logs_category"),
        ({"decision_type": "INVOKE_TOOL"}, "ix_decision_logs_type"),
        ({"intent_type": "DELETE_TASK"}, "ix_decision_logs_intent"),
        ({"model": "embedded"}, "ix_decision_logs_model"),
        ({"status": "PENDING"}, "ix_decision_logs_open"),
        ({"search": "unknown"}, "search_index VIRTUAL TABLE"),
        ({"user_id": "ann", "search": "unknown"}, "search_index VIRTUAL TABLE"),
        ({"user_id": "ann", "refused": True}, "ix_tool_invocation_logs_refused"),
        ({"user_id": "rare", "outcome": "SUCCESS", "decision_type": "INVOKE_TOOL"}, "ix_decision_logs_user"),
        ({"decision_type": "ASK_CLARIFICATION", "outcome": "SUCCESS"}, "ix_decision_logs_type"),
    ],
)
def test_pages_are_read_through_an_index(log: Database, given: dict[str, Any], index: str) -> None:
    frequent = [make_record(number) for number in range(1, 60)]
    store_records(
        log, *frequent, make_record(60, user="rare"), *(make_record(number, **CLARIFICATION) for number in range(61, 63))
    )
    columns = decision_logs.c

    def plan(connection: Connection) -> str:
        if log.dialect == "postgresql":
            # Not every table: the locks for those of all tests at once do not fit into the server's memory.
            connection.execute(text("ANALYZE decision_logs, tool_invocation_logs"))
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        page = (
            select(*ROW_COLUMNS).where(*DecisionFilter.of(**given).conditions(connection)).order_by(columns.created_at.desc())
        )
        return "\n".join(str(row) for row in connection.execute(Explain(page.limit(101))).all())

    query_plan = log.write_now(plan)
    if log.dialect == "postgresql":
        # The planner of PostgreSQL may choose any of several good indexes, by the statistics of these few rows.
        assert "Index" in query_plan
        assert "Seq Scan" not in query_plan
    else:
        assert index in query_plan
        assert "SCAN decision_logs\n" not in f"{query_plan}\n"
