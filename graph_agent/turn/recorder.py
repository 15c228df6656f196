"""The recorder of a turn: every request of a node to a port passes through it and becomes an entry.

An entry contains the kind of the request, its digest, and the answer. An entry that exists already is replayed: the port is not
asked again. This one rule gives three modes:

    record   no entries exist; the ports are asked
    resume   the entries that a dead process left are replayed, then the ports are asked
    replay   all entries are replayed, and there are no ports

An INTERRUPT entry means that the turn was ended early: after it no new call is started, and the nodes continue along their
ordinary path to a decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from graph_agent.errors import RecordMismatchError, ToolErrorCode, TurnTakenOverError
from graph_agent.graph.build import CompiledGraph
from graph_agent.graph.ports import Drawn, WantedRead
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.step import Step
from graph_agent.graph.stepping import walk, walk_edges
from graph_agent.models.approval import KnownRequests
from graph_agent.models.canonical import canonical_json, digest, same_call_digest
from graph_agent.models.decision import PendingAction
from graph_agent.models.facts import FactRead, Facts, PastUse, PastUses, total_of, uses_by_window, window_start
from graph_agent.models.llm import FunctionCall, LLMErrorCause, LLMErrorCode, LLMMessage, LLMRequest, LLMResponse
from graph_agent.models.mandate import Covered, Draw, Mandate, PermittedLine, Plan, WantedDraw
from graph_agent.models.origin import Origin
from graph_agent.models.prompt import Prompt
from graph_agent.models.record import (
    CallOperation,
    EntryKind,
    InterruptReason,
    RecordEntry,
    RecordHeader,
    Reservation,
    ToolInvocation,
)
from graph_agent.models.sources import BatchSources, CallSources, EarlierCalls, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.models.undo import UndoneCall
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, NeededApproval, Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.mandate import Conversation, fitting_lines
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.sources import SourceFinder, changed_definitions
from graph_agent.ports import Clock, ConfirmationUse
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.reply.forms import ALL_FORMS
from graph_agent.turn.external import NOT_SENT, NOT_STARTED, OUTCOME_UNKNOWN, REPLACED, STOPPED, ExternalPorts
from graph_agent.turn.gathered_facts import gather_facts
from graph_agent.turn.hooks import HookedModelCall, HookedToolCall, HookList, ToolCallMode

T = TypeVar("T")

_NOT_AFTER_INTERRUPT = frozenset(
    {
        EntryKind.MODEL,
        EntryKind.PREVIEW,
        EntryKind.READ,
        EntryKind.KNOWN_REQUESTS,
        EntryKind.MANDATE,
        EntryKind.RESERVE,
        EntryKind.UNDO,
        EntryKind.EXECUTE,
    }
)
"""Calls that an interrupted turn no longer starts: they get no entry, neither when recording nor when replaying."""

_TOOL_CALL_MODES: dict[EntryKind, ToolCallMode] = {
    EntryKind.EXECUTE: "run",
    EntryKind.SETTLE: "settle",
    EntryKind.PREVIEW: "preview",
    EntryKind.READ: "read",
}

_FORBIDDEN: Mapping[str | None, LLMErrorCause] = {
    InterruptReason.STOPPED: LLMErrorCause.STOPPED,
    InterruptReason.RULES: LLMErrorCause.RULES_REPLACED,
}
"""Interruptions by an operator -> the cause that the reply names."""
_WHY_FORBIDDEN = {LLMErrorCause.STOPPED: STOPPED, LLMErrorCause.RULES_REPLACED: REPLACED}
"""The reason of each call that was not sent."""

_ANY_CALL = ("any", "")
"""The lost call, in `_lost_call`, of a turn whose process died: it can be any call, since the one in flight is not known."""


class ResentCallError(Exception):
    """Another attempt of the turn may have sent a call without a ledger: its outcome is recorded as unknown; the turn ends."""


class Recorder:
    """`TurnPorts` for one run of one turn."""

    def __init__(
        self,
        header: RecordHeader,
        snapshot: PolicySnapshot,
        *,
        clock: Clock,
        external: ExternalPorts | None = None,
        writer: AuditWriter | None = None,
        replayed: Sequence[RecordEntry] = (),
        saved: int = 0,
        hooks: HookList | None = None,
        began_at: float | None = None,
        ends_us: Iterable[int] = (),
        in_force: CompiledPolicy | None = None,
        asks_model: bool = True,
    ) -> None:
        """`replayed` are the entries to replay; `saved` of them are in the log. For the times see `_end_state`.

        `in_force` is the policy of this process, if it is not that of `snapshot`. Without `asks_model` a turn that comes to ask
        the model is interrupted there.
        """
        self.header = header
        self.snapshot = snapshot
        self.in_force = in_force or snapshot.policy
        self._asks_model = asks_model
        self.entries = list(replayed)
        self.request_digests = RequestDigests()
        self._clock = clock
        self._external = external
        self._writer = writer
        self.interrupted = False
        self.interrupted_for: str | None = None
        """The reason of the interruption; None if there is none, or if this recorder has interrupted the turn itself."""
        self.saved = saved
        """The number of entries that are in the log."""
        self._next = 0
        self._hooks = HookList() if hooks is None else hooks
        self._began_at = began_at
        self._ends_us = iter(ends_us)
        self._ended_us = 0
        self._entries_of_ended = 0
        self._in_flight: tuple[EntryKind, str] | None = None
        self._lost_call: tuple[str, str] | None = None
        self._resumed_at = len(replayed) if replayed and external is not None else None
        self._fenced = False
        self._has_new_calls = False
        """True if an answer of the model that calls tools is not saved yet."""
        """The model's responses that are not committed yet."""
        self._intended: list[AuthorizedCall] = []
        """The permitted calls of the batch that have not begun, in their order."""
        self._source_finder: SourceFinder | None = None
        self._reads_began = 0.0
        """The time at which the reads of the call that is judged now began, in seconds of the monotonic clock."""
        self._announced: dict[int, bool] = {}
        """The sequence of each call whose operation is committed; False if another attempt may have sent it."""

    @property
    def finished(self) -> bool:
        """True if all existing entries have been replayed."""
        return self._next >= len(self.entries)

    @property
    def recorded(self) -> list[RecordEntry]:
        """The entries that this run has passed."""
        return self.entries[: self._next]

    async def walk(self, graph: CompiledGraph, on_step: Callable[[Step], Awaitable[None]] | None = None) -> list[Step]:
        """Run the turn through `graph`, with this recorder as its ports; return its steps. `on_step` is awaited after each."""
        return await walk(graph, Turn.of(self.header), TurnRuntime(self, self.snapshot), self._end_state, on_step)

    def replay(self, graph: CompiledGraph) -> AsyncGenerator[Step]:
        """Yield the steps of a recorded turn along the edges of `graph`."""
        return walk_edges(graph, Turn.of(self.header), TurnRuntime(self, self.snapshot), self._end_state)

    def _end_state(self) -> tuple[int, list[RecordEntry]]:
        """Return when a state has ended, in microseconds after the turn began, and the answers that its node was given.

        The first states ended at `ends_us`. The ends of the others are measured from `began_at`, in seconds of the monotonic
        clock. Without it a state takes as long as its recorded calls did.
        """
        entries = self.entries[self._entries_of_ended : self._next]
        self._entries_of_ended = self._next
        # At least the time of the calls, which an earlier attempt of the turn may have made.
        least_us = self._ended_us + 1000 * sum([entry.ms for entry in entries])
        measured_us = 0 if self._began_at is None else round((self._clock.monotonic() - self._began_at) * 1e6)
        self._ended_us = next(self._ends_us, max(measured_us, least_us))
        return self._ended_us, entries

    def fence(self) -> None:
        """End this run: from now on every method raises, so that an abandoned task can neither act nor write."""
        self._fenced = True

    def ended_by(self, reason: InterruptReason, *, only_passed: bool = False) -> list[RecordEntry]:
        """Return the entries of this turn and an INTERRUPT entry that gives the reason and the call in flight.

        `only_passed` leaves out the entries that this run has not reached, if they cannot be replayed.
        """
        entries = self.recorded if only_passed else self.entries
        in_flight = {"kind": self._in_flight[0], "request": self._in_flight[1]} if self._in_flight else None
        if in_flight is None and self._resumed_at is not None and self._next <= self._resumed_at:
            # This run has not passed the point where the earlier process died, whose last call is not known.
            reason = InterruptReason.CRASH
        result = {"reason": reason, "in_flight": in_flight}
        return [*entries, RecordEntry(n=len(entries), kind=EntryKind.INTERRUPT, result=result)]

    def now(self) -> datetime:
        return datetime.fromisoformat(self._value(EntryKind.CLOCK, None, lambda: self._clock.now().isoformat()))

    def new_id(self) -> str:
        return self._value(EntryKind.ID, None, lambda: self._ports().ids.new())

    def sign(self, pending: PendingAction) -> str:
        return self._value(EntryKind.SIGN, pending.to_json(), lambda: self._ports().signer.sign(pending, **self._signed_for()))

    def verify(self, pending: PendingAction) -> bool:
        return self._value(
            EntryKind.VERIFY, pending.to_json(), lambda: self._ports().signer.verify(pending, **self._signed_for())
        )

    def differing_rules(self, pending: PendingAction) -> list[str]:
        asked = pending.asked_under
        return self._value(EntryKind.RULES, asked.to_json(), lambda: self.in_force.differences(asked))

    async def consume(self, pending: PendingAction, *, yes: bool | None) -> bool:
        request = digest(pending.id)
        if (entry := self._replay_entry(EntryKind.CONSUME, request)) is not None:
            return bool(entry.result)
        use = ConfirmationUse(pending, **self._signed_for(), decision_id=self.header.decision_id, yes=yes)
        unused = await self._ports().consume(use)
        self._append(EntryKind.CONSUME, request, unused)
        return unused

    async def known_requests(self, call: FunctionCall) -> KnownRequests:
        request = digest([call.name, call.arguments])
        if (entry := self._replay_entry(EntryKind.KNOWN_REQUESTS, request)) is not None:
            return KnownRequests.model_validate(entry.result)
        if self.interrupted:
            return KnownRequests()
        requests, context = self._ports().approvals, self.header.context
        # A policy that counts approvals is not used without a store.
        assert requests is not None
        same = same_call_digest(call.name, call.arguments)
        known = await requests.known(same, context.user_id, context.conversation_id)
        self._append(EntryKind.KNOWN_REQUESTS, request, known.to_json())
        return known

    @property
    def _counter(self) -> AuditWriter:
        # A turn that counts is not begun without a writer that does.
        assert self._writer is not None
        return self._writer

    async def facts(self, conditions: Conditions) -> Facts:
        if (entry := self._replay_entry(EntryKind.FACTS, None)) is not None:
            return Facts.model_validate(entry.result)
        self._ports()
        context, decision_id = self.header.context, self.header.decision_id
        facts = await gather_facts(
            self._counter, context, decision_id, conditions.gathers, self._clock.now(), interrupted=lambda: self.interrupted
        )
        self._append(EntryKind.FACTS, None, facts.to_json())
        return facts

    async def sources(
        self,
        batch: Sequence[FunctionCall],
        made: Sequence[ReadCall],
        *,
        needed: bool = True,
    ) -> BatchSources | None:
        request = digest([[call.name, call.arguments] for call in batch])
        if (entry := self._replay_entry(EntryKind.SOURCES, request)) is not None:
            return BatchSources.model_validate(entry.result)
        if not needed and self._writer is not None and not self._writer.keeps_results:
            return None
        self._ports()
        context, earlier = self.header.context, EarlierCalls()
        if self._source_finder is None:
            # As for the facts: an interrupted turn sends nothing more.
            if self._writer is not None and not self.interrupted:
                earlier = await self._writer.earlier_calls(context, self.header.decision_id)
                others = [one for one in earlier.definitions if one != self.header.tools]
                texts = await self._writer.texts(others) if others else {}
                changed = changed_definitions(self.snapshot.policy, texts.values())
                earlier = earlier._replace(results=[*earlier.results, *changed])
            self._source_finder = SourceFinder(context, self.snapshot.policy, earlier)
        sources = self._source_finder.sources(batch, made)
        self._append(EntryKind.SOURCES, request, sources.to_json())
        return sources

    async def reserve(
        self, call: AuthorizedCall, conditions: Conditions, situation: Situation, *, confirmed: bool
    ) -> ConditionsVerdict | None:
        request = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        entry = self._replay_entry(EntryKind.RESERVE, request)
        if entry is None and self.interrupted:
            # Its verdict is committed before the call is sent: neither this call nor a later one was.
            self._lost_call = None
            return None
        if entry is None:
            entry = await self._reserve(call, self._counted(call, conditions, situation, request, confirmed=confirmed))
        return _ruling_of(entry.result)

    async def covered(
        self, call: FunctionCall, sources: CallSources | None, made: Sequence[ReadCall], *, exact: bool
    ) -> Covered | None:
        request = digest([call.name, call.arguments])
        if (entry := self._replay_entry(EntryKind.MANDATE, request)) is not None:
            return None if entry.result is None else Covered.model_validate(entry.result)
        if self.interrupted:
            return None
        found = await self._covered(call, sources, made, exact=exact)
        self._append(EntryKind.MANDATE, request, None if found is None else found.to_json())
        return found

    async def _covered(
        self, call: FunctionCall, sources: CallSources | None, made: Sequence[ReadCall], *, exact: bool
    ) -> Covered | None:
        self._ports()
        context, at = self.header.context, self._clock.now()
        if self._writer is None or not self._writer.keeps_mandates:
            return None
        for mandate in await self._writer.open_mandates(context, at):
            if self.in_force.differences(mandate.asked_under):
                await self._writer.void_mandate(mandate.id, at)
                continue
            earlier = await self._writer.calls_around(context, self.header.decision_id, mandate)
            others = [one.content for one in context.message_history if one.origin is Origin.FOREIGN]
            known = [*earlier.before, *(ReadCall("", {}, ToolResult(success=True, data={"text": text})) for text in others)]
            said = [context.message, *(one.content for one in context.message_history if one.role == "user" and not one.origin)]
            read = Conversation(known, [*earlier.since, *made], said, earlier.is_whole)
            if lines := fitting_lines(mandate.lines, call, sources, read, exact=exact):
                return Covered(mandate.id, lines)
        return None

    async def draw(
        self,
        call: AuthorizedCall,
        wanted: WantedDraw,
        ruling: ConditionsVerdict,
        conditions: Conditions | None,
        situation: Situation,
    ) -> Drawn | None:
        request = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        entry = self._replay_entry(EntryKind.RESERVE, request)
        if entry is None and self.interrupted:
            self._lost_call = None
            return None
        if entry is None:
            if conditions is None:
                reservation = self._uncounted(call, ruling, request)
            else:
                reservation = self._counted(call, conditions, situation, request, wants_draw=True)
            entry = await self._reserve(call, replace(reservation, wanted=wanted))
        drawn = entry.result["mandate"]
        return Drawn(_ruling_of(entry.result), None if drawn is None else Draw.model_validate(drawn))

    async def permitted(self, plan: Plan) -> list[PermittedLine]:
        request = digest(plan.to_json())
        if (entry := self._replay_entry(EntryKind.PLAN, request)) is not None:
            return [PermittedLine.model_validate(one) for one in entry.result]
        solve = self._ports().permitted
        lines = [PermittedLine(line) for line in plan.lines]
        if solve is not None and not self.interrupted:
            # In a thread: the solver takes up to half a second for a line.
            lines = await asyncio.to_thread(solve, plan, self.in_force)
        self._append(EntryKind.PLAN, request, [one.to_json() for one in lines])
        return lines

    async def mint(self, pending: PendingAction) -> Mandate:
        assert pending.plan is not None
        if (entry := self._replay_entry(EntryKind.MINT, digest(pending.id))) is not None:
            return Mandate.model_validate(entry.result)
        self._ports()
        at = self._clock.now()
        mandate = Mandate(
            id=pending.id,
            plan=pending.plan,
            decision_id=self.header.decision_id,
            asked_under=pending.asked_under,
            created_at=at,
            until=at + timedelta(minutes=pending.plan.minutes),
            **self._signed_for(),
        )
        self._append(EntryKind.MINT, digest(pending.id), mandate.to_json())
        if self._writer is not None and self._writer.keeps_mandates:
            await self._writer.mint(self.header.decision_id, mandate, entries=self._unsaved())
            self._mark_saved()
        return mandate

    def _uncounted(self, call: AuthorizedCall, ruling: ConditionsVerdict, request: str) -> Reservation:
        """Return the reservation of a call that only a mandate counts."""
        at, n = self._clock.now(), len(self.entries)

        def judge(_: Sequence[PastUse], drawn: Draw | None) -> tuple[RecordEntry, bool]:
            runs = drawn is not None
            result = {
                "amounts": None,
                "decision": str(ruling.verdict),
                "facts": Facts.at(at, "UTC").to_json(),
                "mandate": None if drawn is None else drawn.to_json(),
                "reasons": list(ruling.reasons),
                **({"results": ruling.facts} if ruling.facts else {}),
                "tool": call.tool_name,
            }
            counted = call.sequence if runs else None
            return RecordEntry(n=n, kind=EntryKind.RESERVE, request=request, result=result, operation=counted), runs

        return Reservation(self._operation(call), at, at, judge)

    def _counted(
        self,
        call: AuthorizedCall,
        conditions: Conditions,
        situation: Situation,
        request: str,
        *,
        confirmed: bool = False,
        wants_draw: bool = False,
    ) -> Reservation:
        """Return the reservation of a call that conditions count."""
        assert situation.facts is not None
        at, n = self._clock.now(), len(self.entries)
        made = situation.facts.succeeded or (), situation.facts.attempted or ()

        use = conditions.use(call.tool_name, call.arguments, at)
        earlier = [
            conditions.use(one.tool_name, one.arguments, at)
            for one in situation.earlier
            if one.may_have_run and one.tool_name == use.tool_name
        ]

        def judge(uses: Sequence[PastUse], drawn: Draw | None) -> tuple[RecordEntry, bool]:
            facts = conditions.gathers.facts(at, PastUses(uses, *made))
            decided = conditions.judge(call.tool_name, call.arguments, replace(situation, facts=facts))
            # The draw is the yes: without it a call that needs one would be found to ask, and not be counted.
            runs = decided.permits(confirmed=confirmed or drawn is not None) and (drawn is not None or not wants_draw)
            result = {
                "amounts": dict(use.amounts),
                "decision": str(decided.verdict),
                "facts": facts.to_json(),
                **({"mandate": None if drawn is None else drawn.to_json()} if wants_draw else {}),
                "reasons": list(decided.reasons),
                **({"results": decided.facts} if decided.facts else {}),
                **({} if decided.needs is None else {"needs": [list(part) for part in decided.needs]}),
                "tool": call.tool_name,
                "used": {
                    window: total_of([*tools.get(call.tool_name, ()), *earlier, use])
                    for window, tools in uses_by_window(uses, at, conditions.file.time_zone).items()
                },
            }
            counted = call.sequence if runs else None
            return RecordEntry(n=n, kind=EntryKind.RESERVE, request=request, result=result, operation=counted), runs

        operation = self._operation(call, use.amounts)
        return Reservation(operation, at, window_start("day", at, conditions.file.time_zone), judge)

    async def _reserve(self, call: AuthorizedCall, reservation: Reservation) -> RecordEntry:
        self._ports()
        entry, sendable = await self._counter.reserve(self.header.decision_id, reservation, entries=self._unsaved())
        self._require_current()
        self.entries.append(entry)
        self._next = len(self.entries)
        self._mark_saved()
        self._announced[call.sequence] = sendable
        return entry

    async def generate(self, prompt: Prompt) -> LLMResponse:
        request = prompt.request
        question = self.request_digests.of(request)
        if (entry := self._replay_entry(EntryKind.MODEL, question)) is not None:
            return LLMResponse.model_validate(entry.result)
        if not self._asks_model and not self.interrupted:
            self._append(EntryKind.INTERRUPT, None, {"reason": InterruptReason.CRASH, "in_flight": None})
            self.interrupted = True
        if self.interrupted:
            cause = LLMErrorCause.CANCELLED if self.interrupted_for == InterruptReason.CANCELLED else self.forbidden
            return LLMResponse(finish_reason="error", error=LLMErrorCode.TIMEOUT, cause=cause)
        if (limit := await self._token_limit()) is None:
            response, ms = await self._timed(
                EntryKind.MODEL,
                question,
                lambda: self._hooks.model_call(
                    HookedModelCall(self.header, request), self._ports().generate(request, self.header.context.user_id)
                ),
            )
        else:
            response, ms = LLMResponse(finish_reason="error", error=LLMErrorCode.RATE_LIMITED, cause=limit), 0
        self._append(EntryKind.MODEL, question, response.to_json(), ms)
        # A response without tool calls can only become the reply: it is committed together with the terminal row.
        if any(call.name not in ALL_FORMS for call in response.function_calls or []):
            # It is committed before the first of its calls, together with the operation of that call.
            self._has_new_calls = True
        return response

    async def _token_limit(self) -> LLMErrorCause | None:
        """Return the limit that the turn, or its user today, has reached."""
        limits = self.snapshot.config.tokens
        if limits is None or self._external is None:
            return None
        usage = [entry.result.get("usage") or {} for entry in self.entries if entry.kind is EntryKind.MODEL]
        tokens = sum(one.get("total_tokens", 0) for one in usage)
        if limits.turn is not None and tokens >= limits.turn:
            return LLMErrorCause.TURN_TOKENS
        if limits.day is not None:
            since = window_start("day", self._clock.now(), limits.time_zone)
            user = self.header.context.user_id
            tokens += await self._counter.used_tokens(user, self.header.decision_id, since)
        return None if limits.day is None or tokens < limits.day else LLMErrorCause.DAY_TOKENS

    def intend(self, calls: Sequence[AuthorizedCall]) -> None:
        self._intended = list(calls)

    async def claim_undo(self, call: AuthorizedCall, undone: UndoneCall) -> str | None:
        request = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        entry = self._replay_entry(EntryKind.UNDO, request)
        if entry is None and self.interrupted:
            # As for a reservation: the call was not sent.
            self._lost_call = None
            return None
        if entry is None:
            entry = await self._claim_undo(call, undone, request)
        return str(entry.result["undone_by"] or "")

    async def _claim_undo(self, call: AuthorizedCall, undone: UndoneCall, request: str) -> RecordEntry:
        self._ports()
        assert self._writer is not None, "what a turn without a writer has sent is not known: it undoes nothing"
        n = len(self.entries)

        def last_entry(by: str | None) -> RecordEntry:
            result = {"undoes": undone.operation, "undone_by": by}
            operation = call.sequence if by is None else None
            return RecordEntry(n=n, kind=EntryKind.UNDO, request=request, result=result, operation=operation)

        operation = self._operation(call)._replace(undoes=undone.operation)
        entry, free = await self._writer.claim_undo(self.header.decision_id, operation, last_entry, entries=self._unsaved())
        self._require_current()
        self.entries.append(entry)
        self._next = len(self.entries)
        self._mark_saved()
        self._announced[call.sequence] = free
        return entry

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        call, at = wanted.call, None if wanted.after is None else self._clock.now()
        request = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        if (entry := self._replay_entry(EntryKind.READ, request)) is not None:
            return FactRead.model_validate(entry.result)
        if self.interrupted:
            return FactRead(tool=call.tool_name, arguments=call.arguments, error=self._why_not_sent)
        if wanted.first:
            self._reads_began = self._clock.monotonic()
        spent = self._clock.monotonic() - self._reads_began
        hooked = HookedToolCall(self.header, call.tool_name, call.arguments, _TOOL_CALL_MODES[EntryKind.READ])
        ports = self._ports()
        left = ports.call_seconds - spent
        result, ms = await self._timed(
            EntryKind.READ, request, lambda: self._hooks.tool_call(hooked, ports.execute(call, within=left))
        )
        read = wanted.keep(result)
        counted = call.sequence if self.snapshot.policy.counts(call.tool_name) else None
        self._append(EntryKind.READ, request, read.to_json(), ms, at=at, operation=counted)
        return read

    async def preview(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        request = digest([tool_name, arguments])
        if (known := self._known_result(EntryKind.PREVIEW, request)) is not None:
            return known
        user_id = self.header.context.user_id
        return await self._call_tool(
            EntryKind.PREVIEW, request, tool_name, arguments, lambda ports: ports.preview(tool_name, arguments, user_id)
        )

    async def execute(self, call: AuthorizedCall) -> ToolResult:
        request = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        operation = call.sequence if self._has_operation(call) else None
        if (known := self._known_result(EntryKind.EXECUTE, request, operation)) is not None:
            return known
        invoked_at = self._clock.now()
        resumed_here = self._resumed_at == self._next
        if call in self._intended:
            del self._intended[: self._intended.index(call) + 1]
        sendable = await self._save_before(call)
        # Another attempt has come to this point, or died about here: it may have sent this call.
        is_resent = call.mutating and (resumed_here or not sendable)
        if is_resent and not call.may_be_sent_again:
            # Without the operation key the server would run it twice.
            result = ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, OUTCOME_UNKNOWN)
            self._append(EntryKind.EXECUTE, request, result.to_json(), at=invoked_at, operation=operation)
            raise ResentCallError
        result = await self._call_tool(
            EntryKind.EXECUTE,
            request,
            call.tool_name,
            call.arguments,
            lambda ports: ports.send_again(call) if is_resent else ports.execute(call),
            at=invoked_at,
            operation=operation,
        )
        if self._writer is not None:
            invocation = ToolInvocation(
                sequence=call.sequence,
                tool_name=call.tool_name,
                parameters=call.arguments,
                result=result.data,
                success=result.success,
                error_code=result.error_code,
                error_message=result.error,
                duration_ms=self.entries[-1].ms,
                invoked_at=invoked_at,
            )
            # A call with an operation that follows in the same batch needs no commit before it.
            following = next(iter(self._intended), None)
            await self._commit(following if following is not None and self._has_operation(following) else None, invocation)
        return result

    async def settle(self, call: AuthorizedCall) -> ToolResult:
        request = call_digest(call.tool_name, call.arguments, call.user_id, call.operation_key)
        if (known := self._known_result(EntryKind.SETTLE, request)) is not None:
            return known
        return await self._call_tool(
            EntryKind.SETTLE, request, call.tool_name, call.arguments, lambda ports: ports.settle(call)
        )

    def _known_result(self, kind: EntryKind, request: str, operation: int | None = None) -> ToolResult | None:
        """Return the recorded result of a call, or that of a call in an interrupted turn; None if the call is to be made."""
        if (entry := self._replay_entry(kind, request)) is not None:
            if entry.operation != operation:
                text = f"entry {entry.n}: the record holds the operation {entry.operation}, the turn asks for {operation}"
                raise RecordMismatchError(text)
            return ToolResult.model_validate(entry.result)
        if not self.interrupted or kind is EntryKind.SETTLE:
            return None
        if kind is EntryKind.PREVIEW:
            return ToolResult(success=False, error=self._why_not_sent)
        if self._lost_call in ((kind, request), _ANY_CALL):
            self._lost_call = None
            return ToolResult.failed(ToolErrorCode.TIMEOUT_ERROR, OUTCOME_UNKNOWN)
        return ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, self._why_not_sent)

    @property
    def forbidden(self) -> LLMErrorCause | None:
        """The cause of an interruption by an operator."""
        return _FORBIDDEN.get(self.interrupted_for)

    @property
    def _why_not_sent(self) -> str:
        return NOT_STARTED if self.forbidden is None else _WHY_FORBIDDEN[self.forbidden]

    async def _call_tool(
        self,
        kind: EntryKind,
        request: str,
        tool_name: str,
        arguments: Mapping[str, Any],
        call: Callable[[ExternalPorts], Awaitable[ToolResult]],
        **sent: Any,
    ) -> ToolResult:
        """Make a call to the tool server and record its result."""
        hooked = HookedToolCall(self.header, tool_name, arguments, _TOOL_CALL_MODES[kind])
        result, ms = await self._timed(kind, request, lambda: self._hooks.tool_call(hooked, call(self._ports())))
        self._append(kind, request, result.to_json(), ms, **sent)
        return result

    def _ports(self) -> ExternalPorts:
        if self._external is None:
            raise RecordMismatchError("the turn asks for more than was recorded")
        return self._external

    def _signed_for(self) -> dict[str, str]:
        context = self.header.context
        return {"user_id": context.user_id, "conversation_id": context.conversation_id}

    def _replay_entry(self, kind: EntryKind, request: str | None) -> RecordEntry | None:
        """Return the next existing entry; None if there is none, and the port is to be asked.

        Raises `RecordMismatchError` if that entry answers another request.
        """
        self.reach_interruption()
        if self.finished or (self.interrupted and kind in _NOT_AFTER_INTERRUPT):
            return None
        entry = self.entries[self._next]
        if entry.kind is not kind or entry.request != request:
            raise RecordMismatchError(
                f"entry {entry.n}: the record holds {entry.kind} {entry.request}, the turn asks for {kind} {request}"
            )
        self._next += 1
        return entry

    def reach_interruption(self) -> bool:
        self._require_current()
        # There are several INTERRUPT entries if the process that ended the turn died before it had closed it.
        while not self.finished and self.entries[self._next].kind is EntryKind.INTERRUPT:
            interrupt = self.entries[self._next].result
            if in_flight := interrupt["in_flight"]:
                self._lost_call = (in_flight["kind"], in_flight["request"])
            if interrupt["reason"] == InterruptReason.CRASH:
                self._lost_call = _ANY_CALL
            self.interrupted_for = interrupt["reason"]
            self.interrupted = True
            self._next += 1
        return self.interrupted

    def _value(self, kind: EntryKind, question: Any, ask: Callable[[], T]) -> T:
        """Return the recorded answer to a request, or the result of `ask`, which is recorded."""
        request = None if question is None else digest(question)
        if (entry := self._replay_entry(kind, request)) is not None:
            recorded: T = entry.result
            return recorded
        # In a replay even the clock is not asked.
        self._ports()
        value = ask()
        self._append(kind, request, value)
        return value

    async def _timed(self, kind: EntryKind, request: str, ask: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """Return the answer of a call and how many milliseconds it took. While it lasts, it is the call in flight."""
        self._require_current()
        self._in_flight = (kind, request)
        started = self._clock.monotonic()
        try:
            answer = await ask()
        except NOT_SENT:
            # The turn ends: nothing that may have been done is in flight.
            self._in_flight = None
            raise
        ms = round((self._clock.monotonic() - started) * 1000)
        self._require_current()
        self._in_flight = None
        return answer, ms

    def _append(self, kind: EntryKind, request: str | None, result: Any, ms: int = 0, **sent: Any) -> None:
        """Add an entry; `sent` are its `at` and `operation`."""
        self._require_current()
        self.entries.append(RecordEntry(n=len(self.entries), kind=kind, request=request, result=result, ms=ms, **sent))
        self._next = len(self.entries)

    def _require_current(self) -> None:
        if self._fenced:
            raise TurnTakenOverError("this run of the turn has ended")

    def _unsaved(self) -> list[RecordEntry]:
        return self.entries[self.saved :]

    def _mark_saved(self) -> None:
        self.saved, self._has_new_calls = len(self.entries), False

    async def _save_before(self, call: AuthorizedCall) -> bool:
        """Commit what must precede `call`; False if another attempt may have sent it."""
        announced = call.sequence in self._announced
        has_operation = self._has_operation(call)
        if self._has_new_calls or (has_operation and (self._unsaved() or not announced)):
            await self._commit(call if has_operation and not announced else None)
        return self._announced.pop(call.sequence, True)

    def _has_operation(self, call: AuthorizedCall) -> bool:
        """True for a change, and for every call if a condition reads the attempted ones: turns that run meanwhile see it."""
        conditions = self.snapshot.policy.conditions
        return call.mutating or (conditions is not None and conditions.gathers.reads.has("attempted"))

    def _operation(self, call: AuthorizedCall, amounts: Mapping[str, int | str] | None = None) -> CallOperation:
        operation = CallOperation(
            call.sequence, call.operation_key, call.user_id, call.tool_name, amounts, call.request, rules=self.header.rules
        )
        return operation._replace(server=self._ports().server_of(call.tool_name), changes=call.mutating)

    async def _commit(self, following: AuthorizedCall | None, invocation: ToolInvocation | None = None) -> None:
        """Commit everything that is not saved; `following` is the change that is sent next."""
        if self._writer is None:
            return
        operation = None if following is None else self._operation(following)
        free = await self._writer.write_progress(
            self.header.decision_id,
            invocation=invocation,
            entries=self._unsaved(),
            operation=operation,
        )
        self._mark_saved()
        if following is not None:
            self._announced[following.sequence] = free


def _ruling_of(result: Mapping[str, Any]) -> ConditionsVerdict:
    """Return the verdict of the conditions in a reservation."""
    needs = result.get("needs")
    return ConditionsVerdict(
        Verdict(result["decision"]),
        tuple(result["reasons"]),
        result.get("results", ""),
        None if needs is None else NeededApproval(*map(tuple, needs)),
    )


def call_digest(tool_name: str, arguments: dict[str, Any], user_id: str, operation_key: str) -> str:
    """Return the digest of a tool call: what is asked, for which user, and under which key."""
    return digest([tool_name, arguments, user_id, operation_key])


class RequestDigests:
    """The digests of the model requests of one turn.

    The canonical JSON of the prompt and of each message is kept: a request has those of the request before it.
    """

    def __init__(self) -> None:
        self._texts: dict[int, tuple[object, str]] = {}
        """The JSON of an object by its id, with the object, so that no other one gets this id."""

    def of(self, request: LLMRequest) -> str:
        """Return the digest of a request.

        It covers the names of the tools; the header has a digest of their declarations. `tool_choice` is left out if it is
        "auto".
        """
        prompt = self._text(request.system_instruction)
        messages = [self._text(message) for message in request.messages]
        tools = canonical_json([tool.name for tool in request.tools])
        asked = [prompt, tools, f"[{','.join(messages)}]", *map(canonical_json, (request.temperature, request.max_tokens))]
        if request.tool_choice != "auto":
            asked.append(canonical_json(request.tool_choice))
        # The same text as that of the whole list, which only its parts make here.
        return digest(f"[{','.join(asked)}]")

    def _text(self, of: LLMMessage | str | None) -> str:
        if id(of) not in self._texts:
            self._texts[id(of)] = of, canonical_json(of.to_json() if isinstance(of, LLMMessage) else of)
        return self._texts[id(of)][1]
