"""The engine: one compiled graph, one recorder a turn, one finaliser.

Whatever ends a turn (an answer, the deadline, a cancellation, a shutdown, a crash found later) passes through the finaliser,
and it alone makes a row terminal. A turn that does not end by itself is walked once more over what its record holds, with the
interruption as the last entry: so its decision is composed by the same nodes, and replays like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import asdict, astuple, dataclass
from datetime import datetime
from typing import Any

from graph_agent.turn.memory_writer import MemoryAuditWriter, MemoryConfirmations
from graph_agent.turn.recorder import Outside, Recorder, call_digest
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.errors import (
    ConfigurationError,
    GraphAgentError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    ToolNotFoundError,
    TurnTakenOverError,
)
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.graph.state import EndingKind, Turn, TurnCall, TurnRuntime
from graph_agent.graph.stepping import Step, walk
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AgentDecision, DecisionContext
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.record import (
    DecisionRecord,
    EntryKind,
    InterruptReason,
    RecordEntry,
    RecordHeader,
    RecordStatus,
    ToolInvocation,
)
from graph_agent.policy.confirmation import Signer
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.rules import compile_policy
from graph_agent.policy.snapshot import TermDigests, Terms
from graph_agent.ports import AuditWriter, Clock, Confirmations, IdSource, LLMAdapter, ToolExecutor, ToolServer
from graph_agent.deadlines import answer_within, left_behind, seen_through, turn_deadline

_log = logging.getLogger(__name__)

_LEAST_SECONDS_TO_CLOSE = 2.0

_SENT = frozenset({EntryKind.EXECUTE, EntryKind.SETTLE})

StepListener = Callable[[Step], None]
Steps = Sequence[Step]


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn after its end: the record that stands in the log, and the turn's last state where this process walked it."""

    record: DecisionRecord
    turn: Turn | None = None

    @property
    def decision(self) -> AgentDecision:
        return self.record.decision


