"""A mill of turns: every decision, every outcome and every way to fail, each in several variations."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from graph_agent.turn.memory_writer import MemoryConfirmations
from graph_agent.turn.refused import write_refused
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.turn.engine import LLMAgentEngine
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
from graph_agent.llm.declarations import TASK_TOOLS, select
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, Message, OutcomeCategory, PendingAction
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.policy.confirmation import Signer
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.fixed import RATE_LIMIT_REPLY
from graph_agent.ports import AuditWriter, ToolServer
from tests.still import stand_still
from tests.turns import TableServer, asks, calls, done, failed, says

UNKNOWN = failed(ToolErrorCode.TIMEOUT_ERROR, "no answer in time")
TASK = "00000000-0000-0000-0000-0000000000aa"


PuppetStep = LLMResponse | LLMError | Callable[[], None] | None


class Puppet:
    """A model that says what the next turn needs it to say; None hangs, and so does a function, after it was called."""

    model = "puppet"

    def __init__(self) -> None:
        self.steps: list[PuppetStep] = []
        self.hanging = asyncio.Event()

    async def generate(
        self,
        messages: list[LLMMessage],  # noqa: ARG002 (it does not listen)
        tools: list[ToolDeclaration],  # noqa: ARG002
        temperature: float = 0.0,  # noqa: ARG002
        max_tokens: int = 1024,  # noqa: ARG002
        *,
        system_instruction: str | None = None,  # noqa: ARG002
    ) -> LLMResponse:
        step = self.steps.pop(0)
        if callable(step):
            step()
            await asyncio.Event().wait()
        if step is None:
            self.hanging.set()
            await asyncio.Event().wait()
        if isinstance(step, LLMError):
            raise step
        assert step is not None
        return step

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select(TASK_TOOLS, tools)


class DyingWriter:
    """An `AuditWriter` of a process that dies after so many writes: nothing it does later reaches the log."""

    def __init__(self, writer: AuditWriter, writes: int) -> None:
        self._writer = writer
        self._left = writes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._writer, name)

        async def written(*arguments: Any, **named: Any) -> Any:
            if self._left <= 0:
                raise RecordUnavailableError("the process is dead")
            self._left -= 1
            return await method(*arguments, **named)

        return method if name in ("load", "texts") else written


class BrokenIds(RandomIds):
    """Ids that run out at the worst moment, so many times."""

    def __init__(self) -> None:
        self.broken = 0

    def new(self) -> str:
        if self.broken:
            self.broken -= 1
            raise RuntimeError("no more ids")
        return super().new()


class Mill:
    """Turns on one log, one clock and one key."""

    def __init__(self, writer: AuditWriter, seed: int, *, real_tools: ToolServer | None = None) -> None:
        self.writer = writer
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.reasons = itertools.cycle(["unclear_intent", "multiple_matches", "missing_context"])
        self.ids = BrokenIds()
        self.signer = Signer(b"a key for tests only")
        self.confirmations = MemoryConfirmations()
        self.real_tools = real_tools
        self.puppet = Puppet()
        self.server = TableServer(previews={"delete_task": done({"description": "call mom"})})
        self._engines: dict[Any, LLMAgentEngine] = {}
        self._graph = build_graph()

    def engine(self, *, writer: AuditWriter | None = None, tools: Any = None, **config: Any) -> LLMAgentEngine:
        key = (id(tools), tuple(sorted(config.items())))
        if writer is None and tools is None and key in self._engines:
            return self._engines[key]
        made = LLMAgentEngine(
            self.puppet,
            tools or self.server,
            Constitution.load().text,
            config=AgentEngineConfig(**config),
            audit=writer or self.writer,
            clock=self.clock,
            ids=self.ids,
            signer=self.signer,
            confirmations=self.confirmations,
        )
        # Compiling the graph anew for every process that dies would be most of the test's time.
        made._graph = self._graph
        if writer is None and tools is None:
            self._engines[key] = made
        return made

    async def turn(
        self,
        *steps: PuppetStep,
        context: DecisionContext | None = None,
        engine: LLMAgentEngine | None = None,
    ) -> DecisionRecord:
        """One turn to its end; the clock goes on a little."""
        self.puppet.steps = list(steps)
        self.clock.advance(milliseconds=self.random.randrange(1, 5000))
        finished = await (engine or self.engine()).run(context or self.asks())
        return finished.record

    def asks(self, message: str = "add a task to call mom", **more: Any) -> DecisionContext:
        user = f"user {self.random.randrange(5)}"
        return asks(message, **{"user_id": user, "conversation_id": f"of {user}", **more})

    def word(self) -> str:
        return self.random.choice(["call mom", "naïve café ☕", "買い物", "a\u202eb", "x" * 300, 'quote " and \\ slash'])

    async def pending(self, context: DecisionContext) -> PendingAction:
        """A confirmation that was really asked for, in a turn of its own."""
        record = await self.turn(calls(("delete_task", {"task_id": TASK})), context=context)
        assert record.decision.pending_action is not None
        return record.decision.pending_action

    async def answer(self, message: str, **change: Any) -> DecisionRecord:
        """The user's answer to a confirmation, which is changed first."""
        asked = self.asks("delete the task")
        pending = (await self.pending(asked)).replace(**change)
        return await self.turn(says("Well."), context=asked.replace(message=message, pending_confirmation=pending))


