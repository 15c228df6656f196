"""The check of an endpoint: what works there, or why nothing can."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import LLMError
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.endpoint_check import check_endpoint
from graph_agent.models.llm import ToolDeclaration
from graph_agent.policy.constitution import Constitution
from graph_agent.task_server.declarations import TASK_TOOLS
from tests.llm.wire_apis import API, APIS, Call, OpenAIAPI
from tests.llm.wire_required import ANSWER
from tests.llm.wire_server import Reply, WireServer, says, serving

LIST = Call("list_tasks", {}, id="l")
PROMPT = Constitution.load(None).text

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def called(api: API, call: Call = ANSWER, tokens: int = 1_500) -> Reply:
    return says(api.answer(calls=[call], finish="calls", usage=api.counted(tokens, 5, tokens + 5)))


def text(api: API, said: str = "Hello!", tokens: int = 1_500) -> Reply:
    return says(api.answer(text=said, usage=api.counted(tokens, 5, tokens + 5)))


def refusal(api: API) -> Reply:
    return says(api.error(400), 400)


async def checked(api: API, *replies: Reply, tools: Any = TASK_TOOLS) -> tuple[str, WireServer]:
    async with serving(*replies) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="x"))
        try:
            found = await check_endpoint(adapter, PROMPT, tools)
        except LLMError as error:
            found = error.message
        await adapter.aclose()
    return found, wire


@each_api
async def test_a_call_that_comes_back_as_a_call_works_and_the_size_of_the_prompt_is_reported(api: API) -> None:
    found, wire = await checked(api, called(api))
    assert found == "works: calls come back as calls; the constitution and 8 functions take 1,500 tokens"
    assert [api.requires_call(request.body) for request in wire.requests] == [True]
    assert "list_tasks" in wire.requests[0].raw.decode()
    assert "Constitution" in wire.requests[0].raw.decode()


@each_api
@pytest.mark.parametrize(
    ("make_replies", "how"),
    [
        (lambda s: [text(s), called(s, LIST)], "ignores"),
        (lambda s: [refusal(s), called(s)], "refuses"),
        (lambda s: [refusal(s), text(s), refusal(s), called(s, LIST)], "refuses"),
        (lambda s: [says({}), called(s)], "refuses"),
    ],
)
async def test_a_model_that_calls_when_it_is_asked_to_works_without_the_requirement(
    api: API, make_replies: Any, how: str
) -> None:
    found, _ = await checked(api, *make_replies(api))
    assert found.startswith(f"works, but the server {how} the requirement of a call: the model may answer without a tool")


@each_api
@pytest.mark.parametrize(
    ("said", "tokens", "reason"),
    [
        ("Hello!", 1_500, "the model was asked to call list_tasks and answered with text; "),
        ('{"name": "list_tasks", "arguments": {}}', 1_500, "the model writes its calls as text; "),
        ('answer(text="Hello!")', 1_500, "the model writes its calls as text; "),
        ("Hello!", 32, "the declarations of the tools do not reach the model (32 prompt tokens for"),
    ],
)  # fmt: skip
async def test_a_model_that_does_not_call_cannot_work_and_the_remedy_is_named(
    api: API, said: str, tokens: int, reason: str
) -> None:
    found, wire = await checked(api, text(api, said, tokens))
    assert found.startswith(f"cannot work: {reason}")
    assert "--jinja" in found
    assert len(wire.requests) == 2


@each_api
async def test_a_call_of_another_function_does_not_count(api: API) -> None:
    found, _ = await checked(api, called(api, Call("other", {}, id="o")))
    assert found.startswith("cannot work: ")


@each_api
async def test_a_context_that_is_too_small_is_named_with_both_sizes(api: API) -> None:
    message = "request (1516 tokens) exceeds the available context size (1024 tokens), try increasing it"
    found, wire = await checked(api, says(api.error(400, message=message), 400))
    assert "the request of 1,516 tokens does not fit the model's context of 1,024 tokens: give the model's server" in found
    assert len(wire.requests) == 1


async def test_a_tool_that_cannot_be_declared_is_named() -> None:
    odd = ToolDeclaration(name="odd", description="", parameters={"type": "string"})
    found, _ = await checked(OpenAIAPI(), called(OpenAIAPI()), tools=[*TASK_TOOLS, odd])
    assert found.endswith("; not offered to the model: odd (its arguments are no object)")
