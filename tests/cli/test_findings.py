"""The findings of `log show`: for each injected failure they name its cause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database, migrate
from graph_agent.errors import LLMError, LLMTimeoutError, ToolErrorCode
from graph_agent.llm.embedded import EmbeddedAdapter
from graph_agent.llm.scripted import ScriptedAdapter, Step
from graph_agent.models.decision import DecisionContext, PendingAction
from graph_agent.models.llm import LLMResponse
from graph_agent.models.tools import ToolResult
from graph_agent.ports import LLMAdapter, ToolExecutor, ToolServer
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.task_server.server import build_task_server
from graph_agent.testing import calls, says
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.cli.conftest import Cli
from tests.frozen_clock import freeze_loop_time
from tests.scripted_turns import grouped

CONSTITUTION = (Path(__file__).parents[2] / "constitution.md").read_text(encoding="utf-8")
RENAMES = (
    '- update_task: "Rename task[ {preview or task_id}][ to {description}]" (without confirmation) (at most 3 per message)\n'
)
NOBODY = "00000000-0000-4000-8000-000000000000"


class LoggedEngine:
    """An engine on the log of the command line's home, with the task server in this process."""

    def __init__(self, log: Database, tools: ToolServer, clock: ManualClock) -> None:
        self.log = log
        self.tools = tools
        self.clock = clock

    async def turn(
        self,
        adapter: LLMAdapter | list[Step],
        message: str = "do it",
        *,
        pending: PendingAction | None = None,
        constitution: str = CONSTITUTION,
        tools: ToolExecutor | ToolServer | None = None,
        engine: LLMAgentEngine | None = None,
    ) -> Any:
        """Run one turn and return its decision."""
        if isinstance(adapter, list):
            adapter = ScriptedAdapter(adapter)
        engine = engine or self.engine(adapter, constitution, tools)
        context = DecisionContext(user_id="ann", message=message, conversation_id="c1", pending_confirmation=pending)
        return await engine.process_message(context)

    def engine(
        self, adapter: LLMAdapter, constitution: str = CONSTITUTION, tools: ToolExecutor | ToolServer | None = None
    ) -> LLMAgentEngine:
        audit = DatabaseAuditWriter(self.log, clock=self.clock)
        return LLMAgentEngine(adapter, tools or self.tools, constitution, **grouped(audit=audit, clock=self.clock))


@asynccontextmanager
async def environment(home: Path) -> AsyncGenerator[LoggedEngine]:
    log, tasks = Database.open(f"sqlite:///{home / 'graph_agent.db'}"), Database.open("sqlite://")
    migrate(tasks, "graph_agent.task_server")
    async with McpToolExecutor(build_task_server(tasks)) as tools:
        yield LoggedEngine(log, tools, ManualClock())
    await tasks.close()
    await log.close()


Shown = Callable[[Callable[[LoggedEngine], Coroutine[Any, Any, Any]]], str]


@pytest.fixture
def shown(cli: Cli, home: Path) -> Shown:
    """Run a scenario that returns a decision, and return what `log show` prints about it, from `findings` on."""

    def show(story: Callable[[LoggedEngine], Coroutine[Any, Any, Any]]) -> str:
        async def played() -> str:
            async with environment(home) as one:
                return str((await story(one)).decision_id)

        ended = cli("log", "show", asyncio.run(played()))
        assert ended.code == 0
        return ended.out[ended.out.index("findings") :]

    return show


def test_the_model_is_down(shown: Shown) -> None:
    output = shown(lambda one: one.turn([LLMError()]))
    assert "Model call 1 failed after 0 ms: UNAVAILABLE, the model could not be reached, or its server failed: run `" in output


def test_the_model_gave_no_answer_in_time(shown: Shown) -> None:
    assert "TIMEOUT, the model did not answer in time" in shown(lambda one: one.turn([LLMTimeoutError()]))


def test_the_model_made_a_call_with_bad_arguments(shown: Shown) -> None:
    output = shown(lambda one: one.turn([calls("add_task", description=5), says("That did not work.")]))
    assert "Tool call 1, add_task, was refused and not sent: VALIDATION_ERROR" in output
    assert "do not fit the schema at description: expected string, got " in output


def test_a_tool_failed(shown: Shown) -> None:
    output = shown(lambda one: one.turn([calls("complete_task", task_id=NOBODY), says("That did not work.")]))
    assert "Tool call 1, complete_task, ran and failed: NOT_FOUND, There is no such task. " in output


def test_the_model_named_another_user(shown: Shown) -> None:
    output = shown(lambda one: one.turn([calls("list_tasks", user_id="bob"), says("That did not work.")]))
    assert "refused and not sent: ACCESS_DENIED, only the signed-in user's own data can be used." in output


def test_the_cap_was_reached(shown: Shown) -> None:
    output = shown(lambda one: one.turn([calls("add_task", description=f"task {n}") for n in range(5)]))
    assert "The cap was reached: after 5 tool rounds the model still had not answered." in output


def test_the_model_repeated_its_calls(shown: Shown) -> None:
    output = shown(lambda one: one.turn([calls("list_tasks")] * 3))
    cause = "the model repeats its calls and gives no answer: use a larger model"
    assert f"The answer of model call 3 could not be used: {cause}." in output


def test_the_model_wrote_its_call_as_text(shown: Shown) -> None:
    output = shown(lambda one: one.turn([says('{"name": "rename", "arguments": {"to": "x"}}')]))
    assert (
        "The answer of model call 1 could not be used: the model writes its calls as text: run `graph-agent doctor`" in output
    )


