"""The ports of a what-if replay: the same turn under another constitution, or with a live model. No tool is ever called."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from graph_agent.errors import GraphAgentError, LLMError
from graph_agent.llm.adapter_call import AdapterCall, failed_response
from graph_agent.models.canonical import digest
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.models.record import DecisionRecord, EntryKind, RecordEntry
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.ports import LLMAdapter
from graph_agent.replays.playback import PlaybackRecorder, call_text

UNSIGNED = "unsigned"
"""The signature of a confirmation that the recorded turn did not ask for."""


class NoRecordedAnswerError(GraphAgentError):
    """The turn requests something that the record has no answer to; the message says what."""


class WhatIfPorts:
    """`TurnPorts` that answer each request that the recorded turn made too, in the order in which it was recorded.

    With `live` the model is really called. A tool never is: a call that is not in the record ends the replay.
    """

    def __init__(self, record: DecisionRecord, played: PlaybackRecorder, live: LLMAdapter | None) -> None:
        self._live = live
        self._exchanges = deque(played.exchanges)
        self._answers = {key: deque(results) for key, results in played.answers.items()}
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
        """Do nothing: a what-if replay writes no row."""

    def now(self) -> datetime:
        recorded = self._next(EntryKind.CLOCK, None)
        self._last_time = self._last_time if recorded is None else datetime.fromisoformat(recorded)
        return self._last_time

    def new_id(self) -> str:
        recorded = self._next(EntryKind.ID, None)
        if recorded is None:
            self._new_ids += 1
            return f"what-if-{self._new_ids}"
        return str(recorded)

    def sign(self, pending: PendingAction) -> str:
        return str(self._next(EntryKind.SIGN, pending.to_json()) or UNSIGNED)

    def verify(self, pending: PendingAction) -> bool:
        return bool(self._next(EntryKind.VERIFY, pending.to_json()))

    async def consume(self, pending_id: str) -> bool:
        return bool(self._next(EntryKind.CONSUME, pending_id))

    async def generate(self, request: LLMRequest) -> LLMResponse:
        self.model_calls += 1
        if self._live is not None:
            return await _call_live_model(self._live, request)
        recorded = self._exchanges.popleft() if self._exchanges else None
        if recorded is None:
            raise NoRecordedAnswerError(f"model call {self.model_calls} was never made, so its answer is unknown")
        if request.messages != recorded[0].messages:
            raise NoRecordedAnswerError(
                f"model call {self.model_calls} would see another conversation than the recorded one, so its answer is unknown"
            )
        return recorded[1]

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        return self._answer(EntryKind.PREVIEW, tool_name, arguments, "would be previewed")

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return self._answer(EntryKind.EXECUTE, call.tool_name, call.arguments, "would be run")

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._answer(EntryKind.SETTLE, call.tool_name, call.arguments, "would be settled")

    def _answer(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], action: str) -> ToolResult:
        call = call_text(tool_name, arguments)
        results: Iterable[ToolResult] | None = self._answers.get((kind, call))
        if not results:
            raise NoRecordedAnswerError(f"{call} {action}, which the record has no answer to")
        return self._answers[kind, call].popleft()

    def _next(self, kind: EntryKind, request: Any) -> Any:
        """Return the next recorded answer of this kind and remove it, or None if it answers another request."""
        recorded = self._entries[kind]
        requested = None if request is None else digest(request)
        return recorded.popleft().result if recorded and recorded[0].request == requested else None


async def _call_live_model(adapter: LLMAdapter, request: LLMRequest) -> LLMResponse:
    try:
        return await AdapterCall(adapter)(request)
    except LLMError as exc:
        return failed_response(exc)