Kind = Callable[[Mill], Awaitable[DecisionRecord]]


async def answered(mill: Mill) -> DecisionRecord:
    usage = TokenUsage(prompt_tokens=mill.random.randrange(1000), completion_tokens=3, total_tokens=17)
    return await mill.turn(says(f"Here you are: {mill.word()}.").replace(usage=usage))


async def answered_after_a_question(mill: Mill) -> DecisionRecord:
    told = Message(role="assistant", content="Which task do you mean?", timestamp=mill.clock.now())
    return await mill.turn(says("Thank you."), context=mill.asks("the first", message_history=[told]))


async def added(mill: Mill) -> DecisionRecord:
    wish = ("add_task", {"description": mill.word()})
    return await mill.turn(calls(wish), says(f"Added {mill.word()}."), engine=mill.engine(tell_time=True, read_retries=2))


async def several_at_once(mill: Mill) -> DecisionRecord:
    count = mill.random.randrange(2, 9)
    wishes = [("add_task", {"description": f"{mill.word()} {place % 3}"}) for place in range(count)]
    return await mill.turn(calls(("list_tasks", {}), *wishes, content="Let me see."), says("Done."))


async def a_long_list(mill: Mill) -> DecisionRecord:
    tasks = [{"id": TASK, "description": "x" * 200, "z": 1, "a": 2.5} for _ in range(mill.random.randrange(10, 100))]
    mill.server.answers["list_tasks"] = done({"zeta": list(tasks), "alpha": list(tasks), "count": len(tasks)})
    return await mill.turn(calls(("list_tasks", {"status": "all"})), says("You have many tasks."))


async def asked_by_form(mill: Mill) -> DecisionRecord:
    return await mill.turn(calls(("ask_user", {"question": "Which one?", "reason": next(mill.reasons)})))


async def asked_in_text(mill: Mill) -> DecisionRecord:
    return await mill.turn(says("Which task do you mean, the first or the second?"))


async def declined_by_form(mill: Mill) -> DecisionRecord:
    return await mill.turn(calls(("decline", {"message": "I can only help with tasks."})))


async def form_beside_a_call(mill: Mill) -> DecisionRecord:
    both = calls(("list_tasks", {}), ("decline", {"message": "No."}), ("ask_user", {"question": "What?"}))
    return await mill.turn(both, says("There is nothing on your list."))


async def the_model_failed(mill: Mill) -> DecisionRecord:
    failures: list[LLMError] = [
        RateLimitError(retry_after=2.5),
        LLMTimeoutError(),
        InvalidResponseError(),
        LLMError(code="BLOCKED"),
        LLMError(),
        LLMError(code="UNHEARD_OF"),
    ]
    return await mill.turn(mill.random.choice(failures))


async def the_model_failed_after_a_change(mill: Mill) -> DecisionRecord:
    return await mill.turn(calls(("add_task", {"description": mill.word()})), RateLimitError())


