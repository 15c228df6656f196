"""The model that answered, from the engine to the log's columns and queries, beside the model that was requested."""

from __future__ import annotations

from sqlalchemy import insert, select, text

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database, migrate
from graph_agent.models.llm import TokenUsage
from graph_agent.models.record import DecisionRecord
from graph_agent.record.projection import decision_row
from graph_agent.record.tables import decision_logs, llm_call_logs
from graph_agent.record.writer import DatabaseAuditWriter
from tests.audit.builders import make_record, store_records
from tests.record.trees import verified
from tests.record.upgrading import upgrade_to
from tests.scripted_turns import asks, calls, engine_of, says

USAGE = TokenUsage(prompt_tokens=10, completion_tokens=1, total_tokens=11, cached_tokens=8)


async def test_a_turn_stores_the_model_that_answered_last_and_the_cached_tokens(log: Database) -> None:
    first = calls(("list_tasks", {})).replace(response_model="gemini-3.5-flash-lite", usage=USAGE)
    last = says("You have none.").replace(response_model="gemini-3.8-flash", usage=USAGE)
    engine = engine_of(first, last, audit=DatabaseAuditWriter(log))
    decision = await engine.process_message(asks("list my tasks"))

    columns = decision_logs.c
    wanted = select(columns.model, columns.response_model, columns.cached_tokens)
    assert [tuple(row) for row in log.read_now(lambda connection: connection.execute(wanted).all())] == [
        ("scripted", "gemini-3.8-flash", 16)
    ]
    sequence = select(llm_call_logs.c.response_model, llm_call_logs.c.cached_tokens).order_by(llm_call_logs.c.sequence)
    assert [tuple(row) for row in log.read_now(lambda connection: connection.execute(sequence).all())] == [
        ("gemini-3.5-flash-lite", 8),
        ("gemini-3.8-flash", 8),
    ]
    queries = LogQueryService(log)
    found = await queries.query_decisions(DecisionFilter(response_model="gemini-3.8-flash"))
    assert [(item.decision_id, item.response_model) for item in found.items] == [(decision.decision_id, "gemini-3.8-flash")]
    assert (await queries.query_decisions(DecisionFilter(response_model="scripted"))).items == []
    metrics = await queries.get_metrics_summary()
    assert (metrics.response_models, metrics.tokens.cached_tokens) == ({"gemini-3.8-flash": 1}, 16)
    assert (await verified(log, key=None)).intact


async def test_a_log_from_before_these_columns_is_migrated_and_still_verified(database: Database) -> None:
    upgrade_to(database, "graph_agent.record", "0003")
    old = make_record(1, tokens=5)
    row = {
        name: value for name, value in decision_row(old.to_json()).items() if name not in ("response_model", "cached_tokens")
    }
    database.write_now(lambda connection: connection.execute(insert(decision_logs), row).close())
    migrate(database, "graph_agent.record")

    store_records(database, make_record(2))
    page = await LogQueryService(database).query_decisions()
    assert [(item.response_model, item.usage) for item in page.items] == [(None, None), (None, old.usage)]
    stored = database.read_now(lambda connection: connection.execute(text("SELECT record FROM decision_logs")).scalars().all())
    assert old in [DecisionRecord.model_validate_json(record) for record in stored]
