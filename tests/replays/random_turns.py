"""Turns of every kind: every decision, every outcome and every kind of failure, with random variations from one seed."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.errors import (
    InvalidResponseError,
    LLMError,
    LLMTimeoutError,
    RateLimitError,
    RecordUnavailableError,
    ServiceError,
    ToolErrorCode,
)
from graph_agent.graph.build import build_graph
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, DecisionType, Message, OutcomeCategory, PendingAction
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, TokenUsage, ToolDeclaration, select_declarations
from graph_agent.models.record import DecisionRecord
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.ports import ToolServer
from graph_agent.record.audit_writer import AuditWriter, MemoryConfirmations
from graph_agent.reply.fixed import RATE_LIMIT_REPLY
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.frozen_clock import freeze_loop_time, pass_time
from tests.scripted_turns import TableServer, asks, calls, done, ends, failed, grouped

FACTS = "\n## Facts\n- tasks: list_tasks()\n"
COUNTED = ConditionsFile(
    "permit (principal, action, resource) when { context.time.hour < 24 && (context.tainted || context.used.day.writes < 99) };"
    'forbid (principal, action == Action::"add_task", resource) unless { context.result has tasks };'
)

ASKED = ConditionsFile(
    "permit (principal, action, resource);"
    'forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };'
)
_ADDS = '- add_task: "Add task[ {description}]"'
IN_PLANS = Constitution.load().text.replace(_ADDS, f"{_ADDS} (in plans)")

T = TypeVar("T")

UNKNOWN = failed(ToolErrorCode.TIMEOUT_ERROR, "no answer in time")
TASK = "00000000-0000-0000-0000-0000000000aa"


Answer = LLMResponse | LLMError | Callable[[], None] | None


class PreparedModel:
    """An adapter that returns the prepared answers. None never returns, nor does a function, after it was called."""

    model = "prepared"

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.hanging = asyncio.Event()

    async def generate(
        self,
        messages: list[LLMMessage],  # noqa: ARG002 (the port's parameters; prepared answers do not depend on them)
        tools: list[ToolDeclaration],  # noqa: ARG002 (as above)
        temperature: float = 0.0,  # noqa: ARG002 (as above)
        max_tokens: int = 1024,  # noqa: ARG002 (as above)
        *,
        system_instruction: str | None = None,  # noqa: ARG002 (as above)
    ) -> LLMResponse:
        answer = self.answers.pop(0)
        if callable(answer):
            answer()
            await asyncio.Event().wait()
        if answer is None:
            self.hanging.set()
            await asyncio.Event().wait()
        if isinstance(answer, LLMError):
            raise answer
        assert isinstance(answer, LLMResponse)
        return answer

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select_declarations(TASK_TOOLS, tools)


class CrashingWriter:
    """An `AuditWriter` of a process that crashes after some writes: nothing that it does later reaches the log."""

    def __init__(self, writer: AuditWriter, writes: int) -> None:
        self._writer = writer
        self._left = writes
        self.crashed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._writer, name)

        async def written(*arguments: Any, **named: Any) -> Any:
            if self._left <= 0:
                self.crashed.set()
                raise RecordUnavailableError("the process has crashed")
            self._left -= 1
            return await method(*arguments, **named)

        return method if name in ("counts_uses", "load", "permit", "texts") else written

    def leave_open(self, decision_id: str) -> None:
        """A process that crashes remembers nothing."""


class FailingIds(RandomIds):
    """An id source that raises an exception `failures` times."""

    def __init__(self) -> None:
        self.failures = 0

    def new(self) -> str:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no id")
        return super().new()


class RandomTurns:
    """Runs turns on one log, with one manual clock and one signing key."""

    def __init__(self, writer: AuditWriter, seed: int, *, real_tools: ToolServer | None = None) -> None:
        self.writer = writer
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.reasons = itertools.cycle(["unclear_intent", "multiple_matches", "missing_context"])
        self.ids = FailingIds()
        self.signer = Signer(b"a key for tests only")
        self.confirmations = MemoryConfirmations()
        self.real_tools = real_tools
        self.model = PreparedModel()
        self.server = TableServer(previews={"delete_task": done({"description": "call mom"})})
        self._engines: dict[Any, LLMAgentEngine] = {}
        self._graph = build_graph()

    def engine(
        self,
        *,
        writer: AuditWriter | None = None,
        tools: Any = None,
        conditions: ConditionsFile | None = None,
        in_plans: bool = False,
        **config: Any,
    ) -> LLMAgentEngine:
        key = (id(tools), id(conditions), in_plans, tuple(sorted(config.items())))
        if writer is None and tools is None and key in self._engines:
            return self._engines[key]
        model: Any = self.model
        engine = LLMAgentEngine(
            model,
            tools or self.server,
            (IN_PLANS if in_plans else Constitution.load().text) + ("" if conditions is None else FACTS),
            **grouped(
                config=AgentEngineConfig(**config),
                audit=writer or self.writer,
                clock=self.clock,
                ids=self.ids,
                signer=self.signer,
                confirmations=self.confirmations,
                # Compiling a graph for every crashed process would take most of the time of the test.
                graph=self._graph,
                conditions=conditions,
            ),
        )
        if writer is None and tools is None:
            self._engines[key] = engine
        return engine

    async def turn(
        self,
        *answers: Answer,
        context: DecisionContext | None = None,
        engine: LLMAgentEngine | None = None,
    ) -> DecisionRecord:
        """Run one turn to its end, after advancing the clock a little."""
        self.model.answers = list(answers)
        self.clock.advance(milliseconds=self.random.randrange(1, 5000))
        finished = await (engine or self.engine()).run(context or self.context())
        return finished.record

    def context(self, message: str = "add a task to call mom", **more: Any) -> DecisionContext:
        user = f"user {self.random.randrange(5)}"
        return asks(message, **{"user_id": user, "conversation_id": f"of {user}", **more})

    def word(self) -> str:
        return self.random.choice(["call mom", "naïve café ☕", "買い物", "a\u202eb", "x" * 300, 'quote " and \\ slash'])

    async def pending(self, context: DecisionContext) -> PendingAction:
        """Run a turn that asks for a confirmation, and return the pending action."""
        record = await self.turn(calls(("delete_task", {"task_id": TASK})), context=context)
        assert record.decision.pending_action is not None
        return record.decision.pending_action

    async def answer(self, message: str, **change: Any) -> DecisionRecord:
        """Run the turn of the user's answer to a confirmation, whose fields are replaced by `change` first."""
        context = self.context("delete the task")
        pending = (await self.pending(context)).replace(**change)
        return await self.turn(says("Well."), context=context.replace(message=message, pending_confirmation=pending))


