"""Adapters and executors with exactly the documents' signatures, with fewer or more parameters, and misfits."""

# ruff: noqa: ARG002 - the signatures are what is tested
from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.errors import (
    ConfigurationError,
    InvalidResponseError,
    LLMError,
    LLMTimeoutError,
    RateLimitError,
    ToolErrorCode,
    ToolNotFoundError,
)
from graph_agent.graph.step import Step
from graph_agent.llm.adapter_call import AdapterCall, failed_response
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.models.llm import FunctionCall, LLMErrorCode, LLMMessage, LLMRequest, LLMResponse, ToolDeclaration
from graph_agent.models.tools import ToolResult
from graph_agent.policy.constitution import Constitution
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import asks, calls, grouped

ANSWER = LLMResponse(content="Hello.", finish_reason="stop")
MESSAGES = [LLMMessage(role="user", content="hi")]
REQUEST = LLMRequest(
    system_instruction="Be brief.", messages=MESSAGES, tools=[], temperature=0.5, max_tokens=99, tool_choice="required"
)
ADD = ("add_task", {"description": "call mom"})
SHIPPED = Constitution.load().text


class PlainAdapter:
    """The plainest adapter: exactly the adapter contract's `generate`, and nothing else."""

    def __init__(self, *answers: LLMResponse) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[list[LLMMessage], list[str], float, int]] = []

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
    ) -> LLMResponse:
        self.requests.append((messages, [tool.name for tool in tools], temperature, max_tokens))
        return self.answers[len(self.requests) - 1]


class PlainExecutor:
    """The plainest executor: exactly the engine contract's `execute`, and nothing else."""

    def __init__(self, answer: Callable[[], ToolResult] = lambda: ToolResult(True, {})) -> None:
        self.answer = answer
        self.calls: list[tuple[str, dict[str, Any], str]] = []

    async def execute(self, tool_name: str, parameters: dict[str, Any], user_id: str) -> ToolResult:
        self.calls.append((tool_name, parameters, user_id))
        return self.answer()


def engine(adapter: Any, executor: Any = None, constitution: str = SHIPPED) -> LLMAgentEngine:
    plain: Any = PlainExecutor()
    return LLMAgentEngine(adapter, executor or plain, constitution, **grouped(clock=ManualClock(), ids=SequentialIds()))


async def replayed(of: LLMAgentEngine, finished: FinishedTurn) -> bool:
    digests = finished.record.header.digests.values()
    report = await replay(finished.record, await of.audit.texts([*digests]))
    return report.identical


async def test_the_plainest_adapter_and_executor_complete_a_turn_that_can_be_replayed() -> None:
    adapter, executor = PlainAdapter(calls(ADD), says("Added it.")), PlainExecutor()
    runtime = engine(adapter, executor)
    finished = await runtime.run(asks())
    assert finished.decision.decision_type is DecisionType.INVOKE_TOOL
    assert finished.decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    assert finished.decision.reply == "Added it."
    assert finished.record.header.model == "PlainAdapter"
    assert executor.calls == [("add_task", {"description": "call mom"}, "ann")]
    messages, tools, temperature, max_tokens = adapter.requests[0]
    assert messages == [LLMMessage("user", SHIPPED), LLMMessage("user", "add a task to call mom")]
    assert tools == [*Constitution.load().whitelist, "answer", "ask_user", "decline"]
    assert (temperature, max_tokens) == (0.0, 1024)
    assert await replayed(runtime, finished)


async def test_the_same_plain_turn_makes_the_same_record() -> None:
    script = [calls(ADD), says("Added it.")]
    records = [(await engine(PlainAdapter(*script)).run(asks())).record for _ in range(2)]
    assert records[0].model_dump_json() == records[1].model_dump_json()


async def test_an_adapter_without_tool_choice_still_gets_the_system_instruction() -> None:
    class Older:
        async def generate(self, messages: Any, tools: Any, *, system_instruction: str | None = None) -> LLMResponse:
            self.received = {"messages": messages, "system_instruction": system_instruction}
            return ANSWER

    adapter = Older()
    await AdapterCall(adapter)(REQUEST)  # type: ignore[arg-type]  # the older signature is what is tested
    assert adapter.received == {"messages": MESSAGES, "system_instruction": "Be brief."}


async def test_an_adapter_that_accepts_any_keyword_gets_all_of_them() -> None:
    class Open:
        async def generate(self, *arguments: Any, **keywords: Any) -> LLMResponse:
            self.received = (arguments, keywords)
            return ANSWER

    adapter = Open()
    await AdapterCall(adapter)(REQUEST)  # type: ignore[arg-type]  # the open signature is what is tested
    expected = {
        "messages": MESSAGES,
        "tools": [],
        "temperature": 0.5,
        "max_tokens": 99,
        "system_instruction": "Be brief.",
        "tool_choice": "required",
    }
    assert adapter.received == ((), expected)


