"""The model that answered, from the engine to the log's columns and queries, beside the model that was requested."""

from __future__ import annotations

from sqlalchemy import select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database
from graph_agent.models.llm import TokenUsage
from graph_agent.record.tables import decision_logs
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from tests.record.trees import verified
from tests.scripted_turns import asks, calls, engine_of

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
    queries = LogQueryService(log)
    found = await queries.query_decisions(DecisionFilter(response_model="gemini-3.8-flash"))
    assert [(item.decision_id, item.response_model) for item in found.items] == [(decision.decision_id, "gemini-3.8-flash")]
    trace = await queries.get_decision_trace(found.items[0].decision_id)
    assert [one.response_model for one in trace.llm_calls] == ["gemini-3.5-flash-lite", "gemini-3.8-flash"]
    assert (await queries.query_decisions(DecisionFilter(response_model="scripted"))).items == []
    metrics = await queries.get_metrics_summary()
    assert (metrics.response_models, metrics.tokens.cached_tokens) == ({"gemini-3.8-flash": 1}, 16)
    assert (await verified(log, key=None)).intact
