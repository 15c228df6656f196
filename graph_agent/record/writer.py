"""The log database, writing side: `AuditWriter` on SQLAlchemy Core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from graph_agent.record.blobs import TOUCH_EVERY, keep_texts
from graph_agent.record.chain import ChainWriter
from graph_agent.record.projection import call_row, call_rows, invocation_row, invocation_rows, terminal_columns
from graph_agent.record.tables import DecisionLog, LLMCallLog, RecordBlob, RecordEntryRow, ToolInvocationLog, table_of
from graph_agent.clock import SystemClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.insert import insert_new, insert_or_replace
from graph_agent.errors import RecordUnavailableError, TurnTakenOverError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import DecisionRecord, OpenTurn, RecordEntry, RecordHeader, RecordStatus, ToolInvocation
from graph_agent.ports import Clock

T = TypeVar("T")

_decisions = table_of(DecisionLog)
_invocations = table_of(ToolInvocationLog)
_calls = table_of(LLMCallLog)
_entries = table_of(RecordEntryRow)
_blobs = table_of(RecordBlob)

_OPEN = insert(DecisionLog)
_CALL = insert(LLMCallLog)
_ENTRY = insert(RecordEntryRow)
_STORED_CALL = (
    select(_calls.c.response, _calls.c.request_digest)
    .join(_decisions, _decisions.c.decision_id == _calls.c.decision_id)
    .where(
        _calls.c.decision_id == bindparam("decision"),
        _calls.c.sequence == bindparam("place"),
        _decisions.c.status == RecordStatus.PENDING,
    )
)
# Locked against a close at the same time, where the database lets two write at once.
_STILL_OPEN = (
    select(_decisions.c.decision_id)
    .where(_decisions.c.decision_id == bindparam("decision"), _decisions.c.status == RecordStatus.PENDING)
    .with_for_update(read=True)
)
_STORED_DECISION = select(_decisions.c.status, _decisions.c.header, _decisions.c.record).where(
    _decisions.c.decision_id == bindparam("decision")
)
_STORED_ENTRIES = select(_entries.c.entry).where(_entries.c.decision_id == bindparam("decision")).order_by(_entries.c.n)
_CLOSE = update(DecisionLog).where(
    _decisions.c.decision_id == bindparam("decision"), _decisions.c.status == RecordStatus.PENDING
)
_FORGET_ENTRIES = delete(RecordEntryRow).where(_entries.c.decision_id == bindparam("decision"))


class DatabaseAuditWriter:
    """Writes decisions to the log database; every method is one transaction."""

    def __init__(self, database: Database, *, clock: Clock | None = None, chain_key: bytes | None = None) -> None:
        """`chain_key` seals the chain of closed records (`chain.derive_chain_key`); without one it is a plain chain."""
        self._database = database
        self._clock = clock or SystemClock()
        self._chain = ChainWriter(chain_key, clock=self._clock)
        self._touched: dict[str, datetime] = {}

    async def write_decision_log(
        self,
        *,
        decision_id: str,
        conversation_id: str,
        user_id: str,
        message: str,
        intent_type: str = "LLM_PROCESSING",
        decision_type: str = "PENDING",
        outcome_category: str = "PENDING",
        duration_ms: int = 0,
        header: RecordHeader | None = None,
        blobs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        row: dict[str, Any] = {
            "decision_id": decision_id,
            "conversation_id": conversation_id,
            "user_id": user_id,
            "message": message,
            "intent_type": intent_type,
            "decision_type": decision_type,
            "outcome_category": outcome_category,
            "category": outcome_category.partition(":")[0],
            "created_at": header.started_at if header else self._clock.now(),
            "duration_ms": duration_ms,
            "status": RecordStatus.PENDING,
            "model": header.model if header else None,
            "constitution": header.constitution if header else None,
            "header": canonical_json(header.to_json()) if header else None,
        }
        started_at: datetime = row["created_at"]
        stale = {name: text for name, text in blobs.items() if not self._is_fresh(name, started_at)}

        def work(connection: Connection) -> None:
            keep_texts(connection, stale, started_at)
            connection.execute(_OPEN, row)

        await self._write(work, f"decision {decision_id} was opened before")
        self._touched.update(dict.fromkeys(stale, started_at))

    async def write_llm_call_log(
        self,
        *,
        decision_id: str,
        sequence: int,
        response: LLMResponse,
        request_digest: str,
        duration_ms: int,
        entries: Sequence[RecordEntry] = (),
    ) -> LLMResponse:
        row = call_row(decision_id, sequence, response, request_digest, duration_ms)
        rows = _entry_rows(decision_id, entries)

        def work(connection: Connection) -> None:
            _require_open(connection, decision_id)
            connection.execute(_CALL, row)
            if rows:
                connection.execute(_ENTRY, rows)

        try:
            await self._write(work, "")
        except TurnTakenOverError:
            return await self._adopt(decision_id, sequence, request_digest)
        return response

    async def write_tool_invocation_log(
        self,
        *,
        decision_id: str,
        tool_name: str,
        parameters: dict[str, Any],
        result: Any,
        success: bool,
        error_code: str | None = None,
        error_message: str | None = None,
        duration_ms: int = 0,
        sequence: int = 1,
        invoked_at: datetime | None = None,
        entries: Sequence[RecordEntry] = (),
    ) -> None:
        invocation = ToolInvocation(
            sequence=sequence,
            tool_name=tool_name,
            parameters=parameters,
            result=result,
            success=success,
            error_code=error_code,
            error_message=error_message,
            duration_ms=duration_ms,
            invoked_at=invoked_at or self._clock.now(),
        )
        invocations = [invocation_row(decision_id, invocation)]
        rows = _entry_rows(decision_id, entries)

        def work(connection: Connection) -> None:
            _require_open(connection, decision_id)
            if rows:
                connection.execute(_ENTRY, rows)
            insert_new(connection, _invocations, invocations)

        await self._write(work, f"decision {decision_id} went on elsewhere")

    async def write_entries(self, *, decision_id: str, entries: Sequence[RecordEntry]) -> None:
        rows = _entry_rows(decision_id, entries)

        def work(connection: Connection) -> None:
            _require_open(connection, decision_id)
            connection.execute(_ENTRY, rows)

        await self._write(work, f"decision {decision_id} went on elsewhere")

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        decision_id = record.header.decision_id
        text = canonical_json(record.to_json())
        columns = terminal_columns(record)
        invocations = invocation_rows(record)
        calls = call_rows(record)

        def work(connection: Connection) -> str:
            closed = connection.execute(_CLOSE, {"decision": decision_id, **columns, "record": text})
            if closed.rowcount != 1:
                stored = connection.execute(_STORED_DECISION, {"decision": decision_id}).one_or_none()
                if stored is None or stored.record is None:
                    raise TurnTakenOverError(f"decision {decision_id} has no opening row")
                return str(stored.record)
            insert_or_replace(connection, _invocations, invocations)
            insert_or_replace(connection, _calls, calls)
            connection.execute(_FORGET_ENTRIES, {"decision": decision_id})
            self._chain.append(connection, decision_id, text)
            return text

        try:
            stands = await self._write(work, f"decision {decision_id} was closed elsewhere")
        except RecordUnavailableError:
            self._chain.begin_anew()
            raise
        return record if stands is text else DecisionRecord.model_validate_json(stands)

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        def work(connection: Connection) -> tuple[str | None, str | None, list[Any]] | None:
            row = connection.execute(_STORED_DECISION, {"decision": decision_id}).one_or_none()
            if row is None:
                return None
            return row.header, row.record, list(connection.execute(_STORED_ENTRIES, {"decision": decision_id}).scalars())

        found = await self._read(work)
        if found is None:
            return None
        header, record, entries = found
        if record is not None:
            return DecisionRecord.model_validate_json(record)
        if header is None:
            return None
        return OpenTurn(
            header=RecordHeader.model_validate_json(header),
            entries=[RecordEntry.model_validate(entry) for entry in entries],
        )

    async def texts(self, digests: Sequence[str]) -> dict[str, str]:
        wanted = select(_blobs.c.digest, _blobs.c.text).where(_blobs.c.digest.in_(list(digests)))
        return await self._read(lambda connection: {row.digest: row.text for row in connection.execute(wanted)})

    async def open_decisions(self, before: datetime, limit: int = 100) -> list[str]:
        """Decisions that were opened before this time and are still PENDING, oldest first."""
        wanted = (
            select(_decisions.c.decision_id)
            .where(_decisions.c.status == RecordStatus.PENDING, _decisions.c.created_at < before)
            .order_by(_decisions.c.created_at)
            .limit(limit)
        )
        return await self._read(lambda connection: list(connection.execute(wanted).scalars()))

    def _is_fresh(self, name: str, at: datetime) -> bool:
        """Whether this process has stored the text, and marked it as in use recently enough."""
        touched = self._touched.get(name)
        return touched is not None and at - touched < TOUCH_EVERY

    async def _adopt(self, decision_id: str, sequence: int, request_digest: str) -> LLMResponse:
        place = {"decision": decision_id, "place": sequence}
        stored = await self._read(lambda connection: connection.execute(_STORED_CALL, place).one_or_none())
        if stored is None or stored.request_digest != request_digest:
            raise TurnTakenOverError(f"decision {decision_id} went on differently elsewhere")
        return LLMResponse.model_validate(stored.response)

    async def _write(self, work: Callable[[Connection], T], conflict: str) -> T:
        try:
            return await self._database.write(work)
        except IntegrityError as exc:
            raise TurnTakenOverError(conflict) from exc
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the log database did not take the row") from exc

    async def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            return await self._database.read(work)
        except (DatabaseUnavailableError, SQLAlchemyError) as exc:
            raise RecordUnavailableError("the log database does not answer") from exc


def _require_open(connection: Connection, decision_id: str) -> None:
    """A turn that somebody has ended meanwhile may not go on: what it did then would stand in no record."""
    if connection.execute(_STILL_OPEN, {"decision": decision_id}).first() is None:
        raise TurnTakenOverError(f"decision {decision_id} is closed")


def _entry_rows(decision_id: str, entries: Sequence[RecordEntry]) -> list[dict[str, Any]]:
    return [{"decision_id": decision_id, "n": entry.n, "entry": entry.to_json()} for entry in entries]