async def test_a_decorated_method_is_read_by_the_signature_that_it_wraps() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            return function(*arguments, **keywords)

        return wrapper

    class Decorated(PlainAdapter):
        generate = logged(PlainAdapter.generate)

    adapter = Decorated(ANSWER)
    assert await AdapterCall(adapter)(REQUEST) == ANSWER  # type: ignore[arg-type]  # four parameters
    assert adapter.requests[0][0] == [LLMMessage("user", "Be brief."), *MESSAGES]


async def test_a_callable_that_is_not_a_function_is_accepted() -> None:
    adapter = AsyncMock()
    adapter.generate.return_value = ANSWER
    assert await AdapterCall(adapter)(REQUEST) == ANSWER
    assert adapter.generate.await_args.kwargs["tool_choice"] == "required"


def _adapter(generate: Any) -> Any:
    return type("Mine", (), {"generate": generate})()


def _executor(execute: Any) -> Any:
    return type("Mine", (), {"execute": execute})()


async def _extra(self: Any, messages: Any, tools: Any, temperature: Any, max_tokens: Any, top_p: Any) -> Any: ...
async def _without_tools(self: Any, messages: Any, temperature: Any, max_tokens: Any) -> Any: ...
async def _by_position(messages: Any, tools: Any, /) -> Any: ...
async def _renamed(self: Any, tool_name: Any, arguments: Any, user_id: Any) -> Any: ...
async def _without_user(self: Any, tool_name: Any, parameters: Any) -> Any: ...
def _plain(self: Any, messages: Any, tools: Any, temperature: Any, max_tokens: Any) -> Any: ...
def _plain_execute(self: Any, tool_name: Any, parameters: Any, user_id: Any) -> Any: ...


