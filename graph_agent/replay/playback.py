"""The ports of a replay: they answer from the record and keep the full requests, of which the record has only digests."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.models.record import EntryKind
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.turn.recorder import Recorder, request_digest


class PlaybackPorts:
    """`TurnPorts` over a recorder.

    A model request that differs from the recorded one still gets the recorded answer, so that the replay shows the
    consequences. The entry then contains the digest of the new request, which makes the two records differ. Every other request
    must be the recorded one.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.exchanges: list[tuple[LLMRequest, LLMResponse]] = []
        self.answers: dict[tuple[EntryKind, str], list[ToolResult]] = defaultdict(list)
        """The results of tools, by kind of request and by `call_text`."""

    @property
    def interrupted(self) -> bool:
        return self._recorder.interrupted

    async def open(self) -> None:
        await self._recorder.open()

    def now(self) -> datetime:
        return self._recorder.now()

    def new_id(self) -> str:
        return self._recorder.new_id()

    def sign(self, pending: PendingAction) -> str:
        return self._recorder.sign(pending)

    def verify(self, pending: PendingAction) -> bool:
        return self._recorder.verify(pending)

    async def consume(self, pending_id: str) -> bool:
        return await self._recorder.consume(pending_id)

    async def generate(self, request: LLMRequest) -> LLMResponse:
        entries, position = self._recorder.entries, len(self._recorder.recorded)
        requested = request_digest(request, self._recorder.header.version)
        if position < len(entries) and entries[position].kind is EntryKind.MODEL and entries[position].request != requested:
            entries[position] = entries[position].replace(request=requested)
        response = await self._recorder.generate(request)
        self.exchanges.append((request, response))
        return response

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        return self._keep(EntryKind.PREVIEW, tool_name, arguments, await self._recorder.preview(tool_name, arguments))

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return self._keep(EntryKind.EXECUTE, call.tool_name, call.arguments, await self._recorder.execute(call))

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._keep(EntryKind.SETTLE, call.tool_name, call.arguments, await self._recorder.settle(call))

    def _keep(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], result: ToolResult) -> ToolResult:
        self.answers[kind, call_text(tool_name, arguments)].append(result)
        return result


def call_text(tool_name: str, arguments: dict[str, Any]) -> str:
    """Return a call as canonical text, so that equal calls give equal texts."""
    return canonical_json([tool_name, arguments])
