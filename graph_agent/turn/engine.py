"""The engine: starts runs of the compiled graph and finishes them.

Whatever ends a turn (an answer, the deadline, a cancellation, a shutdown, a crash found later), the engine alone makes its row
terminal. A turn that does not end by itself is walked once more over its record, with the interruption as the last entry: the
same nodes compose its decision, and it can be replayed like any other.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from graph_agent.clock import RandomIds, SystemClock, ignore_result, run_with_timeout, turn_deadline
from graph_agent.errors import (
    ConfigurationError,
    GraphAgentError,
    RecordError,
    RecordUnavailableError,
    ServiceError,
    ServiceErrorCode,
    TurnTakenOverError,
    outcome_unknown,
)
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.stepping import Step, walk
from graph_agent.graph.topology import START
from graph_agent.llm.adapter_call import AdapterCall, model_name
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AgentDecision, DecisionContext
from graph_agent.models.record import RECORD_VERSION, DecisionRecord, EntryKind, InterruptReason, RecordEntry, RecordHeader
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import Clock, Confirmations, IdSource, LLMAdapter, ToolExecutor, ToolServer
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.record.memory import MemoryAuditWriter, MemoryConfirmations
from graph_agent.tools.plain_executor import PlainExecutor
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.turn.external import ExternalPorts
from graph_agent.turn.finished import FinishedTurn, compose_record
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.recorder import Recorder
from graph_agent.turn.run import TurnRun

_log = logging.getLogger(__name__)

_MIN_SECONDS_TO_CLOSE = 2.0
_SETTLE_SECONDS = 2.0
"""The time of a settlement; a quarter of the turn if that is shorter."""
_CLOSED_TOGETHER = 64
"""The number of interrupted turns that are closed at the same time, and committed together.