@pytest.mark.parametrize(
    ("adapter", "executor", "sentence"),
    [
        (_adapter(_extra), PlainExecutor(), r"Mine.generate\(\) requires the parameter 'top_p', which is not passed to it"),
        (_adapter(_without_tools), PlainExecutor(), r"Mine.generate\(\) does not accept the parameter 'tools'"),
        (_adapter(staticmethod(_by_position)), PlainExecutor(), r"Mine.generate\(\) requires the parameter 'messages'"),
        (_adapter(_plain), PlainExecutor(), r"Mine.generate\(\) must be a coroutine function: define it with 'async def'"),
        (object(), PlainExecutor(), "object has no method 'generate'"),
        (PlainAdapter, PlainExecutor(), "requires the parameter 'self'"),
        (PlainAdapter(), _executor(_renamed), r"Mine.execute\(\) requires the parameter 'arguments'"),
        (PlainAdapter(), _executor(_without_user), r"Mine.execute\(\) does not accept the parameter 'user_id'"),
        (PlainAdapter(), _executor(_plain_execute), r"Mine.execute\(\) must be a coroutine function"),
        (PlainAdapter(), object(), "object has no method 'execute'"),
    ],
)
def test_a_misfit_is_rejected_at_construction_in_a_sentence_that_names_it(adapter: Any, executor: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        engine(adapter, executor)


@pytest.mark.parametrize(
    ("error", "code", "outcome"),
    [
        (RateLimitError("slow down", "429", 3), LLMErrorCode.RATE_LIMITED, OutcomeCategory.RATE_LIMITED),
        (LLMTimeoutError("late", "504"), LLMErrorCode.TIMEOUT, OutcomeCategory.RESPONSE_GENERATION),
        (InvalidResponseError("garbage", "BAD"), LLMErrorCode.INVALID_RESPONSE, OutcomeCategory.RESPONSE_GENERATION),
        (ToolNotFoundError("fly", "404"), LLMErrorCode.INVALID_RESPONSE, OutcomeCategory.RESPONSE_GENERATION),
        (LLMError("refused", "RATE_LIMITED"), LLMErrorCode.RATE_LIMITED, OutcomeCategory.RATE_LIMITED),
        (LLMError("teapot", "418"), LLMErrorCode.UNAVAILABLE, OutcomeCategory.RESPONSE_GENERATION),
        (LLMError("odd", ["list"]), LLMErrorCode.UNAVAILABLE, OutcomeCategory.RESPONSE_GENERATION),  # type: ignore[arg-type]  # a list is no code
    ],
)
async def test_an_error_counts_by_its_class(error: LLMError, code: LLMErrorCode, outcome: OutcomeCategory) -> None:
    assert failed_response(error).error == code
    assert (await engine(ScriptedAdapter([error])).process_message(asks())).outcome_category is outcome


@pytest.mark.parametrize("wait", [float("nan"), -1, "soon"])
def test_a_wait_that_is_not_a_duration_is_left_out(wait: Any) -> None:
    assert failed_response(RateLimitError("slow down", retry_after=wait)).retry_after is None


async def test_the_documents_timeout_error_and_pythons_are_timeouts() -> None:
    class Late:
        async def generate(self, messages: Any, tools: Any, temperature: Any, max_tokens: Any) -> LLMResponse:
            raise asyncio.TimeoutError  # noqa: UP041 - the name that a user may write

    finished = await engine(Late()).run(asks())
    assert finished.record.entries[0].result["error"] == "TIMEOUT"


async def test_a_failure_reported_as_text_is_recorded_and_not_shown() -> None:
    runtime = engine(PlainAdapter(LLMResponse(None, None, "error", error="the key sk-123 was refused")))
    finished = await runtime.run(asks())
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION
    assert finished.decision.reply == "I'm having trouble processing your request. Please try again."
    assert finished.record.entries[0].result["error"] == "the key sk-123 was refused"
    assert await replayed(runtime, finished)


class LibraryError(Exception):
    """An exception of a client library, such as a lost connection that does not inherit from ConnectionError."""


@pytest.mark.parametrize(
    ("error", "waits", "code"),
    [
        (RuntimeError("no"), False, ToolErrorCode.TOOL_EXECUTION_ERROR),
        (LibraryError("refused"), False, ToolErrorCode.TOOL_EXECUTION_ERROR),
        (PermissionError("not yours"), False, ToolErrorCode.TOOL_EXECUTION_ERROR),
        (LookupError("no such note"), True, ToolErrorCode.TOOL_EXECUTION_ERROR),
        (LibraryError("server disconnected"), True, ToolErrorCode.UNKNOWN_ERROR),
        (TimeoutError(), False, ToolErrorCode.TIMEOUT_ERROR),
        (TimeoutError(), True, ToolErrorCode.TIMEOUT_ERROR),
        (ConnectionResetError(), False, ToolErrorCode.UNKNOWN_ERROR),
        (ConnectionResetError(), True, ToolErrorCode.UNKNOWN_ERROR),
        (asyncio.IncompleteReadError(b"", 4), True, ToolErrorCode.UNKNOWN_ERROR),
        (ExceptionGroup("several", [ValueError("one")]), False, ToolErrorCode.UNKNOWN_ERROR),
    ],
)
async def test_a_raise_is_a_failed_call_unless_the_call_may_have_acted(
    error: Exception, waits: bool, code: ToolErrorCode
) -> None:
    class Raising:
        async def execute(self, tool_name: str, parameters: dict[str, Any], user_id: str) -> ToolResult:
            if waits:
                await asyncio.sleep(0)
            raise error

    finished = await engine(PlainAdapter(calls(ADD), says("It failed.")), Raising()).run(asks())
    (invocation,) = finished.record.invocations
    assert (invocation.success, invocation.error_code) == (False, code)
    assert finished.decision.outcome_category is OutcomeCategory.TOOL_INVOCATION
    failed = code is ToolErrorCode.TOOL_EXECUTION_ERROR
    assert finished.decision.effects == []
    assert finished.decision.notices == ([] if failed else ["Not known whether this was done: Add task 'call mom'."])


async def test_a_failure_that_follows_from_a_lost_connection_is_unknown() -> None:
    def lose() -> ToolResult:
        try:
            raise ConnectionResetError
        except ConnectionResetError as exc:
            raise ValueError("cannot read the answer") from exc

    finished = await engine(PlainAdapter(calls(ADD), says("Hm.")), PlainExecutor(lose)).run(asks())
    assert finished.record.invocations[0].error_code == ToolErrorCode.UNKNOWN_ERROR


async def test_a_result_of_the_wrong_type_is_unknown_because_the_tool_has_run() -> None:
    executor = PlainExecutor(lambda: {"success": True})  # type: ignore[arg-type, return-value]  # the wrong type is tested
    finished = await engine(PlainAdapter(calls(ADD), says("Hm.")), executor).run(asks())
    assert finished.record.invocations[0].error_code == ToolErrorCode.UNKNOWN_ERROR


OWN = """
## Available Tools
- write_note: Write a note
- read_notes: Read the notes
"""


async def test_a_tool_that_nothing_declares_is_offered_with_its_summary_and_takes_any_arguments() -> None:
    adapter = ScriptedAdapter([calls(("write_note", {"text": "hello"})), says("Noted.")])
    executor = PlainExecutor()
    decision = await engine(adapter, executor, OWN).process_message(asks())
    assert decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    assert executor.calls == [("write_note", {"text": "hello"}, "ann")]
    assert [(tool.name, tool.description) for tool in adapter.requests[0].tools[:2]] == [
        ("write_note", "Write a note"),
        ("read_notes", "Read the notes"),
    ]


class Tasks:
    """The documented tools as the plainest executor has them."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.sent: list[str] = []

    async def execute(self, tool_name: str, parameters: dict[str, Any], user_id: str) -> ToolResult:
        assert user_id == "ann"
        self.sent.append(tool_name)
        if tool_name == "add_task":
            self.tasks.append(parameters["description"])
        return ToolResult(True, {"tasks": [*self.tasks]})


LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})


async def test_the_documented_read_runs_again_without_a_marker_and_the_documented_changes_do_not() -> None:
    unmarked = SHIPPED.replace(" (reads)", "")
    assert unmarked != SHIPPED
    for batches in ([[LIST, ADD, ADD, LIST]], [[LIST], [ADD], [LIST]]):
        executor = Tasks()
        adapter = PlainAdapter(*(calls(*batch) for batch in batches), says("You have one task."))
        turn = await engine(adapter, executor, unmarked).run(asks())
        assert executor.sent == ["list_tasks", "add_task", "list_tasks"]
        assert turn.record.invocations[-1].result == {"tasks": ["call mom"]}
        assert turn.decision.effects == ["Add task 'call mom'"]


async def test_a_tool_of_your_own_runs_again_if_the_constitution_says_that_it_reads() -> None:
    note: tuple[str, dict[str, Any]] = ("write_note", {"text": "hello"})
    read: tuple[str, dict[str, Any]] = ("read_notes", {})
    for constitution, sent in ((OWN, 2), (OWN.replace("Read the notes", "Read the notes (reads)"), 3)):
        executor = PlainExecutor()
        await engine(PlainAdapter(calls(read, note, read), says("Noted.")), executor, constitution).run(asks())
        assert len(executor.calls) == sent


async def test_an_executor_declares_its_tools_and_the_guard_checks_their_arguments() -> None:
    class Notes(PlainExecutor):
        def declarations(self) -> list[dict[str, Any]]:
            text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            return [
                {"name": "write_note", "description": "Write it.", "parameters": text},
                {"name": "read_notes", "description": "Read them.", "parameters": {"type": "object"}},
            ]

    executor = Notes()
    wrong, right = ("write_note", {"body": "hello"}), ("write_note", {"text": "hello"})
    decision = await engine(PlainAdapter(calls(wrong), calls(right), says("Noted.")), executor, OWN).process_message(asks())
    assert executor.calls == [("write_note", {"text": "hello"}, "ann")]
    assert decision.tool_calls is not None
    assert len(decision.tool_calls) == 2


async def test_a_listed_tool_that_the_executor_does_not_list_refuses_to_start() -> None:
    class Partial(PlainExecutor):
        def get_available_tools(self) -> list[str]:
            return ["write_note"]

    with pytest.raises(ConfigurationError, match="read_notes"):
        await engine(PlainAdapter(ANSWER), Partial(), OWN).process_message(asks())


@pytest.mark.parametrize("declared", ["a text", object(), {"name": "write_note"}])
async def test_a_declaration_in_another_format_refuses_to_start(declared: Any) -> None:
    class Odd(PlainAdapter):
        def get_tool_declarations(self, tools: list[str]) -> list[Any]:
            return [declared]

    with pytest.raises(ConfigurationError, match="not a tool declaration"):
        await engine(Odd(ANSWER), PlainExecutor(), OWN).process_message(asks())


async def test_an_adapters_registry_that_lacks_a_tool_is_completed() -> None:
    registry = {"write_note": ToolDeclaration("write_note", "Mine.", {"type": "object"})}

    class Registry(PlainAdapter):
        def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
            return [registry[name] for name in tools]

    adapter = Registry(calls(("read_notes", {})), says("None."))
    steps: list[Step] = [step async for step in engine(adapter, PlainExecutor(), OWN).step(asks())]
    assert steps[0].turn.request is not None
    assert [tool.description for tool in steps[0].turn.request.tools[:2]] == ["Mine.", "Read the notes"]


def test_the_script_of_a_test_can_be_written_by_position() -> None:
    call = FunctionCall("add_task", {"description": "call mom"}, "c1")
    assert LLMResponse("On it.", [call], "tool_calls") == LLMResponse(
        content="On it.",
        function_calls=[FunctionCall(name="add_task", arguments={"description": "call mom"}, id="c1")],
        finish_reason="tool_calls",
    )