async def the_model_said_nonsense(mill: Mill) -> DecisionRecord:
    twice = [FunctionCall(name="list_tasks", id="1"), FunctionCall(name="list_tasks", id="1")]
    nonsense = [
        LLMResponse(finish_reason="stop"),
        LLMResponse(finish_reason="tool_calls"),
        LLMResponse(finish_reason="tool_calls", function_calls=twice),
        LLMResponse(finish_reason="tool_calls", function_calls=[FunctionCall(name="")]),
        says("\ud800 is no text"),
        calls(("ask_user", {})),
    ]
    return await mill.turn(mill.random.choice(nonsense))


async def cut_off_by_tokens(mill: Mill) -> DecisionRecord:
    cut = says(mill.random.choice(["Your tasks are the foll", ""]), "max_tokens")
    return await mill.turn(cut)


async def the_cap(mill: Mill) -> DecisionRecord:
    rounds = [calls(("add_task", {"description": f"{place}"})) for place in range(3)]
    return await mill.turn(*rounds, engine=mill.engine(max_iterations=3))


async def refused_calls(mill: Mill) -> DecisionRecord:
    wishes: list[tuple[str, dict[str, Any]]] = [
        ("drop_table", {}),
        ("add_task", {"zeta": 1, "alpha": 2, "description": 5, "user_id": "eve"}),
        ("add_task", {"zeta": 1, "alpha": 2, "description": 5}),
        ("update_task", {"description": {"b": 1, "a": [1, 2]}}),
        ("add_task", {"description": "x" * 20_000}),
    ]
    mill.random.shuffle(wishes)
    return await mill.turn(calls(*wishes), says("That did not work."))


async def a_foreign_user(mill: Mill) -> DecisionRecord:
    return await mill.turn(calls(("list_tasks", {"user_id": "eve"})), says("Here is what I found."))


async def the_tool_failed(mill: Mill) -> DecisionRecord:
    code = mill.random.choice([ToolErrorCode.NOT_FOUND, ToolErrorCode.DATABASE_ERROR, ToolErrorCode.TOOL_EXECUTION_ERROR])
    mill.server.answers["complete_task"] = failed(code)
    again = calls(("complete_task", {"task_id": TASK}))
    return await mill.turn(again, again, says("It could not be done."))


async def the_read_failed_and_was_tried_again(mill: Mill) -> DecisionRecord:
    left = [done({"tasks": []}), failed(ToolErrorCode.TIMEOUT_ERROR)]
    mill.server.answers["list_tasks"] = lambda _: left.pop() if left else done({})
    return await mill.turn(calls(("list_tasks", {})), says("Nothing."), engine=mill.engine(read_retries=3))


async def nobody_knows(mill: Mill) -> DecisionRecord:
    mill.server.answers["add_task"] = UNKNOWN
    settled = mill.random.choice([done({"receipt": "added 'x'"}), failed(ToolErrorCode.TOOL_EXECUTION_ERROR), UNKNOWN])
    mill.server.settlements.append(settled)
    wish = ("add_task", {"description": mill.word()})
    return await mill.turn(calls(wish, wish), says("I tried."))


async def nobody_knows_without_a_ledger(mill: Mill) -> DecisionRecord:
    server = TableServer({"add_task": UNKNOWN}, ledger=False)
    return await mill.turn(
        calls(("add_task", {"description": mill.word()})), says("I tried."), engine=mill.engine(tools=server)
    )


async def held_for_confirmation(mill: Mill) -> DecisionRecord:
    missing = failed(ToolErrorCode.NOT_FOUND)
    preview = mill.random.choice([done({"description": mill.word()}), done({}), UNKNOWN, missing])
    mill.server.previews["delete_task"] = preview
    batch = calls(("list_tasks", {}), ("delete_task", {"task_id": TASK}), ("add_task", {"description": "x"}))
    return await mill.turn(batch, says("There is no such task."))


async def confirmed(mill: Mill) -> DecisionRecord:
    outcome = mill.random.choice([done({"receipt": "deleted 'x'"}), failed(ToolErrorCode.NOT_FOUND), UNKNOWN])
    mill.server.answers["delete_task"] = outcome
    if outcome is UNKNOWN:
        mill.server.settlements.append(done({"receipt": "deleted 'x'"}))
    return await mill.answer(mill.random.choice(["yes", "Yes, please!", "ok"]))


