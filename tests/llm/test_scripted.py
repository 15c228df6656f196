from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import ConfigurationError, LLMError, LLMTimeoutError, RateLimitError, ToolNotFoundError
from graph_agent.llm.scripted import ScriptedAdapter, ScriptExhaustedError
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMRequest, LLMResponse
from graph_agent.ports import LLMAdapter
from graph_agent.task_server.declarations import TASK_TOOLS

HELLO = LLMMessage(role="user", content="hello")
HI = LLMResponse(content="Hi.", finish_reason="stop")
LIST = LLMResponse(function_calls=[FunctionCall(name="list_tasks")], finish_reason="tool_calls")


async def test_a_script_is_played_in_order_and_its_requests_are_kept() -> None:
    with ScriptedAdapter([LIST, HI]) as adapter:
        assert await adapter.generate([HELLO], list(TASK_TOOLS), 0.5, 7, system_instruction="Be brief.") == LIST
        assert await adapter.generate([HELLO], []) == HI
    assert adapter.requests == [
        LLMRequest(system_instruction="Be brief.", messages=[HELLO], tools=list(TASK_TOOLS), temperature=0.5, max_tokens=7),
        LLMRequest(messages=[HELLO], tools=[]),
    ]


async def test_a_step_may_be_an_error_or_a_function_of_the_request() -> None:
    adapter = ScriptedAdapter(
        [RateLimitError(retry_after=3), lambda messages, tools: HI.replace(content=f"{messages[0].content} {len(tools)}")]
    )
    with pytest.raises(RateLimitError):
        await adapter.generate([HELLO], [])
    assert (await adapter.generate([HELLO], list(TASK_TOOLS))).content == "hello 5"


async def test_a_call_beyond_the_last_step_raises() -> None:
    adapter = ScriptedAdapter([HI])
    await adapter.generate([HELLO], [])
    with pytest.raises(ScriptExhaustedError, match="has 1 steps, and the model was called once more"):
        await adapter.generate([HELLO], [])
    with pytest.raises(ScriptExhaustedError, match="called 2 times for 1 steps"):
        adapter.assert_finished()


def test_unused_steps_raise() -> None:
    with pytest.raises(ScriptExhaustedError, match="2 of 2 steps"), ScriptedAdapter([HI, HI]):
        pass


def test_unused_steps_do_not_hide_an_error_in_the_context() -> None:
    with pytest.raises(KeyError), ScriptedAdapter([HI]):
        raise KeyError


def test_it_implements_the_port_and_declares_the_task_tools() -> None:
    adapter: LLMAdapter = ScriptedAdapter([], model="m")
    assert adapter.model == "m"
    assert [tool.name for tool in adapter.get_tool_declarations(["list_tasks", "add_task"])] == ["list_tasks", "add_task"]
    with pytest.raises(ToolNotFoundError):
        adapter.get_tool_declarations(["hack"])


STEPS: list[dict[str, Any]] = [
    LIST.to_json(),
    {"error": "RATE_LIMITED", "retry_after": 3},
    {"error": "TIMEOUT"},
    {"error": "BLOCKED"},
    {"finish_reason": "error", "error": "UNAVAILABLE"},
]


@pytest.mark.parametrize("form", ["json", "jsonl"])
async def test_a_file_has_one_list_or_one_step_per_line(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"script.{form}"
    path.write_text(json.dumps(STEPS) if form == "json" else "\n\n".join(json.dumps(step) for step in STEPS))
    adapter = ScriptedAdapter.from_file(path)
    assert await adapter.generate([HELLO], []) == LIST
    with pytest.raises(RateLimitError) as limited:
        await adapter.generate([HELLO], [])
    assert limited.value.retry_after == 3
    with pytest.raises(LLMTimeoutError):
        await adapter.generate([HELLO], [])
    with pytest.raises(LLMError) as blocked:
        await adapter.generate([HELLO], [])
    assert blocked.value.code == "BLOCKED"
    assert (await adapter.generate([HELLO], [])).error == "UNAVAILABLE"
    adapter.assert_finished()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "line 1 cannot be read"),
        (b'{"finish_reason": "stop", "content": "a"}\nnope', "line 2 cannot be read"),
        (b'["hello"]', "wrong at step 1"),
        (b'[{"finish_reason": "maybe"}]', "wrong at step 1"),
        (b'[{"error": "NO_SUCH_CODE"}]', "wrong at step 1"),
        (b'[{"error": "RATE_LIMITED", "retry_after": "x"}]', "wrong at step 1"),
        (b'[{"error": "RATE_LIMITED", "retry_after": []}]', "wrong at step 1"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_an_invalid_file_raises_one_clear_sentence(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=reason) as refused:
        ScriptedAdapter.from_file(path)
    assert "\n" not in str(refused.value)


def test_a_missing_file_raises_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        ScriptedAdapter.from_file(tmp_path / "none.json")
