"""The record in memory: what an engine without a log database writes to, and what tests read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from graph_agent.errors import RecordUnavailableError, TurnTakenOverError
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import DecisionRecord, OpenTurn, RecordEntry, RecordHeader, ToolInvocation


class MemoryAuditWriter:
    """`AuditWriter` in dictionaries, with the rules of the real one. Setting `available` to False makes every write fail."""

    def __init__(self) -> None:
        self.available = True
        self.open: dict[str, RecordHeader] = {}
        self.entries: dict[str, list[RecordEntry]] = {}
        self.responses: dict[tuple[str, int], tuple[str, LLMResponse]] = {}
        self.invocations: dict[tuple[str, int], ToolInvocation] = {}
        self.records: dict[str, DecisionRecord] = {}
        self.blobs: dict[str, str] = {}

    async def write_decision_log(
        self,
        *,
        decision_id: str,
        conversation_id: str,  # noqa: ARG002 (stands in the header)
        user_id: str,  # noqa: ARG002 (stands in the header)
        message: str,  # noqa: ARG002 (stands in the header)
        intent_type: str = "LLM_PROCESSING",  # noqa: ARG002 (a column of the real one)
        decision_type: str = "PENDING",  # noqa: ARG002 (a column of the real one)
        outcome_category: str = "PENDING",  # noqa: ARG002 (a column of the real one)
        duration_ms: int = 0,  # noqa: ARG002 (a column of the real one)
        header: RecordHeader | None = None,
        blobs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._require_available()
        if decision_id in self.open or decision_id in self.records:
            raise TurnTakenOverError(f"decision {decision_id} was opened before")
        if header is not None:
            self.open[decision_id] = header
        self.blobs.update(blobs)

    async def write_llm_call_log(
        self,
        *,
        decision_id: str,
        sequence: int,
        response: LLMResponse,
        request_digest: str,
        duration_ms: int,  # noqa: ARG002 (a column of the real one)
        entries: Sequence[RecordEntry] = (),
    ) -> LLMResponse:
        self._require_open(decision_id)
        asked, stored = self.responses.setdefault((decision_id, sequence), (request_digest, response))
        if asked != request_digest:
            raise TurnTakenOverError(f"decision {decision_id} went on differently")
        if stored is response:
            self._append(decision_id, entries)
        return stored

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
        self._require_open(decision_id)
        if invoked_at is not None:
            self.invocations[decision_id, sequence] = ToolInvocation(
                sequence=sequence,
                tool_name=tool_name,
                parameters=parameters,
                result=result,
                success=success,
                error_code=error_code,
                error_message=error_message,
                duration_ms=duration_ms,
                invoked_at=invoked_at,
            )
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
            raise TurnTakenOverError(f"decision {decision_id} went on elsewhere")
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