Kind = Callable[[RandomTurns], Awaitable[DecisionRecord]]


async def answered(turns: RandomTurns) -> DecisionRecord:
    usage = TokenUsage(prompt_tokens=turns.random.randrange(1000), completion_tokens=3, total_tokens=17)
    return await turns.turn(says(f"Here you are: {turns.word()}.").replace(usage=usage))


async def answered_after_a_question(turns: RandomTurns) -> DecisionRecord:
    question = Message(
        role="assistant",
        content="Which task do you mean?",
        timestamp=turns.clock.now(),
        decision_type=DecisionType.ASK_CLARIFICATION,
    )
    return await turns.turn(says("Thank you."), context=turns.context("the first", message_history=[question]))


async def added(turns: RandomTurns) -> DecisionRecord:
    call = ("add_task", {"description": turns.word()})
    return await turns.turn(
        calls(call), says(f"Added {turns.word()}."), engine=turns.engine(tell_time=True, read_retries=2, conditions=COUNTED)
    )


async def several_at_once(turns: RandomTurns) -> DecisionRecord:
    count = turns.random.randrange(2, 9)
    requested: list[tuple[str, dict[str, Any]]] = [
        ("add_task", {"description": f"{turns.word()} {place % 3}"}) for place in range(count)
    ]
    return await turns.turn(calls(("list_tasks", {}), *requested, content="Let me see."), says("Done."))


async def a_long_list(turns: RandomTurns) -> DecisionRecord:
    tasks = [{"id": TASK, "description": "x" * 200, "z": 1, "a": 2.5} for _ in range(turns.random.randrange(10, 100))]
    turns.server.answers["list_tasks"] = done({"zeta": list(tasks), "alpha": list(tasks), "count": len(tasks)})
    return await turns.turn(calls(("list_tasks", {"status": "all"})), says("You have many tasks."))


