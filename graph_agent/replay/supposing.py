"""What if: the same turn under another constitution, or with today's model. Nothing is done: what is recorded is told again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from graph_agent.errors import GraphAgentError, LLMError
from graph_agent.models.canonical import digest
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMErrorCode, LLMRequest, LLMResponse
from graph_agent.models.record import DecisionRecord, EntryKind, RecordEntry
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.ports import LLMAdapter
from graph_agent.replay.watching import WatchedPorts, call_text

UNSIGNED = "unsigned"
"""Stands for the signature of a confirmation that was never asked for."""


class DepartedError(GraphAgentError):
    """The turn asks for something to which the record has no answer; the text says what."""


class SupposedPorts:
    """`TurnPorts` that answer from a turn that was recorded, wherever the same is asked again.

    With `live` the model is asked for real. A tool never is: a call that is not in the record ends the walk.
    """

    def __init__(self, record: DecisionRecord, heard: WatchedPorts, live: LLMAdapter | None) -> None:
        self._record = record
        self._live = live
        self._exchanges = deque(heard.exchanges)
        self._answers = {key: deque(results) for key, results in heard.answers.items()}
        self._entries: dict[EntryKind, deque[RecordEntry]] = defaultdict(deque)
        for entry in record.entries:
            self._entries[entry.kind].append(entry)
        self._last_time = record.header.started_at
        self._new_ids = 0
        self.model_calls = 0

    @property
    def interrupted(self) -> bool:
        return False

    async def open(self) -> None:
        """There is no row to open."""

    def now(self) -> datetime:
        told = self._next(EntryKind.CLOCK, None)
        self._last_time = self._last_time if told is None else datetime.fromisoformat(told)
        return self._last_time

    def new_id(self) -> str:
        told = self._next(EntryKind.ID, None)
        if told is None:
            self._new_ids += 1
            return f"supposed-{self._new_ids}"
        return str(told)

    def sign(self, pending: PendingAction) -> str:
        return str(self._next(EntryKind.SIGN, pending.to_json()) or UNSIGNED)

    def verify(self, pending: PendingAction) -> bool:
        return bool(self._next(EntryKind.VERIFY, pending.to_json()))

    async def consume(self, pending_id: str) -> bool:
        return bool(self._next(EntryKind.CONSUME, pending_id))

    async def generate(self, request: LLMRequest) -> LLMResponse:
        self.model_calls += 1
        if self._live is not None:
            return await _ask(self._live, request)
        recorded = self._exchanges.popleft() if self._exchanges else None
        if recorded is None:
            raise DepartedError(f"model call {self.model_calls} was never made, so nobody knows its answer")
        if request.messages != recorded[0].messages:
            raise DepartedError(
                f"model call {self.model_calls} would be given another conversation than the recorded one, "
                "so nobody knows its answer"
            )
        return recorded[1]

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        return self._answer(EntryKind.PREVIEW, tool_name, arguments, "would be looked up")

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return self._answer(EntryKind.EXECUTE, call.tool_name, call.arguments, "would be run")

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._answer(EntryKind.SETTLE, call.tool_name, call.arguments, "would be settled")

    def _answer(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], what: str) -> ToolResult:
        call = call_text(tool_name, arguments)
        results: Iterable[ToolResult] | None = self._answers.get((kind, call))
        if not results:
            raise DepartedError(f"{call} {what}, which the record has no answer to")
        return self._answers[kind, call].popleft()

    def _next(self, kind: EntryKind, request: Any) -> Any:
        """The next recorded answer of this kind, if it answers this question."""
        waiting = self._entries[kind]
        asked = None if request is None else digest(request)
        return waiting.popleft().result if waiting and waiting[0].request == asked else None


async def _ask(adapter: LLMAdapter, request: LLMRequest) -> LLMResponse:
    try:
        return await adapter.generate(
            request.messages,
            request.tools,
            request.temperature,
            request.max_tokens,
            system_instruction=request.system_instruction,
        )
    except LLMError as exc:
        known = LLMErrorCode(exc.code) if exc.code in LLMErrorCode.__members__ else LLMErrorCode.UNAVAILABLE
        return LLMResponse(finish_reason="error", error=known, retry_after=exc.retry_after)