async def declined_by_the_user(mill: Mill) -> DecisionRecord:
    return await mill.answer("no, keep it")


async def neither_yes_nor_no(mill: Mill) -> DecisionRecord:
    return await mill.answer("what is the weather like")


async def expired(mill: Mill) -> DecisionRecord:
    asked = mill.asks("delete the task")
    pending = await mill.pending(asked)
    mill.clock.advance(minutes=6)
    return await mill.turn(says("Too late."), context=asked.replace(message="yes", pending_confirmation=pending))


async def void(mill: Mill) -> DecisionRecord:
    return await mill.answer("yes", tool_name="add_task")


async def used_before(mill: Mill) -> DecisionRecord:
    asked = mill.asks("delete the task")
    pending = await mill.pending(asked)
    again = asked.replace(message="yes", pending_confirmation=pending)
    await mill.turn(context=again)
    return await mill.turn(says("That was done before."), context=again)


async def deadline_of_the_model(mill: Mill) -> DecisionRecord:
    steps = [calls(("add_task", {"description": mill.word()}))] * mill.random.randrange(2)
    return await mill.turn(*steps, lambda: mill.clock.advance(seconds=30))


async def deadline_of_a_tool(mill: Mill) -> DecisionRecord:
    mill.server.answers["add_task"] = lambda _: _never(mill.clock)
    mill.server.settlements.append(done({"receipt": "added 'x'"}))
    batch = calls(("list_tasks", {}), ("add_task", {"description": "x"}), ("add_task", {"description": "y"}))
    return await mill.turn(batch, engine=mill.engine(timeout_seconds=0.06))


async def cancelled(mill: Mill) -> DecisionRecord:
    steps = [calls(("add_task", {"description": mill.word()}))] * mill.random.randrange(2)
    return await _ended(mill, steps, lambda task, _: _cancel(task))


async def shut_down(mill: Mill) -> DecisionRecord:
    return await _ended(mill, [], lambda _, engine: engine.aclose())


async def failed_inside(mill: Mill, times: int = 1) -> DecisionRecord:
    """A node meets an exception that nobody expected."""
    name = mill.ids.new()
    mill.puppet.steps = [calls(("add_task", {"description": "x"}), ("delete_task", {"task_id": TASK}))]
    mill.ids.broken = times
    record = (await mill.engine().run(mill.asks(), decision_id=name)).record
    mill.ids.broken = 0
    return record


async def failed_inside_twice(mill: Mill) -> DecisionRecord:
    """The node meets it again when its turn is walked to an end."""
    return await failed_inside(mill, 2)


async def died_and_was_closed(mill: Mill) -> DecisionRecord:
    return await _died(mill, ask_model=False)


async def died_and_went_on(mill: Mill) -> DecisionRecord:
    return await _died(mill, ask_model=True)


async def died_with_a_confirmation(mill: Mill) -> DecisionRecord:
    """The process dies around the confirmed call."""
    asked = mill.asks("delete the task")
    pending = await mill.pending(asked)
    mill.server.settlements += [done({"receipt": "deleted 'x'"})] * 2
    context = asked.replace(message="yes", pending_confirmation=pending)
    record = await _died(mill, ask_model=mill.random.random() < 0.5, context=context, writes=mill.random.randrange(1, 4))
    mill.server.settlements.clear()
    return record


async def died_twice(mill: Mill) -> DecisionRecord:
    """The process that finished the turn died as well."""
    return await _died(mill, ask_model=mill.random.random() < 0.5, deaths=2)


async def turned_away(mill: Mill, outcome: OutcomeCategory = OutcomeCategory.RATE_LIMITED) -> DecisionRecord:
    terms = await mill.engine().prepare()
    digests = terms.digests
    header = RecordHeader(
        decision_id=mill.ids.new(),
        context=mill.asks(),
        started_at=mill.clock.now(),
        model="puppet",
        constitution=digests.constitution,
        tools=digests.tools,
        settings=digests.settings,
        prompt=digests.prompt,
    )
    return await write_refused(mill.writer, header, terms.texts, outcome, RATE_LIMIT_REPLY)


async def turned_away_for_its_text(mill: Mill) -> DecisionRecord:
    return await turned_away(mill, OutcomeCategory.USER_INPUT)


