"""The three analytics tables: their columns, and the log columns that fill them. `docs/analytics.md` documents them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
from sqlalchemy import ColumnElement, Select, select

from graph_agent.models.canonical import canonical_json
from graph_agent.record.tables import CLOSED, decision_logs, llm_call_logs, tool_invocation_logs

_TIME = pa.timestamp("us", tz="UTC")


class Column(NamedTuple):
    """One column: its Parquet type, the log column that it is read from, and what it means."""

    type: pa.DataType
    source: ColumnElement[Any]
    meaning: str
    convert: Callable[[Any], Any] | None = None


class AnalyticsTable(NamedTuple):
    """One table. `columns` maps each name to its definition; all rows belong to the day on which their decision began."""

    name: str
    columns: Mapping[str, Column]

    @property
    def schema(self) -> pa.Schema:
        """The Parquet schema; each field has its meaning as metadata."""
        return pa.schema(
            [pa.field(name, column.type, metadata={"description": column.meaning}) for name, column in self.columns.items()]
        )

    @property
    def key(self) -> list[ColumnElement[Any]]:
        """The log columns that order the rows: time and id of the decision, and the position of the call in it."""
        source = next(iter(self.columns.values())).source
        sequence = [self.columns["sequence"].source] if "sequence" in self.columns else []
        return [decision_logs.c.created_at, source, *sequence]

    def select(self, start: datetime, end: datetime) -> Select[Any]:
        """Return a query for the rows of closed decisions that began from `start` (inclusive) to `end` (exclusive).

        A row has the values of `key` and then those of `columns`.
        """
        _, decision_id, *call = self.key
        rows = select(*self.key, *(column.source.label(f"column_{name}") for name, column in self.columns.items()))
        if call:
            rows = rows.join(decision_logs, decision_logs.c.decision_id == decision_id)
        created_at = decision_logs.c.created_at
        return rows.where(created_at >= start, created_at < end, CLOSED)

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Return rows of `select()` as Arrow columns."""
        values = list(zip(*rows, strict=True))[len(self.key) :]
        arrays = [
            pa.array(
                [item if item is None or column.convert is None else column.convert(item) for item in items], type=column.type
            )
            for column, items in zip(self.columns.values(), values, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


_value = attrgetter("value")

_d, _m, _t = decision_logs.c, llm_call_logs.c, tool_invocation_logs.c

DECISIONS = AnalyticsTable(
    "decisions",
    {
        "decision_id": Column(pa.string(), _d.decision_id, "the decision"),
        "conversation_id": Column(pa.string(), _d.conversation_id, "its conversation"),
        "user_id": Column(pa.string(), _d.user_id, "the user who wrote the message"),
        "message": Column(pa.string(), _d.message, "the user's message"),
        "response_text": Column(pa.string(), _d.response_text, "the reply"),
        "intent_type": Column(pa.string(), _d.intent_type, "the intent; null for tools outside the intent table"),
        "confidence": Column(pa.float64(), _d.confidence, "the confidence that the model declared, from 0 to 1, or null"),
        "decision_type": Column(pa.string(), _d.decision_type, "RESPOND_ONLY, INVOKE_TOOL, ASK_CLARIFICATION and so on"),
        "outcome_category": Column(pa.string(), _d.outcome_category, "the complete outcome, such as SUCCESS:TASK_COMPLETED"),
        "category": Column(pa.string(), _d.category, "the part of the outcome before the colon"),
        "status": Column(pa.string(), _d.status, "completed or interrupted", _value),
        "created_at": Column(_TIME, _d.created_at, "when the turn began; its UTC day is the partition"),
        "ended_at": Column(_TIME, _d.ended_at, "when the turn ended"),
        "duration_ms": Column(pa.int64(), _d.duration_ms, "how long the turn took, in milliseconds"),
        "model": Column(pa.string(), _d.model, "the model that was requested"),
        "response_model": Column(pa.string(), _d.response_model, "the model that answered last"),
        "constitution": Column(pa.string(), _d.constitution, "SHA-256 of the constitution"),
        "iterations": Column(pa.int32(), _d.iterations, "rounds of model calls"),
        "prompt_tokens": Column(pa.int64(), _d.prompt_tokens, "tokens of all requests"),
        "completion_tokens": Column(pa.int64(), _d.completion_tokens, "tokens of all responses"),
        "total_tokens": Column(pa.int64(), _d.total_tokens, "tokens that the provider counted in total"),
        "cached_tokens": Column(pa.int64(), _d.cached_tokens, "tokens of the requests that the provider's cache held"),
    },
)

MODEL_CALLS = AnalyticsTable(
    "model_calls",
    {
        "decision_id": Column(pa.string(), _m.decision_id, "the decision"),
        "sequence": Column(pa.int32(), _m.sequence, "position of the call in the decision"),
        "finish_reason": Column(pa.string(), _m.finish_reason, "why the model stopped"),
        "error": Column(pa.string(), _m.error, "error code, or null"),
        "response_model": Column(pa.string(), _m.response_model, "the model that answered"),
        "prompt_tokens": Column(pa.int64(), _m.prompt_tokens, "tokens of the request"),
        "completion_tokens": Column(pa.int64(), _m.completion_tokens, "tokens of the response"),
        "total_tokens": Column(pa.int64(), _m.total_tokens, "tokens that the provider counted in total"),
        "cached_tokens": Column(pa.int64(), _m.cached_tokens, "tokens of the request that the provider's cache held"),
        "duration_ms": Column(pa.int64(), _m.duration_ms, "how long the call took, in milliseconds"),
        "request_digest": Column(pa.string(), _m.request_digest, "SHA-256 of the request; equal requests have equal digests"),
    },
)

TOOL_CALLS = AnalyticsTable(
    "tool_calls",
    {
        "decision_id": Column(pa.string(), _t.decision_id, "the decision"),
        "sequence": Column(pa.int32(), _t.sequence, "position of the call in the decision"),
        "tool_name": Column(pa.string(), _t.tool_name, "the tool"),
        "parameters": Column(pa.string(), _t.parameters, "its arguments, as JSON", canonical_json),
        "disposition": Column(pa.string(), _t.disposition, "executed, refused, repeated, skipped or awaiting", _value),
        "result": Column(pa.string(), _t.result, "its result, as JSON", canonical_json),
        "success": Column(pa.bool_(), _t.success, "true if the tool reported success"),
        "error_code": Column(pa.string(), _t.error_code, "error code, or null"),
        "error_message": Column(pa.string(), _t.error_message, "error text, or null"),
        "duration_ms": Column(pa.int64(), _t.duration_ms, "how long the call took, in milliseconds"),
        "invoked_at": Column(_TIME, _t.invoked_at, "when the call was sent"),
    },
)

# The decisions come last: a day is complete once its file of decisions exists.
TABLES = (MODEL_CALLS, TOOL_CALLS, DECISIONS)