def test_a_turn_that_waits_between_two_states_beyond_its_deadline_has_no_call_in_progress(shown: Shown) -> None:
    async def story(one: LoggedEngine) -> Any:
        freeze_loop_time(one.clock)
        context = DecisionContext(user_id="ann", message="list", conversation_id="c1")
        async for step in one.engine(ScriptedAdapter([calls("list_tasks")])).step(context):
            if step.state == "CHECK_RESPONSE":
                one.clock.advance(seconds=31)
                # The owner of the turn notices its deadline within a few rounds of the loop.
                for _ in range(10):
                    await asyncio.sleep(0)
        return step.turn

    output = shown(story)
    assert "The turn's deadline passed.\n" in output
    assert "in progress" not in output
    # The answer of the model was used.
    assert "could not be used" not in output


def test_the_model_refused(shown: Shown) -> None:
    assert "The model declined the request as out of scope." in shown(
        lambda one: one.turn(EmbeddedAdapter(), "what's the weather?")
    )


def test_a_confirmation_came_too_late(shown: Shown) -> None:
    async def story(one: LoggedEngine) -> Any:
        await one.turn([calls("add_task", description="call mom"), says("Added.")])
        engine = one.engine(EmbeddedAdapter())
        asked = await one.turn([], "delete call mom", engine=engine)
        one.clock.advance(minutes=6)
        return await one.turn([], "yes", pending=asked.pending_action, engine=engine)

    output = shown(story)
    assert "The confirmation of delete_task (" in output
    assert "had expired: valid until 2026-01-05 09:05:00 UTC, answered 2026-01-05 09:06:00 UTC, 60 s too late." in output


def test_a_confirmation_was_used_before(shown: Shown) -> None:
    async def story(one: LoggedEngine) -> Any:
        await one.turn([calls("add_task", description="call mom"), says("Added.")])
        engine = one.engine(EmbeddedAdapter())
        asked = await one.turn([], "delete call mom", engine=engine)
        await one.turn([], "yes", pending=asked.pending_action, engine=engine)
        return await one.turn([], "yes", pending=asked.pending_action, engine=engine)

    assert "had been used before. It was ignored." in shown(story)


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (LLMResponse(content="  ", finish_reason="stop"), "it was empty"),
        (LLMResponse(finish_reason="tool_calls"), "it announced tool calls and made none"),
        (calls(""), "it made a call without a name"),
        (calls("ask_user", question="", reason="unclear_intent"), "its reply form was empty"),
    ],
)
def test_the_model_said_something_malformed(shown: Shown, response: LLMResponse, why: str) -> None:
    assert f"The answer of model call 1 could not be used: {why}." in shown(lambda one: one.turn([response]))


class SlowTools:
    """A tool executor whose calls advance the turn's clock and may have an unknown outcome."""

    def __init__(self, clock: ManualClock, result: ToolResult) -> None:
        self._clock = clock
        self._result = result

    async def execute(self, *_: Any, **__: Any) -> ToolResult:
        self._clock.advance(seconds=4.8)
        return self._result

    def get_available_tools(self) -> list[str]:
        return ["add_task", "list_tasks", "update_task", "complete_task", "delete_task"]


def test_a_tool_was_slow(shown: Shown) -> None:
    def story(one: LoggedEngine) -> Coroutine[Any, Any, Any]:
        slow = SlowTools(one.clock, ToolResult(success=True, data={"tasks": []}))
        return one.turn([calls("list_tasks"), says("Your list is empty.")], tools=slow)

    assert "Slow: 4800 of 4800 ms were spent in tool call 1, list_tasks." in shown(story)


def test_a_tool_never_answered(shown: Shown) -> None:
    def story(one: LoggedEngine) -> Coroutine[Any, Any, Any]:
        lost = ToolResult(success=False, error="no answer in time", error_code=ToolErrorCode.TIMEOUT_ERROR)
        return one.turn([calls("add_task", description="x"), says("I am not sure.")], tools=SlowTools(one.clock, lost))

    output = shown(story)
    assert "Tool call 1, add_task, was sent, but its result is unknown: it may have taken effect: TIMEOUT_ERROR" in output
    assert "Slow: " in output


def test_the_policy_had_changed(shown: Shown) -> None:
    async def story(one: LoggedEngine) -> Any:
        await one.turn([calls("update_task", task_id=NOBODY, description="x"), says("That did not work.")])
        one.clock.advance(days=1)
        stricter = CONSTITUTION.replace(RENAMES, "").replace(
            '- complete_task: "Complete task[ {preview or task_id}]" (at most 5 per message)',
            '- complete_task: "Complete task[ {preview or task_id}]" (requires confirmation)',
        )
        script: list[Step] = [calls("update_task", task_id=NOBODY, description="x"), says("That did not work.")]
        return await one.turn(script, constitution=stricter)

    output = shown(story)
    assert "Tool call 1, update_task, was refused and not sent: TOOL_NOT_FOUND, it is not on the constitution's list" in output
    assert "is in force since 2026-01-06 09:00:00 UTC, before it " in output
    assert "what changed: complete_task now needs confirmation, update_task is no longer granted." in output


def test_nothing_went_wrong(shown: Shown) -> None:
    assert "Nothing went wrong." in shown(lambda one: one.turn([calls("add_task", description="x"), says("Added.")]))


def test_a_call_was_made_after_the_own_answer_of_its_user(cli: Cli, token: tuple[str, str]) -> None:
    cli("ask", "add a task to call mom")
    first = cli("ask", "delete the call mom task", "--json").json()
    cli("questions", "answer", "--yes", first["decision"]["pending_action"]["id"], *token)
    assert "was given by the user's own answer" in cli("log", "show").out.partition("findings")[2]
