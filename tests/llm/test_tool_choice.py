"""Adapters that require a call: what is sent, and when they stop."""

from __future__ import annotations

import pytest

from graph_agent.clock import SystemClock, turn_deadline
from graph_agent.errors import LLMError
from graph_agent.llm.config import LLMConfig
from graph_agent.models.llm import LLMMessage, ToolDeclaration
from tests.llm.wire_apis import API, APIS, TOOL
from tests.llm.wire_server import Reply, late, says, serving

HELLO = LLMMessage(role="user", content="hello")
CONFIG = LLMConfig(api_key="x")

each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def text(api: API) -> Reply:
    return says(api.answer(text="Yes."))


def refusal(api: API) -> Reply:
    return says(api.error(400), 400)


async def requirements(api: API, calls: int, *replies: Reply) -> list[bool]:
    """Make `calls` required requests with one adapter; return for each request on the wire whether it requires a call."""
    async with serving(*replies) as wire:
        adapter = api.adapter(wire.url, CONFIG)
        for _ in range(calls):
            await adapter.generate([HELLO], [TOOL], tool_choice="required")
        await adapter.aclose()
    return [api.requires_call(request.body) for request in wire.requests]


@each_api
async def test_an_adapter_stops_requiring_after_two_failures_in_a_row_and_logs_it_once(
    api: API, caplog: pytest.LogCaptureFixture
) -> None:
    replies = [refusal(api), text(api), says({}), text(api)]
    assert await requirements(api, 4, *replies) == [True, False, True, False, False, False]
    assert caplog.text.count("does not support required calls") == 1


@each_api
async def test_a_usable_response_in_between_resets_the_count(api: API) -> None:
    failure = [refusal(api), text(api)]
    sent = await requirements(api, 4, *failure, text(api), *failure, text(api))
    assert sent == [True, False, True, True, False, True]


@each_api
async def test_an_endpoint_that_fails_either_way_does_not_count(api: API) -> None:
    async with serving(refusal(api)) as wire:
        adapter = api.adapter(wire.url, CONFIG)
        for _ in range(3):
            with pytest.raises(LLMError, match="refused the request"):
                await adapter.generate([HELLO], [TOOL], tool_choice="required")
        await adapter.aclose()
    assert [api.requires_call(request.body) for request in wire.requests] == [True, False] * 3


@each_api
async def test_another_adapter_for_the_same_server_still_requires(api: API) -> None:
    failure = [refusal(api), text(api)]
    assert await requirements(api, 2, *failure, *failure) == [True, False, True, False]
    assert await requirements(api, 1, text(api)) == [True]


@each_api
async def test_the_second_attempt_ends_with_the_turn(api: API) -> None:
    clock = SystemClock()
    async with serving(refusal(api), late(30, text(api))) as wire:
        adapter = api.adapter(wire.url, CONFIG)
        began = clock.monotonic()
        with turn_deadline(clock, began + 1), pytest.raises(LLMError, match="refused the request"):
            await adapter.generate([HELLO], [TOOL], tool_choice="required")
        await adapter.aclose()
    assert clock.monotonic() - began < 20


@each_api
async def test_nothing_is_required_without_tools(api: API) -> None:
    async with serving(text(api)) as wire:
        adapter = api.adapter(wire.url, CONFIG)
        await adapter.generate([HELLO], [], tool_choice="required")
        await adapter.generate([HELLO], [TOOL])
        await adapter.aclose()
    assert [api.requires_call(request.body) for request in wire.requests] == [False, False]


@each_api
async def test_a_tool_without_parameters_is_declared_with_an_empty_object_schema(api: API) -> None:
    async with serving(text(api)) as wire:
        adapter = api.adapter(wire.url, CONFIG)
        await adapter.generate([HELLO], [ToolDeclaration(name="now", description="", parameters={})], tool_choice="required")
        await adapter.aclose()
    (tool,) = wire.requests[0].body["tools"]
    declared = tool["functionDeclarations"][0] if api.name == "gemini" else tool["function"]
    schema = declared["parametersJsonSchema" if api.name == "gemini" else "parameters"]
    assert schema == {"type": "object", "properties": {}}