async def with_the_real_task_server(mill: Mill) -> DecisionRecord:
    assert mill.real_tools is not None
    engine = mill.engine(tools=mill.real_tools)
    user = mill.asks()
    wishes = [("add_task", {"description": mill.word()}), ("list_tasks", {}), ("update_task", {"task_id": "?", "zeta": 1})]
    first = await mill.turn(calls(*wishes), says("Added."), context=user, engine=engine)
    if mill.random.random() < 0.5:
        return first
    task_id = first.invocations[0].result["task"]["id"]
    held = await mill.turn(calls(("delete_task", {"task_id": task_id})), context=user, engine=engine)
    pending = held.decision.pending_action
    answer = mill.random.choice(["yes", "no"])
    return await mill.turn(context=user.replace(message=answer, pending_confirmation=pending), engine=engine)


KINDS: tuple[Kind, ...] = (
    answered, answered_after_a_question, added, several_at_once, a_long_list, asked_by_form, asked_in_text, declined_by_form,
    form_beside_a_call, the_model_failed, the_model_failed_after_a_change, the_model_said_nonsense, cut_off_by_tokens, the_cap,
    refused_calls, a_foreign_user, the_tool_failed, the_read_failed_and_was_tried_again, nobody_knows,
    nobody_knows_without_a_ledger, held_for_confirmation, confirmed, declined_by_the_user, neither_yes_nor_no, expired, void,
    used_before, cancelled, shut_down, failed_inside, failed_inside_twice, died_and_was_closed, died_and_went_on,
    died_with_a_confirmation, died_twice, turned_away, turned_away_for_its_text, with_the_real_task_server,
    deadline_of_the_model, deadline_of_a_tool,
)  # fmt: skip


async def ground(mill: Mill, rounds: int) -> AsyncIterator[DecisionRecord]:
    """So many rounds of every kind of turn, in an event loop that goes by the mill's clock."""
    stand_still(mill.clock)
    for _ in range(rounds):
        for kind in KINDS:
            mill.server.answers.clear()
            mill.server.settlements.clear()
            mill.server.previews["delete_task"] = done({"description": "call mom"})
            yield await kind(mill)


async def _died(
    mill: Mill,
    *,
    ask_model: bool,
    context: DecisionContext | None = None,
    writes: int | None = None,
    deaths: int = 1,
) -> DecisionRecord:
    name = mill.ids.new()
    script = [calls(("list_tasks", {}), ("add_task", {"description": mill.word()})), says("Done.")]
    if mill.random.random() < 0.5:
        script.insert(1, calls(("complete_task", {"task_id": TASK})))
    mill.puppet.steps = [*script]
    dying = mill.engine(writer=DyingWriter(mill.writer, writes or mill.random.randrange(1, 6)))
    with suppress(ServiceError):
        await dying.run(context or mill.asks(), decision_id=name)
    for death in range(deaths):
        mill.puppet.steps = [says("I went on.")] * 5
        mill.server.settlements = [done({"receipt": "added 'x'"})] * 5
        last = death == deaths - 1
        writer = mill.writer if last else DyingWriter(mill.writer, mill.random.randrange(0, 2))
        mill.clock.advance(minutes=1)
        try:
            finished = await mill.engine(writer=writer).finish(name, ask_model=ask_model if last else death % 2 == 0)
        except ServiceError:
            continue
    assert finished is not None
    return finished.record


async def _ended(
    mill: Mill,
    steps: list[LLMResponse],
    end: Callable[[asyncio.Task[Any], LLMAgentEngine], Awaitable[None]],
) -> DecisionRecord:
    name = mill.ids.new()
    mill.puppet.steps = [*steps, None]
    mill.puppet.hanging.clear()
    engine = mill.engine(writer=mill.writer)
    task = asyncio.create_task(engine.run(mill.asks(), decision_id=name))
    await mill.puppet.hanging.wait()
    mill.clock.advance(seconds=1)
    await end(task, engine)
    await asyncio.wait({task})
    record = await mill.writer.load(name)
    assert isinstance(record, DecisionRecord)
    return record


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def _never(clock: ManualClock) -> ToolResult:
    clock.advance(seconds=0.06)
    await asyncio.Event().wait()
    raise AssertionError("it never comes back")