To close one takes milliseconds of the event loop, so that this many end well within the seconds that each has.
"""

_LATE_OPENING_SECONDS = 30.0
"""The time after the refusal of a turn within which its opening row may be committed, so that this process still closes it."""
_LATE_CLOSE_SECONDS = (1.0, 2.0, 4.0)
"""The waits between the attempts to close an opening row whose commit is not known."""

T = TypeVar("T")


class LLMAgentEngine:
    """Runs turns: takes a `DecisionContext`, returns an `AgentDecision`, and records everything in between.

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
        hooks: Sequence[Callable[[], TurnHook]] = (),
    ) -> None:
        """`constitution` is the text; it is parsed here and raises `ConstitutionError`.

        Of the parameters of `generate` and `execute`, only those are passed that the adapter and the executor accept. Raises
        `ConfigurationError` if one of them cannot be called.

        `config` overrides `max_iterations`. Without `audit` the record is kept in memory; without `signer` confirmations are
        signed with a key of this engine only. `system_prompt` replaces the constitution as the text that the model reads, never
        as the policy. With `allow_missing_tools` a listed tool that the server does not serve is left out instead of refused.
        Engines may share a compiled `graph`, since it is stateless. `hooks` are functions that make one hook for each turn.
        """
        self.config = config or AgentEngineConfig(max_iterations=max_iterations)
        self.constitution = Constitution.parse(constitution)
        self.audit: AuditWriter = audit or MemoryAuditWriter()
        self._adapter = llm_adapter
        self._model = AdapterCall(llm_adapter)
        tools = (
            tool_executor
            if isinstance(tool_executor, ToolServer)
            else PlainExecutor(tool_executor, self.constitution.grants, self._model)
        )
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._prompt = system_prompt or constitution
        self._external = ExternalPorts(
            call_model=self._model,
            tools=tools,
            ids=self._ids,
            signer=signer or Signer(secrets.token_bytes(32)),
            confirmations=confirmations or MemoryConfirmations(),
            call_seconds=min(call_seconds, self.config.iteration_timeout or call_seconds),
            settle_seconds=min(_SETTLE_SECONDS, self.config.timeout_seconds / 4),
            generate_seconds=self.config.iteration_timeout,
        )
        limit = min(self._external.call_seconds, self.config.timeout_seconds / 2)
        self._policy = ServedPolicy(self.constitution, tools, seconds=limit, allow_missing_tools=allow_missing_tools)
        self._snapshot: PolicySnapshot | None = None
        self._graph = graph
        self._hooks = tuple(hooks)
        self._runs: set[TurnRun[Any]] = set()
        self._closing = asyncio.Semaphore(_CLOSED_TOGETHER)

    @property
    def graph(self) -> CompiledGraph:
        """The compiled graph, compiled once."""
        if self._graph is None:
            self._graph = build_graph()
        return self._graph

    @property
    def model(self) -> str:
        """The model's name, as it is recorded."""
        return model_name(self._adapter)

    async def process_message(self, context: DecisionContext) -> AgentDecision:
        """Decide about one message.

        Raises `ServiceError`: SERVICE_UNAVAILABLE if the opening row cannot be written, and nothing was called;
        OUTCOME_UNKNOWN, with the decision's id, if the end of the turn cannot be recorded.
        """
        return (await self.run(context)).decision

    async def run(
        self, context: DecisionContext, *, decision_id: str | None = None, hooks: Iterable[TurnHook] = ()
    ) -> FinishedTurn:
        """Like `process_message`, but return the record too. If the caller is cancelled, the record is closed first."""
        run = self.start(lambda run: self.decide(run, context), context.user_id, decision_id=decision_id, hooks=hooks)
        return await run.result()

    async def finish(self, decision_id: str, *, ask_model: bool) -> FinishedTurn | None:
        """Finish a turn that another process left open; see `resume`."""
        return await self.start(lambda run: self.resume(run, ask_model=ask_model), decision_id=decision_id).result()

    def start(
        self,
        work: Callable[[TurnRun[T]], Coroutine[Any, Any, T]],
        user_id: str | None = None,
        *,
        decision_id: str | None = None,
        hooks: Iterable[TurnHook] = (),
        arrived_at: float | None = None,
    ) -> TurnRun[T]:
        """Start a run whose owner task does `work`: `decide` or `resume`, and what the caller adds to it.

        The deadline counts from `arrived_at`, in seconds of the monotonic clock; by default from now.
        """
        made = [make() for make in self._hooks]
        run: TurnRun[T] = TurnRun(decision_id or self._ids.new(), user_id, [*made, *hooks], arrived_at)
        self._runs.add(run)
        run.start(work(run), on_end=lambda: self._runs.discard(run))
        return run

    def add_hook(self, make: Callable[[], TurnHook]) -> None:
        """Give each turn that starts from now on another hook."""
        self._hooks = (*self._hooks, make)

    @property
    def open_turns(self) -> int:
        """The number of turns that run in this process."""
        return len(self._runs)

    def running(self, decision_id: str) -> TurnRun[Any] | None:
        """Return the run of a turn if it runs in this engine and its user is known."""
        return next((run for run in self._runs if run.decision_id == decision_id and run.user_id is not None), None)

    async def decide(self, run: TurnRun[Any], context: DecisionContext) -> FinishedTurn:
        """Run a new turn, inside its owner task."""
        snapshot = await self.prepare()
        header = self.header(context, snapshot, run.decision_id)
        return await self._run_to_end(run, self._recorder(run, header, snapshot))

    async def resume(self, run: TurnRun[Any], *, ask_model: bool) -> FinishedTurn | None:
        """Finish a turn from its record, inside its owner task; None if there is no such turn.

        The recorded entries are replayed under the recorded policy snapshot. With `ask_model` the turn then continues live
        under that snapshot, if today's policy grants no less and the version of the record is the same; otherwise it ends there
        as interrupted.
        """
        stored = await self.audit.load(run.decision_id)
        if stored is None:
            return None
        if isinstance(stored, DecisionRecord):
            return FinishedTurn(stored)
        if not stored.sealed:
            # Its entries would be trusted, and its calls settled: a row that was added from outside must not start either.
            raise outcome_unknown(run.decision_id)
        current = await self.prepare()
        entries = list(stored.entries)
        try:
            snapshot = await self.snapshot_of(stored.header, current)
        except (ConfigurationError, LookupError, ValueError):
            _log.exception(
                "the policy snapshot of decision %s cannot be read; it is closed without its record", run.decision_id
            )
            snapshot, entries, ask_model = current, [], False
        ask_model = ask_model and current.grants_no_less_than(snapshot) and stored.header.version == RECORD_VERSION
        if not ask_model:
            crash = {"reason": InterruptReason.CRASH, "in_flight": None}
            entries.append(RecordEntry(n=len(entries), kind=EntryKind.INTERRUPT, result=crash))
        recorder = self._recorder(run, stored.header, snapshot, entries, len(stored.entries))
        # Without the model the turn is ending already: a cancellation would end it no sooner.
        return await self._run_to_end(run, recorder, cancellable=ask_model)

    async def snapshot_of(self, header: RecordHeader, current: PolicySnapshot | None = None) -> PolicySnapshot:
        """Return the policy snapshot that a record names: the `current` one, or one that is rebuilt from the log."""
        current = current or await self.prepare()
        if current.digests == header.digests:
            return current
        return PolicySnapshot.from_texts(await self.audit.texts(list(header.digests.values())), header.digests)

    async def steps_of(self, record: DecisionRecord, snapshot: PolicySnapshot) -> AsyncIterator[Step]:
        """Walk a closed turn again over its record, without asking any port. `snapshot` is the one that its header names.

        Raises `RecordError` at the first step that this version of the graph takes differently.
        """
        async for step in self._walk(Recorder(record.header, snapshot, clock=self._clock, replayed=record.entries)):
            yield step

    async def step(self, context: DecisionContext) -> AsyncIterator[Step]:
        """Run a turn and yield a step after each node; the next node waits until its step is requested.

        Leaving early closes the turn as interrupted. The turn's deadline also holds while it waits.
        """
        run = self.start(lambda run: self.decide(run, context), context.user_id)
        run.requested = asyncio.Semaphore(0)
        try:
            async for step in run.stream_steps():
                yield step
                run.requested.release()
        finally:
            run.cancel()
            await run.ended()
        await run.result()

    async def prepare(self) -> PolicySnapshot:
        """Join the constitution with the tools that the server serves now. The result is kept until these change.

        Raises `ConfigurationError` if a server that answers has never served a listed tool, or not in a usable form.
        """
        policy = await self._policy.current()
        if self._snapshot is None or self._snapshot.policy is not policy:
            self._snapshot = PolicySnapshot(policy, self.config, self._prompt)
        return self._snapshot

    async def aclose(self) -> None:
        """End every turn that is still running, and wait until each is closed."""
        # A turn that is refused may leave a run that closes its opening row.
        while runs := list(self._runs):
            for run in runs:
                run.cancel(InterruptReason.SHUTDOWN)
            await asyncio.gather(*(run.ended() for run in runs), asyncio.sleep(0))

    def header(self, context: DecisionContext, snapshot: PolicySnapshot, decision_id: str | None = None) -> RecordHeader:
        """Return the header of a record of `context` that starts now, under `snapshot`."""
        start = {"context": context, "started_at": self._clock.now(), "model": self.model, **snapshot.digests}
        return RecordHeader.model_validate({"decision_id": decision_id or self._ids.new(), **start})

    def _recorder(
        self,
        run: TurnRun[Any],
        header: RecordHeader,
        snapshot: PolicySnapshot,
        replayed: Sequence[RecordEntry] = (),
        saved: int | None = None,
    ) -> Recorder:
        return Recorder(
            header,
            snapshot,
            clock=self._clock,
            external=self._external,
            writer=self.audit,
            replayed=replayed,
            saved=saved,
            hooks=run.hooks,
        )

    def _walk(self, recorder: Recorder) -> AsyncGenerator[Step]:
        first = Turn(context=recorder.header.context, decision_id=recorder.header.decision_id)
        return walk(self.graph, first, TurnRuntime(recorder, recorder.snapshot))

    async def _run_to_end(self, run: TurnRun[Any], recorder: Recorder, *, cancellable: bool = True) -> FinishedTurn:
        run.hooks.notify(TurnHook.before_turn, recorder.header)
        try:
            finished = await self._drive(run, recorder, cancellable)
        except BaseException as exc:
            run.hooks.notify(TurnHook.after_turn, exc)
            raise
        run.hooks.notify(TurnHook.after_turn, finished.record)
        return finished

    async def _drive(self, run: TurnRun[Any], recorder: Recorder, cancellable: bool) -> FinishedTurn:
        """Run the graph in the driver task, and close the record whatever ends it."""
        reserve = _reserve(recorder)
        now = self._clock.monotonic()
        run.deadline = (now if run.arrived_at is None else run.arrived_at) + recorder.snapshot.config.timeout_seconds
        with turn_deadline(self._clock, run.deadline - reserve):
            driver = asyncio.create_task(self._walk_for(run, recorder))
        reason = await run.wait_for(driver, max(0.0, run.deadline - reserve - now), cancellable=cancellable)
        if driver.done() and not driver.cancelled():
            failure = driver.exception()
            if failure is None:
                close = self._close(recorder, run.steps)
                return await _in_time(close, run.deadline - self._clock.monotonic(), run.decision_id)
            if recorder.saved is None:
                self._close_late_opening(recorder)
            if recorder.saved is None or isinstance(failure, TurnTakenOverError):
                raise _refusal(failure) from failure
            _log.error("a turn ended in an exception", exc_info=failure)
            unavailable = isinstance(failure, RecordUnavailableError)
            reason = InterruptReason.RECORD if unavailable else InterruptReason.FAILURE
        # From here on the driver can neither write nor call anything, whether it obeys its cancellation or not.
        recorder.fence()
        driver.cancel()
        driver.add_done_callback(ignore_result)
        if run.fenced:
            raise TurnTakenOverError("another process may have this turn")
        return await self._interrupt(run, recorder, reason)

    async def _walk_for(self, run: TurnRun[Any], recorder: Recorder) -> None:
        run.hooks.notify(TurnHook.before_node, START)
        async for step in self._walk(recorder):
            run.add_step(step)
            if run.requested is not None:
                await run.requested.acquire()

    async def _interrupt(self, run: TurnRun[Any], recorder: Recorder, reason: InterruptReason) -> FinishedTurn:
        """End a turn that did not end by itself. Its ending has its own time limit, beyond the deadline."""
        if recorder.saved is None:
            self._close_late_opening(recorder)
            raise _refusal(RecordUnavailableError("the turn ended before its opening row"))
        # Settling a call in flight gets extra time, so that its outcome does not stay unknown for lack of time.
        ending = max(_reserve(recorder), _MIN_SECONDS_TO_CLOSE) + self._external.settle_seconds
        # Many turns may reach their deadline together. They are closed in batches, and the time of each begins with
        # its batch; otherwise all of them would wait for each other until their time is over.
        async with self._closing:
            with turn_deadline(self._clock, self._clock.monotonic() + ending):
                return await _in_time(self._close_interrupted(run, recorder, reason), ending, run.decision_id)

    def _close_late_opening(self, recorder: Recorder) -> None:
        """Close the opening row of a turn that was refused because the row was not committed, if it is committed after all."""
        if (opening := recorder.opening) is not None:
            self.start(lambda run: self._finish_opened(run, opening), decision_id=recorder.header.decision_id)

    async def _finish_opened(self, run: TurnRun[Any], opening: asyncio.Future[None]) -> None:
        await run.wait_for(opening, _LATE_OPENING_SECONDS)
        # Also at a shutdown the write gets some time.
        await asyncio.wait({opening}, timeout=_MIN_SECONDS_TO_CLOSE)
        failure = opening.exception() if opening.done() else None
        if failure is not None and not getattr(failure.__cause__, "unknown", False):
            return
        for seconds in _LATE_CLOSE_SECONDS if opening.done() else ():
            with suppress(RecordError, ServiceError):
                await self.resume(run, ask_model=False)
                return
            if run.cancelled_for is not None:
                break
            await asyncio.sleep(seconds)
        _log.warning("the sweeper will close decision %s, if it was opened", run.decision_id)

    async def _close_interrupted(self, run: TurnRun[Any], recorder: Recorder, reason: InterruptReason) -> FinishedTurn:
        """Walk the turn over its record to a decision, with `reason` as its last entry, and close it."""
        entries = recorder.ended_by(reason)
        while True:
            again = self._recorder(run, recorder.header, recorder.snapshot, entries, recorder.saved)
            try:
                steps = [step async for step in self._walk(again)]
                break
            except Exception:
                _log.exception("a turn could not be walked over its record")
                if len(entries) == 1:
                    raise
                # This version cannot walk the whole record: keep what it can walk, or in the end only the interruption.
                again.fence()
                passed = again.ended_by(InterruptReason.CRASH, only_passed=True)
                entries = passed if len(passed) < len(entries) else [passed[-1].replace(n=0)]
        finished = await self._close(again, steps)
        run.add_missing_steps(steps)
        return finished

    async def _close(self, recorder: Recorder, steps: Sequence[Step]) -> FinishedTurn:
        ended_at = max(self._clock.now(), recorder.header.started_at)
        record = compose_record(recorder, steps, ended_at)
        try:
            return FinishedTurn(await self.audit.close_decision_log(record), steps[-1].turn)
        except RecordUnavailableError as exc:
            raise outcome_unknown(record.header.decision_id) from exc


def step(engine: LLMAgentEngine, context: DecisionContext) -> AsyncIterator[Step]:
    """Run one turn of `engine` node by node: `(state, outcome, changed fields)` after each."""
    return engine.step(context)


def _refusal(failure: BaseException) -> GraphAgentError:
    if isinstance(failure, TurnTakenOverError):
        return failure
    if isinstance(failure, RecordUnavailableError):
        text = "The request cannot be recorded right now. Please try again later."
        return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text)
    _log.error("a turn failed before its opening row", exc_info=failure)
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, "The request cannot be served right now.")


def _reserve(recorder: Recorder) -> float:
    """Return the seconds at a turn's end that are kept for ending it."""
    return min(1.0, recorder.snapshot.config.timeout_seconds / 10)


async def _in_time(close: Coroutine[Any, Any, FinishedTurn], seconds: float, decision_id: str) -> FinishedTurn:
    """Await the closing of a record for `seconds`, two at least. A log that never answers leaves the row to the sweeper."""
    try:
        return await run_with_timeout(max(seconds, _MIN_SECONDS_TO_CLOSE), close)
    except TimeoutError as exc:
        raise outcome_unknown(decision_id) from exc