async def asked_by_form(turns: RandomTurns) -> DecisionRecord:
    return await turns.turn(calls(("ask_user", {"question": "Which one?", "reason": next(turns.reasons)})))


async def asked_in_text(turns: RandomTurns) -> DecisionRecord:
    return await turns.turn(says("Which task do you mean, the first or the second?"))


async def declined_by_form(turns: RandomTurns) -> DecisionRecord:
    return await turns.turn(calls(("decline", {"text": "I can only help with tasks."})))


async def form_beside_a_call(turns: RandomTurns) -> DecisionRecord:
    both = calls(("list_tasks", {}), ("decline", {"text": "No."}), ("ask_user", {"question": "What?"}))
    return await turns.turn(both, says("There is nothing on your list."))


async def the_model_failed(turns: RandomTurns) -> DecisionRecord:
    failures: list[LLMError] = [
        RateLimitError(retry_after=2.5),
        LLMTimeoutError(),
        InvalidResponseError(),
        LLMError(code="BLOCKED"),
        LLMError(),
        LLMError(code="UNHEARD_OF"),
    ]
    return await turns.turn(turns.random.choice(failures))


async def the_model_failed_after_a_change(turns: RandomTurns) -> DecisionRecord:
    return await turns.turn(calls(("add_task", {"description": turns.word()})), RateLimitError())


async def the_model_answered_nonsense(turns: RandomTurns) -> DecisionRecord:
    twice = [FunctionCall(name="list_tasks", id="1"), FunctionCall(name="list_tasks", id="1")]
    nonsense = [
        LLMResponse(finish_reason="stop"),
        LLMResponse(finish_reason="tool_calls"),
        LLMResponse(finish_reason="tool_calls", function_calls=twice),
        LLMResponse(finish_reason="tool_calls", function_calls=[FunctionCall(name="")]),
        says("\ud800 is no text"),
        calls(("ask_user", {})),
    ]
    return await turns.turn(turns.random.choice(nonsense))


async def truncated_at_the_token_limit(turns: RandomTurns) -> DecisionRecord:
    cut = ends("max_tokens", turns.random.choice(["Your tasks are the foll", ""]))
    return await turns.turn(cut)


async def the_iteration_cap(turns: RandomTurns) -> DecisionRecord:
    rounds = [calls(("add_task", {"description": f"{number}"})) for number in range(3)]
    return await turns.turn(*rounds, engine=turns.engine(max_iterations=3))


async def refused_calls(turns: RandomTurns) -> DecisionRecord:
    requested: list[tuple[str, dict[str, Any]]] = [
        ("drop_table", {}),
        ("add_task", {"zeta": 1, "alpha": 2, "description": 5, "user_id": "eve"}),
        ("add_task", {"zeta": 1, "alpha": 2, "description": 5}),
        ("update_task", {"description": {"b": 1, "a": [1, 2]}}),
        ("add_task", {"description": "x" * 20_000}),
    ]
    turns.random.shuffle(requested)
    return await turns.turn(calls(*requested), says("That did not work."))


async def a_foreign_user(turns: RandomTurns) -> DecisionRecord:
    return await turns.turn(calls(("list_tasks", {"user_id": "eve"})), says("Here is what I found."))


async def the_tool_failed(turns: RandomTurns) -> DecisionRecord:
    code = turns.random.choice([ToolErrorCode.NOT_FOUND, ToolErrorCode.DATABASE_ERROR, ToolErrorCode.TOOL_EXECUTION_ERROR])
    turns.server.answers["complete_task"] = failed(code)
    again = calls(("complete_task", {"task_id": TASK}))
    return await turns.turn(again, again, says("It could not be done."))


async def the_read_failed_and_was_retried(turns: RandomTurns) -> DecisionRecord:
    left = [done({"tasks": []}), failed(ToolErrorCode.TIMEOUT_ERROR)]
    turns.server.answers["list_tasks"] = lambda _: left.pop() if left else done({})
    return await turns.turn(calls(("list_tasks", {})), says("Nothing."), engine=turns.engine(read_retries=3))


