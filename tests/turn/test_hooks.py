"""Lifecycle hooks: when and with what they are called, and that they cannot change a turn."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from graph_agent.errors import LLMTimeoutError, RecordUnavailableError, ServiceError, ToolErrorCode
from graph_agent.graph.step import Step
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import DecisionRecord, RecordHeader
from graph_agent.models.tools import ToolResult
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.testing import says
from graph_agent.tools.progress import progress_listener
from graph_agent.turn.hooks import HookedModelCall, HookedToolCall, HookList, TurnHook
from tests.scripted_turns import TableServer, asks, calls, done, engine_of, failed

ADD = ("add_task", {"description": "call mom"})


class Listener(TurnHook):
    """A hook that keeps the calls of its methods, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.outcomes: list[Any] = []
        self.calls: list[tuple[str, HookedModelCall | HookedToolCall]] = []
        self.turns: list[RecordHeader] = []

    def before_turn(self, turn: RecordHeader) -> None:
        self.events.append(("turn", turn.context.conversation_id))

    def after_turn(self, turn: RecordHeader, outcome: DecisionRecord | BaseException) -> None:
        self.events.append("turn ends")
        self.turns.append(turn)
        self.outcomes.append(outcome)

    def before_node(self, turn: RecordHeader, state: str) -> None:
        self.turns.append(turn)
        self.events.append(state)

    def after_node(self, turn: RecordHeader, step: Step) -> None:
        self.turns.append(turn)
        self.events.append((step.state, step.outcome))

    def before_model_call(self, call: HookedModelCall) -> None:
        self.calls.append(("before", call))
        self.events.append(("model", len(call.request.messages)))

    def after_model_call(self, call: HookedModelCall, outcome: LLMResponse | BaseException) -> None:
        self.calls.append(("after", call))
        self.events.append("model ends")
        self.outcomes.append(outcome)

    def before_tool_call(self, call: HookedToolCall) -> None:
        self.calls.append(("before", call))
        self.events.append((call.tool_name, call.mode))

    def after_tool_call(self, call: HookedToolCall, outcome: ToolResult | BaseException) -> None:
        self.calls.append(("after", call))
        self.events.append("tool ends")
        self.outcomes.append(outcome)


async def test_every_node_and_call_is_reported_before_and_after() -> None:
    hook = Listener()
    finished = await engine_of(calls(ADD), says("Added.")).run(asks(), hooks=[hook])
    assert hook.events == [
        ("turn", "c1"),
        "BUILD_REQUEST",
        ("BUILD_REQUEST", "request_built"),
        "INVOKE_LLM",
        ("model", 1),
        "model ends",
        ("INVOKE_LLM", "responded"),
        "CHECK_RESPONSE",
        ("CHECK_RESPONSE", "tool_calls"),
        "EXECUTE_TOOLS",
        ("add_task", "run"),
        "tool ends",
        ("EXECUTE_TOOLS", "executed"),
        "APPEND_RESULTS",
        ("APPEND_RESULTS", "appended"),
        "CHECK_ITERATIONS",
        ("CHECK_ITERATIONS", "below_cap"),
        "INVOKE_LLM",
        ("model", 3),
        "model ends",
        ("INVOKE_LLM", "responded"),
        "CHECK_RESPONSE",
        ("CHECK_RESPONSE", "answered"),
        "BUILD_DECISION",
        ("BUILD_DECISION", "decided"),
        "turn ends",
    ]
    assert hook.outcomes[-1] == finished.record


async def test_each_method_gets_the_turn_and_both_of_a_call_get_the_same_call() -> None:
    hook = Listener()
    finished = await engine_of(calls(ADD), says("Added.")).run(asks(), hooks=[hook])
    header = finished.record.header
    assert [turn for turn in hook.turns if turn != header] == []
    assert [call.turn for _, call in hook.calls if call.turn != header] == []
    before, after = ([call for when, call in hook.calls if when == place] for place in ("before", "after"))
    assert [one is other for one, other in zip(before, after, strict=True)] == [True] * 3
    (tool,) = [call for call in before if isinstance(call, HookedToolCall)]
    assert (tool.tool_name, tool.arguments, tool.mode) == (*ADD, "run")


