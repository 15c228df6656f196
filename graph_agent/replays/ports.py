"""The ports of a replay: those that play a record, and those of a what-if replay, the same turn under other conditions.

No tool is ever called.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from graph_agent.clock import SystemClock
from graph_agent.graph.ports import Drawn, WantedRead
from graph_agent.llm.adapter_call import AdapterCall
from graph_agent.models.approval import KnownRequests
from graph_agent.models.canonical import canonical_json, digest
from graph_agent.models.decision import PendingAction
from graph_agent.models.facts import FactRead, Facts
from graph_agent.models.llm import FunctionCall, LLMErrorCause, LLMRequest, LLMResponse
from graph_agent.models.mandate import Covered, Draw, Mandate, PermittedLine, Plan, WantedDraw
from graph_agent.models.prompt import Prompt
from graph_agent.models.record import DecisionRecord, EntryKind, RecordEntry
from graph_agent.models.sources import BatchSources, CallSources, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.argument_parts import ArgumentPart
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import LLMAdapter
from graph_agent.replays.recorded_facts import NoRecordedAnswerError, RecordedFacts
from graph_agent.turn.recorder import Recorder

UNSIGNED = "unsigned"
"""The signature of a confirmation that the recorded turn did not ask for."""


class PlaybackRecorder(Recorder):
    """A recorder that answers from the record alone.

    A model request that differs from the recorded one still gets the recorded answer, so that the replay shows the
    consequences. The entry then contains the digest of the new request, which makes the two records differ. Every other request
    must be the recorded one.
    """

    def __init__(self, record: DecisionRecord, snapshot: PolicySnapshot) -> None:
        super().__init__(record.header, snapshot, clock=SystemClock(), replayed=record.entries)
        self.exchanges: deque[tuple[LLMRequest, LLMResponse]] = deque()
        self.answers: dict[tuple[EntryKind, str], deque[ToolResult]] = defaultdict(deque)
        """The results of tools, by kind of request and by `_call_text`."""
        self.reads: dict[tuple[str, int], deque[FactRead]] = defaultdict(deque)
        """The reads for calls, by `_read_text` and by the number of changes that were sent before."""
        self.declared = None if snapshot.policy.conditions is None else snapshot.policy.conditions.results
        """The facts that the recorded conditions name."""
        self._changes = 0

    async def generate(self, prompt: Prompt) -> LLMResponse:
        self._accept(EntryKind.MODEL, self.request_digests.of(prompt.request))
        response = await super().generate(prompt)
        self.exchanges.append((prompt.request, response))
        return response

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        return self._keep(EntryKind.PREVIEW, tool_name, arguments, await super().preview(tool_name, arguments))

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        read = await super().read_fact(wanted)
        self.reads[_read_text(wanted), self._changes].append(read)
        return read

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        self._changes += call.mutating
        return self._keep(EntryKind.EXECUTE, call.tool_name, call.arguments, await super().execute(call))

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._keep(EntryKind.SETTLE, call.tool_name, call.arguments, await super().settle(call))

    def _accept(self, kind: EntryKind, requested: str) -> None:
        """Let the next entry answer this request, if it is of that kind."""
        entries, position = self.entries, len(self.recorded)
        if position < len(entries) and entries[position].kind is kind and entries[position].request != requested:
            entries[position] = entries[position].replace(request=requested)

    def _keep(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], result: ToolResult) -> ToolResult:
        self.answers[kind, _call_text(tool_name, arguments)].append(result)
        return result


class WhatIfPorts:
    """`TurnPorts` that answer each request that the recorded turn made too, in the order in which it was recorded.

    With `live` the model is really called. A tool never is: a call that is not in the record ends the replay.
    """

    def __init__(
        self,
        record: DecisionRecord,
        snapshot: PolicySnapshot,
        played: PlaybackRecorder,
        live: LLMAdapter | None,
        *,
        mandates: bool = True,
    ) -> None:
        """`snapshot` has the other rules; `played` has replayed the record under its own.

        Without `mandates` none covers a call.
        """
        self._live = live
        self._mandates = mandates
        self._conditions = snapshot.policy.conditions
        self._facts = RecordedFacts(played.declared, snapshot.policy.conditions)
        self._reads = played.reads
        self._changes = 0
        self._exchanges = played.exchanges
        self._answers = played.answers
        self._entries: dict[EntryKind, deque[RecordEntry]] = defaultdict(deque)
        for entry in record.entries:
            self._entries[entry.kind].append(entry)
        self._last_time = record.header.started_at
        self._new_ids = 0
        self.model_calls = 0
        self.unanswered: tuple[str, bool] | None = None
        """The tool of the call that the record has no answer to, and whether it would run."""

    @property
    def interrupted(self) -> bool:
        return False

    @property
    def forbidden(self) -> LLMErrorCause | None:
        return None

    def reach_interruption(self) -> bool:
        return False

    def intend(self, calls: Sequence[AuthorizedCall]) -> None:
        """Do nothing: no call is sent."""

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

    def differing_rules(self, pending: PendingAction) -> list[str]:
        # The question was asked under the recorded rules, and the other ones judge the call.
        return list(self._next(EntryKind.RULES, pending.asked_under.to_json()) or [])

    async def known_requests(self, call: FunctionCall) -> KnownRequests:
        recorded = self._entries[EntryKind.KNOWN_REQUESTS]
        is_same = bool(recorded) and recorded[0].request == digest([call.name, call.arguments])
        return KnownRequests.model_validate(recorded.popleft().result) if is_same else KnownRequests()

    async def consume(self, pending: PendingAction, *, yes: bool | None) -> bool:  # noqa: ARG002 (the answer is recorded)
        return bool(self._next(EntryKind.CONSUME, pending.id))

    async def facts(self, conditions: Conditions) -> Facts:
        recorded = self._next(EntryKind.FACTS, None)
        zone = conditions.file.time_zone
        facts = Facts.at(self._last_time, zone) if recorded is None else Facts.model_validate(recorded)
        facts = facts.replace(last=self._facts.last(facts.last))
        if (missing := conditions.unknown_fact(facts)) is not None:
            raise NoRecordedAnswerError(f"the record does not have what the conditions read in `{missing}`")
        return facts

    async def sources(
        self,
        batch: Sequence[FunctionCall],
        made: Sequence[ReadCall],  # noqa: ARG002 (recorded)
        *,
        needed: bool = True,
    ) -> BatchSources | None:
        recorded = self._next(EntryKind.SOURCES, [[call.name, call.arguments] for call in batch])
        if recorded is None and not needed:
            return None
        if recorded is None:
            raise NoRecordedAnswerError("the record does not have where the arguments of the calls came from")
        sources = BatchSources.model_validate(recorded)
        for call, found in zip(batch, sources.calls, strict=True):
            for part in self._source_parts(call.name):
                if part.argument in found.arguments and part.path not in found.parts:
                    raise NoRecordedAnswerError(f"the record does not have where `context.source.{part.name}` came from")
        return sources

    def _source_parts(self, tool_name: str) -> Sequence[ArgumentPart]:
        """Return the parts of arguments whose sources the other conditions name."""
        action = None if self._conditions is None else self._conditions.gathers.actions.get(tool_name)
        return () if action is None else action.source_parts

    async def reserve(
        self,
        call: AuthorizedCall,
        conditions: Conditions,
        situation: Situation,
        *,
        confirmed: bool,  # noqa: ARG002 (nothing is counted)
    ) -> ConditionsVerdict | None:
        recorded = self._next(EntryKind.RESERVE, [call.tool_name, call.arguments, call.user_id, call.operation_key])
        facts = situation.facts if recorded is None else Facts.model_validate(recorded["facts"])
        return conditions.judge(call.tool_name, call.arguments, replace(situation, facts=facts))

    async def covered(
        self,
        call: FunctionCall,
        sources: CallSources | None,  # noqa: ARG002 (the answer is recorded)
        made: Sequence[ReadCall],  # noqa: ARG002 (as above)
        *,
        exact: bool,  # noqa: ARG002 (as above)
    ) -> Covered | None:
        recorded = self._next(EntryKind.MANDATE, [call.name, call.arguments])
        return None if recorded is None or not self._mandates else Covered.model_validate(recorded)

    async def draw(
        self,
        call: AuthorizedCall,
        wanted: WantedDraw,  # noqa: ARG002 (the draw is recorded)
        ruling: ConditionsVerdict,
        conditions: Conditions | None,
        situation: Situation,
    ) -> Drawn | None:
        recorded = self._next(EntryKind.RESERVE, [call.tool_name, call.arguments, call.user_id, call.operation_key])
        drawn = None if recorded is None else recorded.get("mandate")
        if conditions is not None:
            facts = situation.facts if recorded is None else Facts.model_validate(recorded["facts"])
            ruling = conditions.judge(call.tool_name, call.arguments, replace(situation, facts=facts))
        return Drawn(ruling, None if drawn is None else Draw.model_validate(drawn))

    async def permitted(self, plan: Plan) -> list[PermittedLine]:
        recorded = self._next(EntryKind.PLAN, plan.to_json())
        if recorded is None:
            return [PermittedLine(line) for line in plan.lines]
        return [PermittedLine.model_validate(one) for one in recorded]

    async def mint(self, pending: PendingAction) -> Mandate:
        if (recorded := self._next(EntryKind.MINT, pending.id)) is None:
            raise NoRecordedAnswerError("the record does not have the mandate of the plan that was agreed to")
        return Mandate.model_validate(recorded)

    async def generate(self, prompt: Prompt) -> LLMResponse:
        self.model_calls += 1
        if self._live is not None:
            return await AdapterCall(self._live)(prompt.request)
        if not self._exchanges:
            raise NoRecordedAnswerError(f"model call {self.model_calls} was never made, so its answer is unknown")
        asked, response = self._exchanges.popleft()
        if prompt.request.messages != asked.messages:
            raise NoRecordedAnswerError(
                f"model call {self.model_calls} would see another conversation than the recorded one, so its answer is unknown"
            )
        return response

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        return self._answer(EntryKind.PREVIEW, tool_name, arguments, "would be previewed")

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        call, recorded = wanted.call, self._reads[_read_text(wanted), self._changes]
        # The other rules may keep less of each, so that they need one where the record has several.
        read = None if not recorded else recorded.popleft() if len(recorded) > 1 else recorded[0]
        try:
            return self._facts.read(call.tool_name, read)
        except NoRecordedAnswerError:
            if wanted.decides:
                raise
            # Whether a change can be undone later does not change what is decided about it.
            return FactRead(tool=call.tool_name, arguments=call.arguments, error="it was not read")

    async def claim_undo(self, call: AuthorizedCall, undone: UndoneCall) -> str | None:  # noqa: ARG002 (the interface has it)
        recorded = self._next(EntryKind.UNDO, [call.tool_name, call.arguments, call.user_id, call.operation_key])
        return "" if recorded is None else str(recorded["undone_by"] or "")

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        self._changes += call.mutating
        return self._answer(EntryKind.EXECUTE, call.tool_name, call.arguments, "would be run")

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        return self._answer(EntryKind.SETTLE, call.tool_name, call.arguments, "would be settled")

    def _answer(self, kind: EntryKind, tool_name: str, arguments: dict[str, Any], action: str) -> ToolResult:
        call = _call_text(tool_name, arguments)
        results = self._answers[kind, call]
        if not results:
            self.unanswered = (tool_name, kind is not EntryKind.PREVIEW)
            raise NoRecordedAnswerError(f"{call} {action}, which the record has no answer to")
        return results.popleft()

    def _next(self, kind: EntryKind, request: Any) -> Any:
        """Return the next recorded answer of this kind and remove it, or None if it answers another request."""
        recorded = self._entries[kind]
        requested = None if request is None else digest(request)
        return recorded.popleft().result if recorded and recorded[0].request == requested else None


def _read_text(wanted: WantedRead) -> str:
    """Return a read for a call as canonical text, with what the paths of its facts compare."""
    call = _call_text(wanted.call.tool_name, wanted.call.arguments)
    return f"{call} {canonical_json(dict(wanted.compared))}" if wanted.compared else call


def _call_text(tool_name: str, arguments: dict[str, Any]) -> str:
    """Return a call as canonical text, so that equal calls give equal texts."""
    return canonical_json([tool_name, arguments])