async def unknown_result(turns: RandomTurns) -> DecisionRecord:
    turns.server.answers["add_task"] = UNKNOWN
    settled = turns.random.choice([done({"preview": "x"}), failed(ToolErrorCode.TOOL_EXECUTION_ERROR), UNKNOWN])
    turns.server.settlements.append(settled)
    call = ("add_task", {"description": turns.word()})
    return await turns.turn(calls(call, call), says("I tried."))


async def unknown_result_without_a_ledger(turns: RandomTurns) -> DecisionRecord:
    server = TableServer({"add_task": UNKNOWN}, ledger=False)
    return await turns.turn(
        calls(("add_task", {"description": turns.word()})), says("I tried."), engine=turns.engine(tools=server)
    )


async def asked_to_confirm(turns: RandomTurns) -> DecisionRecord:
    missing = failed(ToolErrorCode.NOT_FOUND)
    preview = turns.random.choice([done({"description": turns.word()}), done({}), UNKNOWN, missing])
    turns.server.previews["delete_task"] = preview
    batch = calls(("list_tasks", {}), ("delete_task", {"task_id": TASK}), ("add_task", {"description": "x"}))
    return await turns.turn(batch, says("There is no such task."))


async def confirmed(turns: RandomTurns) -> DecisionRecord:
    outcome = turns.random.choice([done({"preview": "x"}), failed(ToolErrorCode.NOT_FOUND), UNKNOWN])
    turns.server.answers["delete_task"] = outcome
    if outcome is UNKNOWN:
        turns.server.settlements.append(done({"preview": "x"}))
    return await turns.answer(turns.random.choice(["yes", "Yes, please!", "ok"]))


async def covered_by_a_plan(turns: RandomTurns) -> DecisionRecord:
    """Agree to a plan of two additions, of which one may not have the bounds of its line."""
    context = turns.context("add them", conversation_id=f"plan {turns.ids.new()}")
    engine = turns.engine(in_plans=True, conditions=ASKED)
    lines = [{"tool": "add_task", "arguments": {"description": {"is": ["one", "two"]}}, "times": 2}]
    asked = await turns.turn(calls(("propose_plan", {"lines": lines})), context=context, engine=engine)
    additions = [("add_task", {"description": text}) for text in ("one", turns.random.choice(["two", "three"]))]
    agreed = context.replace(message="yes", pending_confirmation=asked.decision.pending_action)
    return await turns.turn(*map(calls, additions), says("Added."), context=agreed, engine=engine)


async def declined_by_the_user(turns: RandomTurns) -> DecisionRecord:
    return await turns.answer("no, keep it")


async def neither_yes_nor_no(turns: RandomTurns) -> DecisionRecord:
    return await turns.answer("what is the weather like")


async def expired_confirmation(turns: RandomTurns) -> DecisionRecord:
    context = turns.context("delete the task")
    pending = await turns.pending(context)
    turns.clock.advance(minutes=6)
    return await turns.turn(says("Too late."), context=context.replace(message="yes", pending_confirmation=pending))


async def invalid_confirmation(turns: RandomTurns) -> DecisionRecord:
    return await turns.answer("yes", tool_name="add_task")


async def used_confirmation(turns: RandomTurns) -> DecisionRecord:
    context = turns.context("delete the task")
    pending = await turns.pending(context)
    again = context.replace(message="yes", pending_confirmation=pending)
    await turns.turn(context=again)
    return await turns.turn(says("That was done before."), context=again)


async def deadline_of_the_model(turns: RandomTurns) -> DecisionRecord:
    steps = [calls(("add_task", {"description": turns.word()}))] * turns.random.randrange(2)
    return await turns.turn(*steps, lambda: turns.clock.advance(seconds=30))


async def deadline_of_a_tool(turns: RandomTurns) -> DecisionRecord:
    turns.server.answers["add_task"] = lambda _: _never(turns.clock)
    turns.server.settlements.append(done({"preview": "x"}))
    batch = calls(("list_tasks", {}), ("add_task", {"description": "x"}), ("add_task", {"description": "y"}))
    return await turns.turn(batch, engine=turns.engine(timeout_seconds=0.06))


