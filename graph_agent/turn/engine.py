"""The engine: connects a model, tools and a constitution, and starts the runs of the compiled graph."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.graph.step import Step
from graph_agent.llm.adapter_call import AdapterCall, model_name
from graph_agent.models.canonical import canonical_json
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AgentDecision, ConfirmationAnswer, DecisionContext, OutcomeCategory
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import PlanChoice
from graph_agent.models.record import NO_MODEL, DecisionOpening, DecisionRecord, InterruptReason, RecordHeader
from graph_agent.models.sources import NO_CALLS
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.ports import LLMAdapter, ToolExecutor, ToolServer, call_seconds_of
from graph_agent.record.audit_writer import AuditWriter
from graph_agent.tools.plain_executor import PlainExecutor
from graph_agent.tools.served_policy import ServedPolicy
from graph_agent.turn.external import ExternalPorts
from graph_agent.turn.finished import FinishedTurn, refused_record, storable
from graph_agent.turn.handle import TurnHandle
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.reading import Reading, reading_record
from graph_agent.turn.recorded_plan import Repeatable, repeatable
from graph_agent.turn.recorder import Recorder
from graph_agent.turn.run import PlainSession, TurnRun, TurnSession, TurnStart
from graph_agent.turn.setup import EngineOptions, EnginePorts, TurnSetup
from graph_agent.turn.undo import Undoable, load_own, undoable

_SETTLE_SECONDS = 2.0
"""The time of a settlement; a quarter of the turn if that is shorter."""

WHOLE_PLAN = PlanChoice()

T = TypeVar("T")


class LLMAgentEngine(TurnSetup):
    """Runs turns: takes a `DecisionContext`, returns an `AgentDecision`, and records everything in between.

    One engine serves any number of turns at the same time, in one event loop.
    """

    def __init__(
        self,
        llm_adapter: LLMAdapter,
        tool_executor: ToolExecutor | ToolServer,
        constitution: str,
        max_iterations: int = 5,
        *,
        ports: EnginePorts | None = None,
        options: EngineOptions | None = None,
    ) -> None:
        """`constitution` is the text; it is parsed here and raises `ConstitutionError`.

        Of the parameters of `generate` and `execute`, only those are passed that the adapter and the executor accept. Raises
        `ConfigurationError` if one of them cannot be called.
        """
        ports, options = ports or EnginePorts(), options or EngineOptions()
        config = options.config or AgentEngineConfig(max_iterations=max_iterations)
        parsed = Constitution.parse(constitution)
        model, tools = AdapterCall(llm_adapter), tool_executor
        if not isinstance(tools, ToolServer):
            tools = PlainExecutor(tools, parsed.grants, model)
        call_seconds = options.call_seconds or call_seconds_of(tools)
        external = ExternalPorts(
            call_model=model,
            tools=tools,
            ids=ports.ids,
            signer=ports.signer,
            confirmations=ports.confirmations,
            approvals=ports.approvals,
            permitted=ports.permitted,
            permit=getattr(ports.audit, "permit", None),
            call_seconds=min(call_seconds, config.iteration_timeout or call_seconds),
            settle_seconds=min(_SETTLE_SECONDS, config.timeout_seconds / 4),
            generate_seconds=config.iteration_timeout,
        )
        served = ServedPolicy(
            parsed,
            tools,
            # A server that is still starting is waited for, but time for the turn itself has to remain.
            seconds=config.timeout_seconds / 2,
            allow_missing_tools=options.allow_missing_tools,
            conditions=options.conditions,
        )
        super().__init__(
            ports,
            external,
            served,
            config,
            options.system_prompt or parsed.prompt,
            model_name(llm_adapter),
            options.graph,
            options.rule_set,
            options.rules_in_force,
            options.own_config,
            options.system_prompt,
        )
        self._hooks = tuple(options.hooks)

    @property
    def constitution(self) -> Constitution:
        """The constitution of the next turn."""
        return self.served.constitution

    @property
    def audit(self) -> AuditWriter:
        """The writer of the record."""
        return self.ports.audit

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
        finished = await self._start_plain(context, decision_id, hooks).result()
        assert finished is not None, "a run that starts from a context has a record"
        return finished

    async def call(
        self,
        user_id: str,
        called: Sequence[FunctionCall],
        *,
        conversation_id: str | None = None,
        roles: tuple[str, ...] = (),
        typed: bool = False,
        time_zone: str = "",
    ) -> FinishedTurn:
        """Make a decision without a model: the guard judges the calls as one batch, and everything is recorded as usual.

        A call that needs confirmation ends the decision with its question; see `answer`. So does a call that is limited per
        message, unless the user has `typed` the calls, as one message. Raises `ServiceError` VALIDATION_ERROR for arguments
        that are not plain JSON.
        """
        conversation_id = conversation_id or self.ports.ids.new()
        try:
            context = DecisionContext.for_calls(user_id, called, conversation_id, roles, typed=typed, time_zone=time_zone)
        except (ValueError, TypeError, RecursionError) as exc:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, "The calls cannot be recorded.") from exc
        return await self.run(context)

    async def answer(self, asked: FinishedTurn, *, yes: bool, roles: tuple[str, ...] | None = None) -> FinishedTurn:
        """Answer the question about an action with which a decision has ended: after a yes exactly that action is done.

        `roles` are those of the user now; by default those with which the decision was made.
        """
        pending = asked.decision.pending_action
        assert pending is not None, "the decision asks nothing"
        # The caller has given the arguments of the call, so it has all of them.
        answer = ConfirmationAnswer(pending_action=pending.id, yes=yes, read=pending.whole_digest)
        return await self.run(asked.answered(answer, roles=roles))

    async def undo(self, decision_id: str, user_id: str, *, roles: tuple[str, ...] = ()) -> FinishedTurn:
        """Make a decision that undoes what a decision of the user has done, as far as its tools can; see `answer`.

        It ends with a question, or with why nothing is undone. Raises `ServiceError` DECISION_NOT_FOUND, also for a decision of
        another user, and NOT_UNDOABLE.
        """
        record, found = await self.undoable(decision_id, user_id)
        undoes, conversation_id = found.decision(decision_id), record.header.context.conversation_id
        return await self.run(DecisionContext.for_calls(user_id, found.called, conversation_id, roles, undoes=undoes))

    async def undoable(self, decision_id: str, user_id: str) -> tuple[DecisionRecord, Undoable]:
        """Return a decision of the user, and what can be undone of it now. Raises `ServiceError` DECISION_NOT_FOUND."""
        record = await load_own(self.audit, decision_id, user_id)
        policy = (await self.prepare()).policy
        undone_by, settled = await self.audit.undone_by(decision_id), await self.audit.settled(decision_id)
        return record, undoable(record, policy, undone_by, settled, self.ports.clock.now())

    async def propose(
        self, decision_id: str, user_id: str, choice: PlanChoice = WHOLE_PLAN, *, roles: tuple[str, ...] = ()
    ) -> FinishedTurn:
        """Make a decision that asks about a plan to do again what a decision of the user has done; see `answer`.

        Code makes the plan from the record, and `choice` is what of it the user has chosen. Raises `ServiceError`
        DECISION_NOT_FOUND, also for a decision of another user, NOT_REPEATABLE, and VALIDATION_ERROR for a choice that permits
        more.
        """
        record, found = await self.repeatable(decision_id, user_id, choice.job)
        conversation_id = record.header.context.conversation_id
        return await self.run(DecisionContext.for_plan(user_id, found.proposed(choice), conversation_id, roles))

    async def repeatable(self, decision_id: str, user_id: str, job: str = "") -> tuple[DecisionRecord, Repeatable]:
        """Return a decision of the user, and what of it a plan permits again, or a standing one for a job.

        Raises `ServiceError` DECISION_NOT_FOUND.
        """
        record = await load_own(self.audit, decision_id, user_id)
        policy, settled = (await self.prepare()).policy, await self.audit.settled(decision_id)
        kept = self.audit.keeps_results
        earlier = await self.audit.earlier_calls(record.header.context, decision_id) if kept else NO_CALLS
        return record, repeatable(record, policy, settled, earlier.results, job)

    async def finish(self, decision_id: str, *, ask_model: bool) -> FinishedTurn | None:
        """Finish a turn that another process left open, from its record; None if there is no such turn.

        With `ask_model` it continues live, if that is possible; otherwise it ends as interrupted.
        """
        start = TurnStart(asks_model=ask_model, follows_yes=ask_model)
        return await self.start(start, PlainSession(), decision_id).result()

    async def step(self, context: DecisionContext) -> AsyncIterator[Step]:
        """Run a turn and yield a step after each node; the next node waits until its step is requested.

        Leaving early closes the turn as interrupted. The turn's deadline also holds while it waits.
        """
        run = self._start_plain(context)
        run.requested = asyncio.Semaphore(0)
        try:
            async for step in run.stream_steps():
                yield step
                run.request_step()
        finally:
            run.cancel()
            await run.ended()
        await run.result()

    def start(
        self,
        start: TurnStart,
        session: TurnSession[T],
        decision_id: str | None = None,
        *,
        user_id: str | None = None,
        hooks: Iterable[TurnHook] = (),
    ) -> TurnRun[T]:
        """Start a run, which continues whatever becomes of the caller. `session` gives it its result."""
        all_hooks = [*(make() for make in self._hooks), *hooks]
        run = TurnRun(self, start, session, decision_id or self.ports.ids.new(), user_id, all_hooks)
        run.begin()
        return run

    async def refuse(
        self, user_id: str, conversation_id: str, message: str, outcome: OutcomeCategory, reply: str
    ) -> DecisionRecord:
        """Record that `message` was answered with the fixed `reply` and did not become a turn.

        The log row is opened and closed at once. Raises `RecordUnavailableError`, and `ConfigurationError` if the engine cannot
        run turns.
        """
        context = DecisionContext(user_id=user_id, message=storable(message), conversation_id=conversation_id)
        return await self._write_closed(context, lambda header: refused_record(header, outcome, reply))

    async def record_reading(self, user_id: str, conversation_id: str, reading: Reading) -> DecisionRecord:
        """Record what a client reads of a server beside its calls, before it reads it: the calls after it are tainted by it.

        Raises as `refuse`.
        """
        message = storable(f"read a {reading.kind}: {canonical_json(dict(reading.named))}")
        context = DecisionContext(user_id=user_id, message=message, conversation_id=conversation_id)
        return await self._write_closed(context, lambda header: reading_record(header.replace(model=NO_MODEL), reading))

    async def _write_closed(
        self, context: DecisionContext, record_of: Callable[[RecordHeader], DecisionRecord]
    ) -> DecisionRecord:
        async def write() -> DecisionRecord:
            snapshot = await self.prepare()
            record = record_of(self.header(context, snapshot))
            return await self.audit.write_closed(DecisionOpening.of(record.header, snapshot.texts, snapshot.rule_set), record)

        # To its end, so that a caller who is cancelled leaves no open row.
        handle: TurnHandle[DecisionRecord] = TurnHandle("", None)
        handle.start(write(), self.runs)
        return await handle.result()

    def add_hook(self, make: Callable[[], TurnHook]) -> None:
        """Give each turn that starts from now on another hook."""
        self._hooks = (*self._hooks, make)

    @property
    def open_turns(self) -> int:
        """The number of turns that run in this process."""
        return len(self.runs)

    def running(self, decision_id: str) -> TurnHandle[object] | None:
        """Return the run of a turn if it runs in this engine and its user is known."""
        runs = self.runs
        return next((run for run in runs if run.decision_id == decision_id and run.user_id is not None), None)

    def steps_of(self, record: DecisionRecord, snapshot: PolicySnapshot) -> AsyncIterator[Step]:
        """Walk a closed turn again over its record, without asking any port. `snapshot` is the one that its header names.

        Raises `RecordError` at the first step that this version of the graph takes differently.
        """
        clock, ends_us = self.ports.clock, record.state_ends_us
        return Recorder(record.header, snapshot, clock=clock, replayed=record.entries, ends_us=ends_us).replay(self.graph)

    async def aclose(self) -> None:
        """End every turn that is still running, and wait until each is closed."""
        # A request that was accepted meanwhile may have started another turn.
        while runs := list(self.runs):
            for run in runs:
                run.cancel(InterruptReason.SHUTDOWN)
            await asyncio.gather(*(run.ended() for run in runs), asyncio.sleep(0))

    def _start_plain(
        self, context: DecisionContext, decision_id: str | None = None, hooks: Iterable[TurnHook] = ()
    ) -> TurnRun[FinishedTurn | None]:
        return self.start(TurnStart(context), PlainSession(), decision_id, user_id=context.user_id, hooks=hooks)


def step(engine: LLMAgentEngine, context: DecisionContext) -> AsyncIterator[Step]:
    """Run one turn of `engine` node by node: `(state, outcome, changed fields)` after each."""
    return engine.step(context)
