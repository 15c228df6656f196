"""The requests of the Gemini adapter, and how its calls end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from graph_agent.clock import SystemClock, turn_deadline
from graph_agent.errors import ConfigurationError, LLMError, LLMTimeoutError, ToolNotFoundError
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.endpoint_check import check_endpoint
from graph_agent.llm.families import DEFAULT_MODEL
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.ports import LLMAdapter
from graph_agent.task_server.declarations import TASK_TOOLS
from tests.llm.wire_apis import SIGNATURE, Call, GeminiAPI
from tests.llm.wire_server import drips, hangs, says, serving

SERVER = GeminiAPI()
HELLO = LLMMessage(role="user", content="hello")
YES = says(SERVER.answer(text="Yes."))


def result(name: str, response: dict[str, Any], call_id: str | None = None) -> LLMMessage:
    return LLMMessage(role="function", function_response=FunctionResponse(name=name, response=response, id=call_id))


def stored(answer: LLMResponse) -> LLMMessage:
    """Return an answer as it is read back from the database."""
    message = LLMMessage(
        role="assistant",
        content=answer.content,
        function_calls=answer.function_calls,
        provider_parts=answer.provider_parts,
    )
    return LLMMessage.model_validate_json(message.model_dump_json())


async def sent(messages: list[LLMMessage], model: str = DEFAULT_MODEL, **settings: Any) -> Any:
    """Return the body of the request for these messages."""
    async with serving(YES) as wire:
        adapter = GeminiAdapter("k", model, base_url=wire.url)
        await adapter.generate(messages, settings.pop("tools", []), **settings)
        await adapter.aclose()
    return wire.requests[0].body


async def answered(body: Any) -> LLMResponse:
    async with serving(says(body)) as wire:
        adapter = GeminiAdapter("k", base_url=wire.url)
        answer = await adapter.generate([HELLO], [])
        await adapter.aclose()
    return answer


class TestRequest:
    async def test_a_complete_request_of_the_newest_family(self) -> None:
        async with serving(YES) as wire:
            adapter = GeminiAdapter("the-key", base_url=f"{wire.url}/prefix")
            await adapter.generate([HELLO], [TASK_TOOLS[0]], 0.0, 1024, system_instruction="Be brief.")
            await adapter.aclose()
        request = wire.requests[0]
        assert (request.method, request.path) == ("POST", "/prefix/v1beta/models/gemini-3.8-flash:generateContent")
        assert request.headers["x-goog-api-key"] == "the-key"
        body = request.body
        thinking = body["generationConfig"].pop("thinkingConfig")
        assert list(thinking.values()) == ["LOW"]
        assert body == {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "add_task",
                            "description": TASK_TOOLS[0].description,
                            "parametersJsonSchema": TASK_TOOLS[0].parameters,
                        }
                    ]
                }
            ],
            "generationConfig": {"maxOutputTokens": 1024 + 4096},
            "safetySettings": [],
            "store": False,
        }

    @pytest.mark.parametrize("path", ["", "/", "//", "/v1beta", "/v1beta/", "/v1beta/models/"])
    async def test_a_base_url_may_include_a_part_of_the_path(self, path: str) -> None:
        async with serving(YES) as wire:
            adapter = GeminiAdapter("k", base_url=f" {wire.url}/some/where{path} ")
            await adapter.generate([HELLO], [])
            await adapter.aclose()
        assert wire.requests[0].path == "/some/where/v1beta/models/gemini-3.8-flash:generateContent"

    async def test_generation_2_0_gets_the_temperature_and_no_thinking(self) -> None:
        body = await sent([HELLO], "gemini-2.0-flash", temperature=0.0, max_tokens=100)
        assert body["generationConfig"] == {"temperature": 0.0, "maxOutputTokens": 100}

    async def test_generation_2_5_gets_the_temperature_and_a_budget(self) -> None:
        # The others of this generation are answered by newer models from December 2026 on.
        body = await sent([HELLO], "gemini-2.5-flash-lite", temperature=0.5, max_tokens=100)
        settings = body["generationConfig"]
        assert list(settings.pop("thinkingConfig").values()) == [1024]
        assert settings == {"temperature": 0.5, "maxOutputTokens": 1124}

    async def test_a_schema_is_sent_unchanged(self) -> None:
        schema = {
            "type": "object",
            "required": ["b", "a"],
            "additionalProperties": False,
            "properties": {
                "b": {"type": "string", "minLength": 1, "format": "uuid", "default": None},
                "a": {"$ref": "#/$defs/A"},
                "free": {"type": "object"},
            },
            "$defs": {"A": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]}},
            "x-snake_case": {"_url": True},
        }
        tool = ToolDeclaration(name="t", description="", parameters=schema)
        body = await sent([HELLO], tools=[tool])
        assert json.dumps(body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]) == json.dumps(schema)

    async def test_the_deadline_sent_to_the_server_is_never_shorter_than_it_accepts(self) -> None:
        async with serving(YES) as wire:
            adapter = GeminiAdapter("k", base_url=wire.url, config=LLMConfig(api_key="k", timeout_seconds=3))
            await adapter.generate([HELLO], [])
            await adapter.aclose()
        assert wire.requests[0].headers["x-server-timeout"] == "10"

    async def test_the_environment_variables_of_the_sdk_have_no_effect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOOGLE_API_KEY", "other")
        monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
        async with serving(YES) as wire:
            adapter = GeminiAdapter("the-key", base_url=wire.url)
            await adapter.generate([HELLO], [])
            await adapter.aclose()
        assert wire.requests[0].headers["x-goog-api-key"] == "the-key"
        assert wire.requests[0].path.startswith("/v1beta/models/")


class TestConversation:
    async def test_the_content_of_the_model_is_sent_back_unchanged(self) -> None:
        parts = [
            {"text": "Hm", "thought": True, "thoughtSignature": "aG0="},
            {"hologram": {"x": 1.0}},
            {"text": "On it."},
            {"functionCall": {"name": "default_api.add_task", "args": {"n": 3.0}, "id": "a"}, "thoughtSignature": SIGNATURE},
            {"functionCall": {"name": "list_tasks", "id": "b"}},
        ]
        answer = await answered(SERVER.wrap({"role": "model", "parts": parts}))
        body = await sent([HELLO, stored(answer), result("list_tasks", {"l": 1}, "b"), result("add_task", {"a": 1}, "a")])
        assert body["contents"][1:] == [
            {"role": "model", "parts": parts},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "a", "name": "default_api.add_task", "response": {"a": 1}}},
                    {"functionResponse": {"id": "b", "name": "list_tasks", "response": {"l": 1}}},
                ],
            },
        ]

    async def test_an_id_is_never_invented(self) -> None:
        answer = await answered(SERVER.answer(calls=[Call(name="add_task")]))
        assert answer.function_calls == [FunctionCall(name="add_task", arguments={"note": "x"})]
        body = await sent([HELLO, stored(answer), result("add_task", {"ok": True})])
        assert "id" not in json.dumps([content["parts"] for content in body["contents"][1:]])

    async def test_every_call_gets_exactly_one_result_in_the_order_of_the_calls(self) -> None:
        same = FunctionCall(name="get", arguments={})
        asked = LLMMessage(role="assistant", function_calls=[same, FunctionCall(name="put"), same])
        body = await sent([HELLO, asked, result("get", {"n": 1}), result("lost", {"n": 9}), result("get", {"n": 2}), HELLO])
        answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
        assert [one["name"] for one in answers] == ["get", "put", "get"]
        assert [one["response"] for one in answers] == [{"n": 1}, {"error": "This call was not carried out."}, {"n": 2}]
        assert body["contents"][3] == {"role": "user", "parts": [{"text": "hello"}]}

    async def test_calls_without_a_result_get_one_before_the_next_message(self) -> None:
        asked = LLMMessage(role="assistant", function_calls=[FunctionCall(name="get")])
        body = await sent([HELLO, asked, HELLO])
        assert [content["role"] for content in body["contents"]] == ["user", "model", "user", "user"]

    async def test_a_result_without_a_call_is_left_out(self) -> None:
        body = await sent([result("get", {"n": 1}), HELLO])
        assert body["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]

    async def test_calls_of_another_provider_are_rebuilt_without_its_ids(self) -> None:
        asked = LLMMessage(
            role="assistant",
            function_calls=[FunctionCall(name="get", id="call_1"), FunctionCall(name="put", id="call_2")],
            provider_parts={"provider": "openai", "message": {}},
        )
        body = await sent([HELLO, asked, result("put", {"n": 2}, "call_2"), result("get", {"n": 1}, "call_1")])
        assert body["contents"][1]["parts"] == [
            {"functionCall": {"name": "get", "args": {}}, "thoughtSignature": "skip_thought_signature_validator"},
            {"functionCall": {"name": "put", "args": {}}},
        ]
        assert body["contents"][2]["parts"] == [
            {"functionResponse": {"name": "get", "response": {"n": 1}}},
            {"functionResponse": {"name": "put", "response": {"n": 2}}},
        ]

    async def test_generation_2_0_is_sent_neither_ids_nor_signatures(self) -> None:
        asked = LLMMessage(role="assistant", function_calls=[FunctionCall(name="get", id="x")])
        body = await sent([HELLO, asked, result("get", {}, "x")], "gemini-2.0-flash")
        assert body["contents"][1]["parts"] == [{"functionCall": {"name": "get", "args": {}}}]
        assert body["contents"][2]["parts"] == [{"functionResponse": {"name": "get", "response": {}}}]

    @pytest.mark.parametrize(
        "parts",
        [
            {"provider": "gemini"},
            {"provider": "gemini", "content": "text"},
            {"provider": "gemini", "content": []},
            {"provider": "gemini", "content": ["text"]},
            {"provider": "gemini", "content": [{"functionCall": {"name": "other"}}]},
            {"provider": "gemini", "content": [{"functionCall": {"name": "get"}}, {"functionCall": {"name": "get"}}]},
        ],
    )
    async def test_stored_parts_that_differ_from_the_message_are_not_sent(self, parts: dict[str, Any]) -> None:
        asked = LLMMessage(role="assistant", function_calls=[FunctionCall(name="get")], provider_parts=parts)
        body = await sent([HELLO, asked, result("get", {})])
        assert [part["functionCall"] for part in body["contents"][1]["parts"]] == [{"name": "get", "args": {}}]

    async def test_a_replaced_text_is_sent_instead_of_the_original(self) -> None:
        answer = await answered(SERVER.answer(text="Yes."))
        body = await sent([HELLO, stored(answer).replace(content="No."), HELLO])
        assert body["contents"][1] == {"role": "model", "parts": [{"text": "No."}]}


async def test_usage_counts_thoughts_as_completion() -> None:
    usage = SERVER.counted(10, 5, 99) | {"thoughtsTokenCount": 20}
    assert (await answered(SERVER.answer(text="Yes.", usage=usage))).usage == TokenUsage(
        prompt_tokens=10, completion_tokens=25, total_tokens=99
    )


async def test_a_response_that_comes_byte_by_byte_ends_with_the_turns_deadline() -> None:
    clock = SystemClock()
    async with serving(drips(b" " * 100_000, 0.02)) as wire, asyncio.timeout(60):
        adapter = GeminiAdapter("k", base_url=wire.url)
        with turn_deadline(clock, clock.monotonic() + 0.8), pytest.raises(LLMTimeoutError):
            await adapter.generate([HELLO], [])
        await adapter.aclose()


async def test_a_cancelled_call_frees_its_connection() -> None:
    asked = asyncio.Event()
    async with serving(hangs(asked), YES) as wire:
        adapter = GeminiAdapter("k", base_url=wire.url)
        call = asyncio.create_task(adapter.generate([HELLO], []))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await adapter.generate([HELLO], [])).content == "Yes."
        await adapter.aclose()


async def test_a_refused_connection_is_unavailable() -> None:
    async with serving(YES) as wire:
        pass
    adapter = GeminiAdapter("k", base_url=wire.url)
    with pytest.raises(LLMError) as failed:
        await adapter.generate([HELLO], [])
    assert failed.value.code == "UNAVAILABLE"
    await adapter.aclose()


async def test_the_log_names_the_cause_and_the_status_without_the_providers_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(says(SERVER.error(404), 404)) as wire:
        adapter = GeminiAdapter("the-key", "gemini-2.0-flash", base_url=wire.url)
        with pytest.raises(LLMError, match="does not serve this model"):
            await adapter.generate([HELLO], [])
        await adapter.aclose()
    assert "the endpoint does not serve this model" in caplog.text
    assert "(HTTP status 404)" in caplog.text
    assert "the-key" not in caplog.text
    assert "10.0.0.7" not in caplog.text


async def test_an_installed_aiohttp_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from google.genai import _api_client

    # The SDK sets it at its import if aiohttp is installed, which it is not.
    monkeypatch.setattr(_api_client, "has_aiohttp", True)
    async with serving(says(SERVER.error(503), 503), YES) as wire:
        adapter = GeminiAdapter("k", base_url=wire.url)
        assert (await adapter.generate([HELLO], [])).content == "Yes."
        await adapter.aclose()


async def test_the_check_of_a_retired_model_names_its_successor() -> None:
    async with serving(says(SERVER.error(404), 404)) as wire:
        adapter = GeminiAdapter("the-key", "gemini-2.0-flash", base_url=wire.url)
        with pytest.raises(LLMError, match=r"gemini-2\.0-flash is retired, and its successor is gemini-3\.8-flash"):
            await check_endpoint(adapter, None, ())
        await adapter.aclose()


def test_it_implements_the_port_and_declares_the_task_tools() -> None:
    adapter: LLMAdapter = GeminiAdapter("k")
    assert adapter.model == "gemini-3.8-flash"
    assert adapter.get_tool_declarations(["list_tasks"]) == [TASK_TOOLS[1]]
    with pytest.raises(ToolNotFoundError):
        adapter.get_tool_declarations(["hack"])


def test_an_empty_key_is_rejected() -> None:
    with pytest.raises(ConfigurationError):
        GeminiAdapter(" ")


def test_the_key_is_not_in_the_representation() -> None:
    adapter = GeminiAdapter("the-key")
    assert "the-key" not in f"{adapter!r} {vars(adapter)!r}"