async def cancelled(turns: RandomTurns) -> DecisionRecord:
    steps = [calls(("add_task", {"description": turns.word()}))] * turns.random.randrange(2)
    return await _interrupt(turns, steps, lambda task, _: _cancel(task))


async def shut_down(turns: RandomTurns) -> DecisionRecord:
    return await _interrupt(turns, [], lambda _, engine: engine.aclose())


async def failed_in_a_node(turns: RandomTurns, times: int = 1) -> DecisionRecord:
    """A node raises an unexpected exception."""
    name = turns.ids.new()
    turns.model.answers = [calls(("add_task", {"description": "x"}), ("delete_task", {"task_id": TASK}))]
    turns.ids.failures = times
    record = (await turns.engine().run(turns.context(), decision_id=name)).record
    turns.ids.failures = 0
    return record


async def failed_in_a_node_twice(turns: RandomTurns) -> DecisionRecord:
    """The node raises it again when the turn is closed."""
    return await failed_in_a_node(turns, 2)


async def crashed_and_was_closed(turns: RandomTurns) -> DecisionRecord:
    return await _crash(turns, ask_model=False)


async def crashed_and_was_resumed(turns: RandomTurns) -> DecisionRecord:
    return await _crash(turns, ask_model=True)


async def crashed_with_a_confirmation(turns: RandomTurns) -> DecisionRecord:
    """The process crashes before, during or after the confirmed call."""
    context = turns.context("delete the task")
    pending = await turns.pending(context)
    turns.server.settlements += [done({"preview": "x"})] * 2
    context = context.replace(message="yes", pending_confirmation=pending)
    record = await _crash(turns, ask_model=turns.random.random() < 0.5, context=context, writes=turns.random.randrange(1, 4))
    turns.server.settlements.clear()
    return record


async def crashed_at_a_call_without_a_ledger(turns: RandomTurns) -> DecisionRecord:
    """The process that resumes the turn does not know whether the call was sent."""
    name, server = turns.ids.new(), TableServer(ledger=False)
    turns.model.answers = [calls(("add_task", {"description": turns.word()}), ("list_tasks", {})), says("Done.")]
    # The opening row and the operation are written.
    writer = CrashingWriter(turns.writer, 2)
    with suppress(ServiceError):
        crashed = turns.engine(writer=writer, tools=server).run(turns.context(), decision_id=name)
        await _until_crashed(turns, writer, crashed)
    finished = await turns.engine(tools=server).finish(name, ask_model=True)
    assert finished is not None
    return finished.record


async def crashed_twice(turns: RandomTurns) -> DecisionRecord:
    """The process that resumed the turn crashes too."""
    return await _crash(turns, ask_model=turns.random.random() < 0.5, crashes=2)


async def refused_before_the_graph(
    turns: RandomTurns, outcome: OutcomeCategory = OutcomeCategory.RATE_LIMITED
) -> DecisionRecord:
    context = turns.context()
    return await turns.engine().refuse(context.user_id, context.conversation_id, context.message, outcome, RATE_LIMIT_REPLY)


async def refused_for_its_text(turns: RandomTurns) -> DecisionRecord:
    return await refused_before_the_graph(turns, OutcomeCategory.USER_INPUT)


async def with_the_real_task_server(turns: RandomTurns) -> DecisionRecord:
    assert turns.real_tools is not None
    engine = turns.engine(tools=turns.real_tools)
    user = turns.context()
    requested: list[tuple[str, dict[str, Any]]] = [
        ("add_task", {"description": turns.word()}),
        ("list_tasks", {}),
        ("update_task", {"task_id": "?", "zeta": 1}),
    ]
    first = await turns.turn(calls(*requested), says("Added."), context=user, engine=engine)
    if turns.random.random() < 0.5:
        return first
    task_id = first.invocations[0].result["task"]["id"]
    asked = await turns.turn(calls(("delete_task", {"task_id": task_id})), context=user, engine=engine)
    pending = asked.decision.pending_action
    answer = turns.random.choice(["yes", "no"])
    return await turns.turn(context=user.replace(message=answer, pending_confirmation=pending), engine=engine)