async def test_a_call_that_fails_is_reported_with_the_error_that_is_recorded() -> None:
    hook = Listener()
    server = TableServer(
        {"add_task": failed(ToolErrorCode.TIMEOUT_ERROR)}, settlements=[failed(ToolErrorCode.TOOL_EXECUTION_ERROR)]
    )
    await engine_of(calls(ADD), LLMTimeoutError("secret"), server=server).run(asks(), hooks=[hook])
    codes = [outcome.error_code for outcome in hook.outcomes if isinstance(outcome, ToolResult)]
    assert codes == ["TIMEOUT_ERROR", "TOOL_EXECUTION_ERROR"]
    assert [outcome.error for outcome in hook.outcomes if isinstance(outcome, LLMResponse)] == [None, "TIMEOUT"]


async def test_calls_that_are_not_made_are_not_reported() -> None:
    hook = Listener()
    finished = await engine_of(calls(("drop_table", {}), ADD, ADD), says("Added.")).run(asks(), hooks=[hook])
    assert len(finished.record.invocations) == 3
    assert [event for event in hook.events if event in (("add_task", "run"), ("drop_table", "run"))] == [("add_task", "run")]


async def test_a_replayed_call_is_not_reported_when_a_turn_is_resumed() -> None:
    audit, hook = MemoryAuditWriter(), Listener()
    server = TableServer({"add_task": done({"receipt": "added"})})
    engine = engine_of(calls(ADD), says("Added."), server=server, audit=audit)
    steps = engine.step(asks())
    async for step in steps:
        if step.state == "EXECUTE_TOOLS":
            break
    (decision_id,) = audit.open
    stored = dict(audit.open), {key: list(entries) for key, entries in audit.entries.items()}
    await steps.aclose()  # type: ignore[attr-defined]  # it is a generator
    audit.records.clear()
    audit.open, audit.entries = stored
    resumed = engine_of(says("Added."), server=server, audit=audit, hooks=[lambda: hook], clock=None)
    finished = await resumed.finish(decision_id, ask_model=True)
    assert finished is not None
    assert [event for event in hook.events if isinstance(event, tuple) and event[0] in ("model", "add_task")] == [("model", 3)]
    assert [event[0] for event in hook.events if isinstance(event, tuple) and event[0].isupper()] == finished.record.states


async def test_a_turn_that_cannot_be_recorded_is_reported_with_its_error() -> None:
    class Gone(MemoryAuditWriter):
        async def write_opening(self, *_: Any) -> None:
            raise RecordUnavailableError("gone")

    hook = Listener()
    with pytest.raises(ServiceError) as refused:
        await engine_of(says("hi"), audit=Gone()).run(asks(), hooks=[hook])
    assert hook.outcomes == [refused.value]


async def test_a_hook_that_raises_changes_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Listener):
        def after_node(self, turn: RecordHeader, step: Step) -> None:
            super().after_node(turn, step)
            raise RuntimeError("broken hook")

    plain = await engine_of(calls(ADD), says("Added.")).run(asks())
    broken, sound = Broken(), Listener()
    with caplog.at_level(logging.ERROR):
        finished = await engine_of(calls(ADD), says("Added.")).run(asks(), hooks=[broken, sound])
    assert finished == plain
    assert [record.message for record in caplog.records] == ["a Broken failed in after_node; it is dropped from this turn"]
    assert broken.events[-1] == ("BUILD_REQUEST", "request_built")
    assert sound.events[-1] == "turn ends"


async def test_an_engine_makes_a_hook_for_every_turn() -> None:
    made: list[Listener] = []

    def make() -> Listener:
        made.append(Listener())
        return made[-1]

    engine = engine_of(says("one"), says("two"), hooks=[make])
    await engine.run(asks())
    await engine.run(asks())
    assert [hook.events.count("turn ends") for hook in made] == [1, 1]


class CountsCalls:
    """A hook that is no subclass and has two methods only."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def before_tool_call(self, call: HookedToolCall) -> None:
        self.calls.append(f"{call.tool_name} {call.mode}")

    def after_tool_call(self, _call: HookedToolCall, outcome: ToolResult | BaseException) -> None:
        self.calls.append(str(isinstance(outcome, ToolResult) and outcome.success))


async def test_a_hook_that_does_not_know_progress_is_called_for_the_rest() -> None:
    hook: Any = CountsCalls()
    hooks = HookList([hook])

    async def execute() -> ToolResult:
        assert progress_listener() is None
        return ToolResult(success=True)

    finished = await engine_of(says("hi")).run(asks())
    await hooks.tool_call(HookedToolCall(finished.record.header, "act", {}, "run"), execute())
    assert hook.calls == ["act run", "True"]