class LLMAgentEngine:
    """Runs turns: `DecisionContext` in, `AgentDecision` out, everything recorded.

    One engine serves any number of turns at the same time, in one event loop.
    """

    def __init__(
        self,
        llm_adapter: LLMAdapter,
        tool_executor: ToolExecutor,
        constitution: str,
        max_iterations: int = 5,
        *,
        config: AgentEngineConfig | None = None,
        audit: AuditWriter | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        signer: Signer | None = None,
        confirmations: Confirmations | None = None,
        system_prompt: str | None = None,
        call_seconds: float = 10.0,
        allow_missing_tools: bool = False,
        graph: CompiledGraph | None = None,
    ) -> None:
        """`constitution` is the text; it is parsed here and raises `ConstitutionError`.

        `config` overrides `max_iterations`. Without `audit` the record is kept in memory; without `signer` confirmations are
        signed with a key that dies with the engine. `system_prompt` replaces the constitution as what the model reads, never
        as the policy. With `allow_missing_tools` a listed tool that the server does not serve is left out instead of refused.
        A compiled `graph` keeps nothing of a turn, so that engines may share one.
        """
        self.config = config or AgentEngineConfig(max_iterations=max_iterations)
        self.constitution = Constitution.parse(constitution)
        self.audit: AuditWriter = audit or MemoryAuditWriter()
        self._adapter = llm_adapter
        self._tools = tool_executor
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._prompt = system_prompt or constitution
        self._partial = allow_missing_tools
        self._outside = Outside(
            adapter=llm_adapter,
            tools=tool_executor,
            ids=self._ids,
            signer=signer or Signer(secrets.token_bytes(32)),
            confirmations=confirmations or MemoryConfirmations(),
            call_seconds=min(call_seconds, self.config.iteration_timeout or call_seconds),
            generate_seconds=self.config.iteration_timeout,
        )
        self._terms: Terms | None = None
        self._graph = graph
        self._closing = False
        self._running: set[asyncio.Task[FinishedTurn]] = set()

    @property
    def graph(self) -> CompiledGraph:
        """The compiled graph, compiled once."""
        if self._graph is None:
            self._graph = build_graph()
        return self._graph

    @property
    def model(self) -> str:
        """The model's name, as it stands in the record."""
        return self._adapter.model

    async def process_message(self, context: DecisionContext) -> AgentDecision:
        """Decide about one message. Raises `ServiceError` SERVICE_UNAVAILABLE where it cannot be recorded."""
        return (await self.run(context)).decision

    async def run(
        self,
        context: DecisionContext,
        *,
        decision_id: str | None = None,
        on_step: StepListener | None = None,
    ) -> FinishedTurn:
        """Like `process_message`, with the record. A cancelled caller leaves a closed row behind."""
        terms = await self.prepare()
        recorder = self._recorder(self.header(context, terms, decision_id), terms)
        return await self._supervised(recorder, terms, on_step)

    async def finish(self, decision_id: str, *, ask_model: bool, on_step: StepListener | None = None) -> FinishedTurn | None:
        """Bring a turn that a dead process left to its end, from its record; None where there is no such turn.

        What is recorded is played, under the terms it was recorded under. Then, with `ask_model`, the turn goes on for real,
        unless the terms have changed since; without, it ends there as interrupted.
        """
        stored = await self.audit.load(decision_id)
        if stored is None:
            return None
        if isinstance(stored, DecisionRecord):
            return FinishedTurn(stored)
        current = await self.prepare()
        entries = list(stored.entries)
        try:
            terms = await self._named_by(stored.header, current)
        except (ConfigurationError, LookupError, ValueError):
            _log.exception("the terms of decision %s cannot be read; it is closed without its record", decision_id)
            terms, entries, ask_model = current, [], False
        if not ask_model or terms is not current:
            crash = {"reason": InterruptReason.CRASH, "in_flight": None}
            entries.append(RecordEntry(n=len(entries), kind=EntryKind.INTERRUPT, result=crash))
        recorder = self._recorder(stored.header, terms, played=entries, saved=len(stored.entries))
        return await self._supervised(recorder, terms, on_step)

    async def terms_of(self, header: RecordHeader) -> Terms:
        """The terms that a record names: the current ones, or those that stand in the log."""
        return await self._named_by(header, await self.prepare())

    async def step(self, context: DecisionContext) -> AsyncIterator[Step]:
        """Walk a turn node by node. It is recorded like any other; leaving early closes it as interrupted."""
        terms = await self.prepare()
        recorder = self._recorder(self.header(context, terms), terms)
        taken: list[Step] = []
        ends = self._clock.monotonic() + terms.config.timeout_seconds
        steps = walk(self.graph, self._first(recorder.header), TurnRuntime(recorder, terms))
        try:
            while True:
                with turn_deadline(self._clock, ends):
                    try:
                        step = await anext(steps)
                    except StopAsyncIteration:
                        break
                taken.append(step)
                yield step
        finally:
            await steps.aclose()
            if taken and taken[-1].turn.decision is not None:
                await _undisturbed(self._close(recorder, taken), _reserve(terms))
            elif recorder.saved is not None:
                recorder.fence()
                with turn_deadline(self._clock, self._clock.monotonic() + _reserve(terms)):
                    await _undisturbed(self._interrupted(recorder, terms, InterruptReason.CANCELLED), _reserve(terms))

    async def prepare(self) -> Terms:
        """Join the constitution with what the tool server serves; once it has answered, for good.

        Raises `ConfigurationError` where a server that answered does not serve a listed tool.
        """
        if self._terms is not None:
            return self._terms
        names = list(self.constitution.whitelist)
        if not isinstance(self._tools, ToolServer):
            available = [name for name in names if name in self._tools.get_available_tools()]
            declarations = self._adapter.get_tool_declarations(available)
            policy = compile_policy(self.constitution, declarations, {}, partial=self._partial)
        elif await self._reached():
            served = self._tools.declarations()
            traits = {tool.name: self._tools.traits(tool.name) for tool in served}
            policy = compile_policy(self.constitution, served, traits, partial=self._partial)
        else:
            # No server answers: the grants stand as far as the adapter can declare them, every call fails softly, and the
            # next turn asks again.
            return Terms(compile_policy(self.constitution, self._declared(names), {}, partial=True), self.config, self._prompt)
        self._terms = Terms(policy, self.config, self._prompt)
        return self._terms

    async def aclose(self) -> None:
        """End every turn that is still running, and wait until each has its terminal row."""
        self._closing = True
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _named_by(self, header: RecordHeader, current: Terms) -> Terms:
        digests = TermDigests(header.constitution, header.tools, header.settings, header.prompt)
        if current.digests == digests:
            return current
        return Terms.from_texts(await self.audit.texts(list(astuple(digests))), digests)

    async def _reached(self) -> bool:
        """Whether the tool server answers, within the time that one call to it may take."""
        assert isinstance(self._tools, ToolServer)
        try:
            return await answer_within(min(self._outside.call_seconds, self.config.timeout_seconds / 2), self._tools.start())
        except Exception as exc:
            _log.warning("the tool server could not be reached", exc_info=not isinstance(exc, TimeoutError))
            return False

    def _declared(self, names: list[str]) -> list[ToolDeclaration]:
        declarations = []
        for name in names:
            try:
                declarations += self._adapter.get_tool_declarations([name])
            except ToolNotFoundError:
                continue
        return declarations

    def header(self, context: DecisionContext, terms: Terms, decision_id: str | None = None) -> RecordHeader:
        """What a record of `context` starts from now, under `terms`."""
        return RecordHeader(
            decision_id=decision_id or self._ids.new(),
            context=context,
            started_at=self._clock.now(),
            model=self.model,
            **asdict(terms.digests),
        )

    def _recorder(
        self,
        header: RecordHeader,
        terms: Terms,
        *,
        played: Sequence[RecordEntry] = (),
        saved: int | None = None,
    ) -> Recorder:
        return Recorder(
            header,
            clock=self._clock,
            outside=self._outside,
            writer=self.audit,
            blobs=terms.texts,
            played=played,
            saved=saved,
        )

    async def _supervised(self, recorder: Recorder, terms: Terms, on_step: StepListener | None) -> FinishedTurn:
        """Run a turn so that a caller who goes away still leaves a closed row."""
        task = asyncio.create_task(self._run_to_end(recorder, terms, on_step))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await seen_through(task)

    async def _run_to_end(self, recorder: Recorder, terms: Terms, on_step: StepListener | None) -> FinishedTurn:
        """Run the graph as a task of its own and wait beside it: what cannot be cancelled is left behind, fenced."""
        seconds = terms.config.timeout_seconds
        reserve = _reserve(terms)
        ends = self._clock.monotonic() + seconds
        with turn_deadline(self._clock, ends - reserve):
            walking = asyncio.create_task(self._walk(recorder, terms, on_step))
        reason = InterruptReason.DEADLINE
        try:
            await asyncio.wait({walking}, timeout=seconds - reserve)
        except asyncio.CancelledError:
            reason = InterruptReason.SHUTDOWN if self._closing else InterruptReason.CANCELLED
        if walking.done() and not walking.cancelled():
            failure = walking.exception()
            if failure is None:
                return await _undisturbed(self._close(recorder, walking.result()), ends - self._clock.monotonic())
            if recorder.saved is None or isinstance(failure, TurnTakenOverError):
                raise _refusal(failure) from failure
            _log.error("a turn ended in an exception", exc_info=failure)
            unavailable = isinstance(failure, RecordUnavailableError)
            reason = InterruptReason.RECORD if unavailable else InterruptReason.FAILURE
        elif walking.cancelled() and reason is InterruptReason.DEADLINE:
            reason = InterruptReason.FAILURE
        recorder.fence()
        walking.cancel()
        walking.add_done_callback(left_behind)
        with turn_deadline(self._clock, self._clock.monotonic() + reserve):
            return await _undisturbed(self._interrupted(recorder, terms, reason), reserve)

    async def _walk(self, recorder: Recorder, terms: Terms, on_step: StepListener | None = None) -> Steps:
        steps = []
        async for step in walk(self.graph, self._first(recorder.header), TurnRuntime(recorder, terms)):
            steps.append(step)
            if on_step is not None:
                on_step(step)
        return steps

    async def _interrupted(self, recorder: Recorder, terms: Terms, reason: InterruptReason) -> FinishedTurn:
        """Walk the turn over its record to a decision, with `reason` as its last entry, and close it."""
        if recorder.saved is None:
            raise _refusal(RecordUnavailableError("the turn ended before its opening row"))
        stands = recorder.ended_by(reason)
        while True:
            again = self._recorder(recorder.header, terms, played=stands, saved=recorder.saved)
            try:
                steps = await self._walk(again, terms)
                break
            except Exception:
                _log.exception("a turn could not be walked over its record")
                if len(stands) == 1:
                    raise
                # This code cannot walk what stands: as far as it can, then; and at last the row is closed honestly empty.
                again.fence()
                passed = again.ended_by(InterruptReason.CRASH, only_passed=True)
                stands = passed if len(passed) < len(stands) else [passed[-1].replace(n=0)]
        return await self._close(again, steps)

    async def _close(self, recorder: Recorder, steps: Steps) -> FinishedTurn:
        ended_at = max(self._clock.now(), recorder.header.started_at)
        record = compose_record(recorder, steps, ended_at)
        try:
            return FinishedTurn(await self.audit.close_decision_log(record), steps[-1].turn)
        except RecordUnavailableError as exc:
            raise _refusal(exc) from exc

    def _first(self, header: RecordHeader) -> Turn:
        return Turn(context=header.context, decision_id=header.decision_id)


