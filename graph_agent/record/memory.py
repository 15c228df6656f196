"""The record in memory, for engines without a database and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_agent.errors import RecordUnavailableError, TurnTakenOverError
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import (
    CallOperation,
    DecisionOpening,
    DecisionRecord,
    LLMCall,
    OpenTurn,
    RecordEntry,
    RecordHeader,
    ToolInvocation,
)
from graph_agent.record.audit_writer import AuditWriter


class MemoryAuditWriter(AuditWriter):
    """`AuditWriter` in dictionaries, with the rules of the real one. Setting `available` to False makes every write fail."""

    def __init__(self) -> None:
        self.available = True
        self.open: dict[str, RecordHeader] = {}
        self.entries: dict[str, list[RecordEntry]] = {}
        self.responses: dict[tuple[str, int], tuple[str | None, LLMResponse]] = {}
        self.invocations: dict[tuple[str, int], ToolInvocation] = {}
        self.operations: dict[tuple[str, int], CallOperation] = {}
        self.records: dict[str, DecisionRecord] = {}
        self.blobs: dict[str, str] = {}

    async def write_opening(self, opening: DecisionOpening) -> None:
        self._require_available()
        decision_id = opening.decision_id
        if decision_id in self.open or decision_id in self.records:
            raise TurnTakenOverError(f"decision {decision_id} was opened before")
        if opening.header is not None:
            self.open[decision_id] = opening.header
        self.blobs.update(opening.texts)

    async def write_progress(self, decision_id: str, *, operation: CallOperation | None = None, **progress: Any) -> bool:
        self._require_open(decision_id)
        await super().write_progress(decision_id, **progress)
        if operation is None:
            return True
        key = decision_id, operation.sequence
        free = key not in self.operations
        self.operations.setdefault(key, operation)
        return free

    async def write_llm_call(self, decision_id: str, call: LLMCall, entries: Sequence[RecordEntry] = ()) -> None:
        self._require_open(decision_id)
        self._append(decision_id, entries)
        self.responses[decision_id, call.sequence] = call.request_digest, call.response

    async def write_tool_invocation(
        self, decision_id: str, invocation: ToolInvocation, entries: Sequence[RecordEntry] = ()
    ) -> None:
        self._require_open(decision_id)
        self.invocations[decision_id, invocation.sequence] = invocation
        self._append(decision_id, entries)

    async def write_entries(self, *, decision_id: str, entries: Sequence[RecordEntry]) -> None:
        self._require_open(decision_id)
        self._append(decision_id, entries)

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        self._require_available()
        decision_id = record.header.decision_id
        self.open.pop(decision_id, None)
        self.entries.pop(decision_id, None)
        return self.records.setdefault(decision_id, record)

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        self._require_available()
        if decision_id in self.records:
            return self.records[decision_id]
        header = self.open.get(decision_id)
        return None if header is None else OpenTurn(header=header, entries=self.entries.get(decision_id, []))

    async def texts(self, digests: Sequence[str]) -> dict[str, str]:
        self._require_available()
        return {name: self.blobs[name] for name in digests if name in self.blobs}

    def _append(self, decision_id: str, entries: Sequence[RecordEntry]) -> None:
        stored = self.entries.setdefault(decision_id, [])
        if entries and entries[0].n < len(stored):
            raise TurnTakenOverError(f"decision {decision_id} was continued by another process")
        stored.extend(entries)

    def _require_open(self, decision_id: str) -> None:
        self._require_available()
        if decision_id in self.records:
            raise TurnTakenOverError(f"decision {decision_id} is closed")

    def _require_available(self) -> None:
        if not self.available:
            raise RecordUnavailableError("the log is not available")


class MemoryConfirmations:
    """`Confirmations` for one process."""

    def __init__(self) -> None:
        self._used: dict[str, str] = {}

    async def consume(self, pending_id: str, decision_id: str) -> bool:
        return self._used.setdefault(pending_id, decision_id) == decision_id
