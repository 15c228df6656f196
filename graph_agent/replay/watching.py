"""A recorder that is watched while it plays: what exactly was asked, of which the record itself holds only digests."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from graph_agent.turn.recorder import Recorder, request_digest
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.models.record import EntryKind
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import AuthorizedCall


class WatchedPorts:
    """`TurnPorts` over a recorder.

    A model request that is not the recorded one is let pass, so that the walk goes on and shows what comes of it: the entry
    then names the digest of what was really asked, which makes the records differ. Everything else must be as recorded.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.exchanges: list[tuple[LLMRequest, LLMResponse]] = []
        self.answers: dict[tuple[EntryKind, str], list[ToolResult]] = defaultdict(list)
        """What tools said, by kind of question and by `call_text`."""

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
        entries, place = self._recorder.entries, len(self._recorder.recorded)
        asked = request_digest(request)
        if place < len(entries) and entries[place].kind is EntryKind.MODEL and entries[place].request != asked:
            entries[place] = entries[place].replace(request=asked)
        response = await self._recorder.generate(request)
        self.exchanges.append((request, response))
        return response

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        result = await self._recorder.preview(tool_name, arguments)
        return self._heard(EntryKind.PREVIEW, tool_name, arguments, result)

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return self._heard(EntryKind.EXECUTE, call.tool_name, call.arguments, await self._recorder.execute(call))

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._heard(EntryKind.SETTLE, call.tool_name, call.arguments, await self._recorder.settle(call))

    def _heard(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], result: ToolResult) -> ToolResult:
        self.answers[kind, call_text(tool_name, arguments)].append(result)
        return result


def call_text(tool_name: str, arguments: dict[str, Any]) -> str:
    """A call as text: equal calls are equal text."""
    return canonical_json([tool_name, arguments])