def step(engine: LLMAgentEngine, context: DecisionContext) -> AsyncIterator[Step]:
    """Walk one turn of `engine` node by node: `(state, outcome, what changed)` after each."""
    return engine.step(context)


def _refusal(failure: BaseException) -> GraphAgentError:
    if isinstance(failure, TurnTakenOverError):
        return failure
    if isinstance(failure, RecordUnavailableError):
        text = "The request cannot be recorded right now. Please try again later."
        return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text)
    _log.error("a turn failed before its opening row", exc_info=failure)
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, "The request cannot be served right now.")


def compose_record(recorder: Recorder, steps: Steps, ended_at: datetime) -> DecisionRecord:
    """The record of a turn that has reached its decision: nothing but what its ports told it, and what followed from that."""
    turn = steps[-1].turn
    assert turn.decision is not None
    started_at = recorder.header.started_at
    return DecisionRecord(
        header=recorder.header,
        entries=recorder.recorded,
        status=RecordStatus.INTERRUPTED if recorder.interrupted else RecordStatus.COMPLETED,
        states=[step.state for step in steps],
        iterations=turn.iterations,
        usage=turn.usage,
        decision=turn.decision,
        invocations=[_invocation(recorder, turn, call, ended_at) for call in turn.calls],
        ended_at=ended_at,
        duration_ms=round((ended_at - started_at).total_seconds() * 1000),
    )


