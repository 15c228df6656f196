"""The model that answered, which may be another one than the requested one, and what depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.llm.config import LLMConfig
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.llm import LLMMessage, LLMResponse, TokenUsage
from tests.llm.wire_apis import API, APIS, NOTHING, Call
from tests.llm.wire_server import says, serving

HELLO = LLMMessage(role="user", content="hello")
NAME_FIELD = {"gemini": "modelVersion", "openai": "model"}

both = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)


def answer(api: API, named: Any, **fields: Any) -> dict[str, Any]:
    body = api.answer(text="Yes.", **fields)
    return body if named is NOTHING else {**body, NAME_FIELD[api.name]: named}


async def answered(api: API, body: Any) -> LLMResponse:
    async with serving(says(body)) as wire:
        adapter = api.adapter(wire.url, LLMConfig(api_key="k"))
        response = await adapter.generate([HELLO], [])
        await adapter.aclose()
    return response


@both
async def test_the_model_that_answered_is_in_the_response(api: API) -> None:
    response = await answered(api, answer(api, "gemini-9.1-flash-001"))
    assert response.response_model == "gemini-9.1-flash-001"
    assert LLMResponse.model_validate(response.to_json()) == response


@both
@pytest.mark.parametrize("named", [NOTHING, None, "", " ", 7, ["m"], {"name": "m"}, "m" * 256, "a\x00b", "\ud800"])
async def test_an_unusable_name_is_left_out_and_the_answer_is_used(api: API, named: Any) -> None:
    response = await answered(api, answer(api, named))
    assert (response.content, response.response_model) == ("Yes.", None)
    assert "response_model" not in response.to_json()


def test_a_response_without_the_name_keeps_the_text_of_earlier_versions() -> None:
    usage = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    response = LLMResponse(content="Yes.", finish_reason="stop", usage=usage)
    assert set(response.to_json()) == {
        "content", "error", "finish_reason", "function_calls", "provider_parts", "retry_after", "usage"
    }  # fmt: skip
    assert response.to_json()["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


async def test_the_parameters_of_gemini_follow_the_model_that_answers() -> None:
    (api, _) = APIS
    async with serving(*(says(answer(api, name)) for name in ("gemini-2.0-flash", "gemini-3.8-flash", "other"))) as wire:
        adapter = GeminiAdapter("k", "gemini-2.0-flash", base_url=wire.url)
        for _ in range(4):
            await adapter.generate([HELLO], [], temperature=0.5)
        await adapter.aclose()
    first, second, routed, unknown = (request.body["generationConfig"] for request in wire.requests)
    assert first == second == {"temperature": 0.5, "maxOutputTokens": 1024}
    assert routed == {"maxOutputTokens": 1024 + 4096, "thinkingConfig": {"thinking_level": "LOW"}}
    assert unknown == first


async def test_the_parameters_of_the_compatible_endpoint_follow_the_model_that_answers() -> None:
    (_, api) = APIS
    async with serving(says(answer(api, "gemini-3.8-flash"))) as wire:
        adapter = OpenAICompatibleAdapter("k", "gemini-2.0-flash", base_url=wire.url)
        for _ in range(2):
            await adapter.generate([HELLO], [], temperature=0.5)
        await adapter.aclose()
    first, routed = (dict(request.body) for request in wire.requests)
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("gemini-2.0-flash", 0.5, 1024)
    assert (routed["model"], routed["reasoning_effort"], routed["max_tokens"]) == ("gemini-2.0-flash", "low", 1024 + 4096)
    assert "temperature" not in routed


async def test_a_response_that_reached_the_limit_of_one_request_is_truncated_and_not_continued() -> None:
    (api, _) = APIS
    body = api.answer(text="Half", calls=[Call()], finish="CONTINUATION")
    body["candidates"][0]["continuationToken"] = "dG9rZW4="
    async with serving(says(body)) as wire:
        adapter = GeminiAdapter("k", base_url=wire.url)
        response = await adapter.generate([HELLO], [])
        await adapter.aclose()
    assert (response.finish_reason, response.content, response.function_calls) == ("max_tokens", "Half", None)
    assert len(wire.requests) == 1


@pytest.mark.parametrize(
    ("reported", "cached"), [(60, 60), (0, 0), (None, 0), (-1, 0), ("60", 0), (True, 0), (2**63, 0), (NOTHING, 0)]
)
@both
async def test_tokens_from_the_cache_are_counted_if_the_provider_reports_them(api: API, reported: Any, cached: int) -> None:
    usage = api.counted(100, 5, 105)
    if reported is not NOTHING:
        usage |= {
            "gemini": {"cachedContentTokenCount": reported},
            "openai": {"prompt_tokens_details": {"cached_tokens": reported}},
        }[api.name]
    response = await answered(api, answer(api, NOTHING, usage=usage))
    assert response.usage == TokenUsage(prompt_tokens=100, completion_tokens=5, total_tokens=105, cached_tokens=cached)