KINDS: tuple[Kind, ...] = (
    answered, answered_after_a_question, added, several_at_once, a_long_list, asked_by_form, asked_in_text,
    declined_by_form, form_beside_a_call, the_model_failed, the_model_failed_after_a_change, the_model_answered_nonsense,
    truncated_at_the_token_limit, the_iteration_cap, refused_calls, a_foreign_user, the_tool_failed,
    the_read_failed_and_was_retried, unknown_result, unknown_result_without_a_ledger, asked_to_confirm, confirmed,
    declined_by_the_user, neither_yes_nor_no, expired_confirmation, invalid_confirmation, used_confirmation, cancelled,
    shut_down, failed_in_a_node, failed_in_a_node_twice, crashed_and_was_closed, crashed_and_was_resumed,
    crashed_with_a_confirmation, crashed_at_a_call_without_a_ledger, crashed_twice, refused_before_the_graph,
    refused_for_its_text, with_the_real_task_server, deadline_of_the_model, deadline_of_a_tool, covered_by_a_plan,
)  # fmt: skip


async def run_all_kinds(turns: RandomTurns, rounds: int) -> AsyncIterator[DecisionRecord]:
    """Run every kind of turn `rounds` times; timers of the event loop follow the manual clock."""
    freeze_loop_time(turns.clock)
    for _ in range(rounds):
        for kind in KINDS:
            turns.server.answers.clear()
            turns.server.settlements.clear()
            turns.server.previews["delete_task"] = done({"description": "call mom"})
            yield await kind(turns)


async def _crash(
    turns: RandomTurns,
    *,
    ask_model: bool,
    context: DecisionContext | None = None,
    writes: int | None = None,
    crashes: int = 1,
) -> DecisionRecord:
    name = turns.ids.new()
    script = [calls(("list_tasks", {}), ("add_task", {"description": turns.word()})), says("Done.")]
    if turns.random.random() < 0.5:
        script.insert(1, calls(("complete_task", {"task_id": TASK})))
    turns.model.answers = [*script]
    writer = CrashingWriter(turns.writer, writes or turns.random.randrange(1, 6))
    conditions = turns.random.choice([None, COUNTED])
    with suppress(ServiceError):
        await _until_crashed(
            turns, writer, turns.engine(writer=writer, conditions=conditions).run(context or turns.context(), decision_id=name)
        )
    for crash in range(crashes):
        turns.model.answers = [says("I continued.")] * 5
        turns.server.settlements = [done({"preview": "x"})] * 5
        turns.clock.advance(minutes=1)
        if crash == crashes - 1:
            finished = await turns.engine(writer=turns.writer, conditions=conditions).finish(name, ask_model=ask_model)
            break
        writer = CrashingWriter(turns.writer, turns.random.randrange(0, 2))
        with suppress(ServiceError):
            finished = await _until_crashed(
                turns, writer, turns.engine(writer=writer, conditions=conditions).finish(name, ask_model=crash % 2 == 0)
            )
    assert finished is not None
    return finished.record


async def _until_crashed(turns: RandomTurns, writer: CrashingWriter, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; once the process has crashed, let the time pass in which it still tries to write."""
    task = asyncio.ensure_future(work)
    crash = asyncio.ensure_future(writer.crashed.wait())
    await asyncio.wait({task, crash}, return_when=asyncio.FIRST_COMPLETED)
    crash.cancel()
    return await pass_time(turns.clock, task, step_seconds=1.0)


async def _interrupt(
    turns: RandomTurns,
    steps: list[LLMResponse],
    interrupt: Callable[[asyncio.Task[Any], LLMAgentEngine], Awaitable[None]],
) -> DecisionRecord:
    name = turns.ids.new()
    turns.model.answers = [*steps, None]
    turns.model.hanging.clear()
    engine = turns.engine(writer=turns.writer)
    task = asyncio.create_task(engine.run(turns.context(), decision_id=name))
    await turns.model.hanging.wait()
    turns.clock.advance(seconds=1)
    await interrupt(task, engine)
    await asyncio.wait({task})
    record = await turns.writer.load(name)
    assert isinstance(record, DecisionRecord)
    return record


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def _never(clock: ManualClock) -> ToolResult:
    clock.advance(seconds=0.06)
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
