"""The ports of a replay, which keep the full requests: the record has only their digests."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from graph_agent.clock import SystemClock
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import LLMRequest, LLMResponse
from graph_agent.models.record import RECORD_VERSION, DecisionRecord, EntryKind
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.turn.recorder import Recorder, request_digest


class PlaybackRecorder(Recorder):
    """A recorder that answers from the record alone.

    A model request that differs from the recorded one still gets the recorded answer, so that the replay shows the
    consequences. The entry then contains the digest of the new request, which makes the two records differ. Every other request
    must be the recorded one.
    """

    def __init__(self, record: DecisionRecord, snapshot: PolicySnapshot) -> None:
        super().__init__(record.header, snapshot, clock=SystemClock(), replayed=record.entries)
        self.exchanges: list[tuple[LLMRequest, LLMResponse]] = []
        self.answers: dict[tuple[EntryKind, str], list[ToolResult]] = defaultdict(list)
        """The results of tools, by kind of request and by `call_text`."""

    async def generate(self, request: LLMRequest) -> LLMResponse:
        self._accept(EntryKind.MODEL, request_digest(request, self.header.version))
        response = await super().generate(request)
        self.exchanges.append((request, response))
        return response

    def sign(self, pending: PendingAction) -> str:
        if self.header.version < RECORD_VERSION:
            # Earlier versions worded it in another way: the replay shows how, and continues with the recorded signature.
            self._accept(EntryKind.SIGN, digest(pending.to_json()))
        return super().sign(pending)

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        return self._keep(EntryKind.PREVIEW, tool_name, arguments, await super().preview(tool_name, arguments))

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        return self._keep(EntryKind.EXECUTE, call.tool_name, call.arguments, await super().execute(call))

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._keep(EntryKind.SETTLE, call.tool_name, call.arguments, await super().settle(call))

    def _accept(self, kind: EntryKind, requested: str) -> None:
        """Let the next entry answer this request, if it is of that kind."""
        entries, position = self.entries, len(self.recorded)
        if position < len(entries) and entries[position].kind is kind and entries[position].request != requested:
            entries[position] = entries[position].replace(request=requested)

    def _keep(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], result: ToolResult) -> ToolResult:
        self.answers[kind, call_text(tool_name, arguments)].append(result)
        return result


def call_text(tool_name: str, arguments: dict[str, Any]) -> str:
    """Return a call as canonical text, so that equal calls give equal texts."""
    return canonical_json([tool_name, arguments])
