"""The requests of the OpenAI-compatible adapter."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ConfigurationError, LLMError
from graph_agent.llm.endpoint_check import check_endpoint
from graph_agent.llm.openai_compatible import GEMINI_ENDPOINT, OpenAICompatibleAdapter
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, LLMResponse, TokenUsage
from graph_agent.ports import LLMAdapter
from graph_agent.task_server.declarations import TASK_TOOLS
from tests.llm.wire_apis import SIGNATURE, Call, OpenAIAPI
from tests.llm.wire_server import Reply, says, sends, serving

SERVER = OpenAIAPI()
HELLO = LLMMessage(role="user", content="hello")
YES = says(SERVER.answer(text="Yes."))


def result(name: str, response: dict[str, Any], call_id: str | None = None) -> LLMMessage:
    return LLMMessage(role="function", function_response=FunctionResponse(name=name, response=response, id=call_id))


def stored(answer: LLMResponse) -> LLMMessage:
    message = LLMMessage(
        role="assistant",
        content=answer.content,
        function_calls=answer.function_calls,
        provider_parts=answer.provider_parts,
    )
    return LLMMessage.model_validate_json(message.model_dump_json())


async def sent(messages: list[LLMMessage], model: str = "gemini-3.8-flash", **settings: Any) -> Any:
    async with serving(YES) as wire:
        adapter = OpenAICompatibleAdapter("k", model, base_url=wire.url)
        await adapter.generate(messages, settings.pop("tools", []), **settings)
        await adapter.aclose()
    return wire.requests[0].body


async def answered(body: Any) -> LLMResponse:
    async with serving(says(body)) as wire:
        adapter = OpenAICompatibleAdapter("k", "gemini-3.8-flash", base_url=wire.url)
        answer = await adapter.generate([HELLO], [])
        await adapter.aclose()
    return answer


async def test_a_complete_request_to_a_gemini_model() -> None:
    async with serving(YES) as wire:
        adapter = OpenAICompatibleAdapter("the-key", "gemini-3.8-flash", base_url=f"{wire.url}/v1beta/openai/")
        await adapter.generate([HELLO], [TASK_TOOLS[0]], system_instruction="Be brief.")
        await adapter.aclose()
    request = wire.requests[0]
    assert (request.method, request.path) == ("POST", "/v1beta/openai/chat/completions")
    assert request.headers["authorization"] == "Bearer the-key"
    tool = {"name": "add_task", "description": TASK_TOOLS[0].description, "parameters": TASK_TOOLS[0].parameters}
    assert request.body == {
        "model": "gemini-3.8-flash",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": tool}],
        "max_tokens": 1024 + 4096,
        "reasoning_effort": "low",
    }


@pytest.mark.parametrize("path", ["", "/", "//", "/chat/completions", "/chat/completions/"])
async def test_a_base_url_may_include_a_part_of_the_path(path: str) -> None:
    async with serving(YES) as wire:
        adapter = OpenAICompatibleAdapter("k", "m", base_url=f" {wire.url}/v1{path} ")
        await adapter.generate([HELLO], [])
        await adapter.aclose()
    assert wire.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("llama3.2:latest", {"max_tokens": 100, "temperature": 0.5}),
        ("openai/gpt-oss-20b", {"max_tokens": 100, "temperature": 0.5}),
        ("gemini-2.0-flash", {"max_tokens": 100, "temperature": 0.5}),
        ("gpt-5.2-mini", {"max_completion_tokens": 4196, "reasoning_effort": "low"}),
    ],
)
async def test_each_kind_of_model_gets_the_settings_that_it_accepts(model: str, settings: dict[str, Any]) -> None:
    body = await sent([HELLO], model, temperature=0.5, max_tokens=100)
    assert body == {"model": model, "messages": [{"role": "user", "content": "hello"}], **settings}


async def test_signatures_of_the_message_and_of_a_call_are_sent_back_unchanged() -> None:
    body = SERVER.answer(
        text="On it.", calls=[Call(name="default_api.get", id="a", signature=SIGNATURE), Call(name="put", id="b")]
    )
    message = body["choices"][0]["message"]
    message["extra_content"] = {"google": {"thought_signature": "aG0="}, "more": [1]}
    message["reasoning_content"] = "Hm"
    answer = await answered(body)
    request = await sent([HELLO, stored(answer), result("put", {"n": 2}, "b"), result("get", {"é": 1}, "a")])
    assert request["messages"][1:] == [
        {key: message[key] for key in ("role", "content", "tool_calls", "extra_content", "reasoning_content")},
        {"role": "tool", "tool_call_id": "a", "content": '{"é":1}'},
        {"role": "tool", "tool_call_id": "b", "content": '{"n":2}'},
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reasoning_content", "The user wants"),
        ("reasoning_content", ""),
        ("reasoning", "The user wants"),
        ("reasoning_details", [{"type": "reasoning.encrypted", "data": "c2ln"}]),
        ("thinking_blocks", [{"type": "thinking", "thinking": "The user", "signature": "c2ln"}]),
    ],
)
async def test_the_reasoning_beside_a_call_goes_back_as_the_server_named_it(field: str, value: Any) -> None:
    body = SERVER.answer(calls=[Call(name="get", id="a")])
    body["choices"][0]["message"][field] = value
    body["choices"][0]["message"]["annotations"] = []
    answer = await answered(body)
    asked, _ = (await sent([HELLO, stored(answer), result("get", {"n": 1}, "a")]))["messages"][1:]
    assert asked.keys() == {"role", "content", "tool_calls", field}
    assert asked[field] == value


async def test_a_call_without_an_id_gets_one_only_on_the_wire() -> None:
    answer = await answered(SERVER.answer(calls=[Call(name="get"), Call(name="get", id="call_1"), Call(name="get")]))
    assert [call.id for call in answer.function_calls or []] == [None, "call_1", None]
    results = [result("get", {"n": n}, call.id) for n, call in enumerate(answer.function_calls or [])]
    body = await sent([HELLO, stored(answer), *results])
    asked, *tools = body["messages"][1:]
    assert [call["id"] for call in asked["tool_calls"]] == ["call_2", "call_1", "call_3"]
    assert [(tool["tool_call_id"], tool["content"]) for tool in tools] == [
        ("call_2", '{"n":0}'),
        ("call_1", '{"n":1}'),
        ("call_3", '{"n":2}'),
    ]


async def test_results_follow_the_message_with_their_calls() -> None:
    asked = [LLMMessage(role="assistant", function_calls=[FunctionCall(name="get", id=call_id)]) for call_id in "ab"]
    body = await sent([HELLO, *asked, result("get", {"n": 2}, "b"), result("get", {"n": 1}, "a")])
    said = [(message["role"], message.get("tool_call_id"), message["content"]) for message in body["messages"][1:]]
    assert said == [
        ("assistant", None, None),
        ("tool", "a", '{"n":1}'),
        ("assistant", None, None),
        ("tool", "b", '{"n":2}'),
    ]


async def test_a_call_is_completed_with_what_the_protocol_requires() -> None:
    made = [
        {"id": "a", "index": 0, "function": {"name": "get", "arguments": {"n": "é"}}},
        {"id": "b", "type": None, "function": {"name": "get", "arguments": " "}},
        {"id": "c", "function": {"name": "get"}},
    ]
    answer = await answered(SERVER.wrap({"role": "tool", "content": "On it.", "tool_calls": made}))
    results = [result("get", {"n": n}, call.id) for n, call in enumerate(answer.function_calls or [])]
    asked = (await sent([HELLO, stored(answer), *results]))["messages"][1]
    assert asked == {
        "role": "assistant",
        "content": "On it.",
        "tool_calls": [
            {"type": "function", "id": "a", "index": 0, "function": {"name": "get", "arguments": '{"n": "é"}'}},
            {"type": "function", "id": "b", "function": {"name": "get", "arguments": "{}"}},
            {"type": "function", "id": "c", "function": {"name": "get", "arguments": "{}"}},
        ],
    }


async def test_the_older_form_function_call_is_sent_back_as_a_tool_call() -> None:
    answer = await answered(
        SERVER.wrap({"content": None, "function_call": {"name": "get", "arguments": "{}"}}, "function_call")
    )
    asked, tool_message = (await sent([HELLO, stored(answer), result("get", {"n": 1})]))["messages"][1:]
    assert asked == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "id": "call_1", "function": {"name": "get", "arguments": "{}"}}],
    }
    assert tool_message == {"role": "tool", "tool_call_id": "call_1", "content": '{"n":1}'}


async def test_calls_of_another_provider_are_rebuilt() -> None:
    asked = LLMMessage(
        role="assistant",
        function_calls=[FunctionCall(name="get", arguments={"a": "é"}, id="x")],
        provider_parts={"provider": "gemini", "content": [{"functionCall": {"name": "get"}}]},
    )
    body = await sent([HELLO, asked])
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get", "arguments": '{"a": "é"}'},
                    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"error":"This call was not carried out."}'},
    ]


async def test_other_models_are_sent_no_signatures() -> None:
    asked = LLMMessage(role="assistant", function_calls=[FunctionCall(name="get", id="x")])
    body = await sent([HELLO, asked, result("get", {}, "x")], "llama3")
    assert "extra_content" not in str(body)
    assert body["messages"][2]["tool_call_id"] == "x"


async def test_usage_is_stored_as_the_provider_counted_it() -> None:
    answer = await answered(SERVER.answer(text="Yes.", usage=SERVER.counted(10, 5, 99)))
    assert answer.usage == TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=99)


async def test_a_self_hosted_server_needs_no_key() -> None:
    async with serving(YES) as wire:
        adapter = OpenAICompatibleAdapter("", "llama3", base_url=wire.url)
        assert (await adapter.generate([HELLO], [])).content == "Yes."
        await adapter.aclose()


def test_geminis_endpoint_needs_a_key() -> None:
    with pytest.raises(ConfigurationError, match="api_key must not be empty"):
        OpenAICompatibleAdapter("", "gemini-3.8-flash")


def test_the_default_endpoint_is_geminis() -> None:
    adapter: LLMAdapter = OpenAICompatibleAdapter("k", "gemini-3.8-flash")
    assert adapter.model == "gemini-3.8-flash"
    assert GEMINI_ENDPOINT == "https://generativelanguage.googleapis.com/v1beta/openai/"


@pytest.mark.parametrize(
    ("models", "found"),
    [
        (
            says({"object": "list", "data": [{"id": f"model-{n}"} for n in range(22)]}),
            r"it serves model-0, .*, model-19 and 2 more",
        ),
        (sends(b"not found", 404), "and it has no list of models"),
        (sends(b"<html>"), "and it has no list of models"),
    ],
)
async def test_the_check_of_a_model_that_is_not_served_lists_those_that_are(models: Reply, found: str) -> None:
    async with serving(says(SERVER.error(404), 404), says(SERVER.error(404), 404), models) as wire:
        adapter = OpenAICompatibleAdapter("the-key", "m", base_url=wire.url)
        with pytest.raises(LLMError, match=found):
            await check_endpoint(adapter, None, ())
        await adapter.aclose()
    assert [request.path for request in wire.requests] == ["/chat/completions"] * 2 + ["/models"]


async def test_the_check_quotes_the_text_of_a_refusal_without_the_key() -> None:
    refusal = says({"error": {"message": "the-key: gemma\n does not support tools"}}, 400)
    async with serving(refusal) as wire:
        adapter = OpenAICompatibleAdapter("the-key", "m", base_url=wire.url)
        with pytest.raises(LLMError, match=r"\(the server says: \*\*\*: gemma does not support tools\)$"):
            await check_endpoint(adapter, None, ())
        await adapter.aclose()