def _invocation(recorder: Recorder, turn: Turn, call: TurnCall, ended_at: datetime) -> ToolInvocation:
    """One call's row. When it was sent and how long it took come from the record, since state has no time."""
    consented = turn.pending if turn.ending is not None and turn.ending.kind is EndingKind.CONFIRMED else None
    key = consented.id if consented else f"{turn.decision_id}:{call.sequence}"
    asked = call_digest(call.call.name, call.arguments, turn.context.user_id, key)
    sent = [entry for entry in recorder.recorded if entry.request == asked and entry.kind in _SENT]
    return ToolInvocation(
        sequence=call.sequence,
        tool_name=call.call.name,
        parameters=call.arguments,
        disposition=call.disposition,
        result=call.result.data,
        success=call.result.success,
        error_code=call.result.error_code,
        error_message=call.result.error,
        duration_ms=sum(entry.ms for entry in sent),
        invoked_at=next((entry.at for entry in sent if entry.at is not None), ended_at),
    )


def _reserve(terms: Terms) -> float:
    """The seconds at a turn's end that are kept for ending it."""
    return min(1.0, terms.config.timeout_seconds / 10)


async def _undisturbed(ending: Coroutine[Any, Any, FinishedTurn], seconds: float) -> FinishedTurn:
    """See `ending` through: a caller who goes away now, or goes away again, must not leave the row open.

    It has `seconds`, two at least: a log that does not answer at all holds nobody longer, and the row is for others to close.
    """
    task = asyncio.create_task(ending)
    loop = asyncio.get_running_loop()
    ends = loop.time() + max(seconds, _LEAST_SECONDS_TO_CLOSE)
    while not task.done() and (left := ends - loop.time()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=left)
    if not task.done():
        task.cancel()
        task.add_done_callback(left_behind)
        raise _refusal(RecordUnavailableError("the log database did not answer in time"))
    return task.result()
