"""Recorded exchanges with Gemini, replayed: nothing crashes, and no text, call or signature of the model is lost.

The recordings are not part of the project. `GRAPH_AGENT_RECORDED` names the folder that has them.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import InvalidResponseError, LLMError
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.families import FAMILIES, Family
from graph_agent.llm.gemini import GeminiAdapter, build_contents, parse_response
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, LLMResponse, ToolDeclaration
from tests.llm.wire_server import WireServer, says, serving

FOLDER = os.environ.get("GRAPH_AGENT_RECORDED")
EXCHANGES = (
    [json.loads(line) for line in (Path(FOLDER) / "gemini.jsonl").read_text(encoding="utf-8").splitlines()] if FOLDER else []
)
ANSWERED = ("STOP", "UNEXPECTED_TOOL_CALL", None)

pytestmark = pytest.mark.skipif(not EXCHANGES, reason="GRAPH_AGENT_RECORDED names no folder with recordings")
numbered = pytest.mark.parametrize("exchange", EXCHANGES, ids=[f"{n}-{one['model']}" for n, one in enumerate(EXCHANGES)])


@numbered
async def test_a_recorded_answer_keeps_its_calls_its_text_and_its_signatures(exchange: dict[str, Any]) -> None:
    result, _ = await _replayed(exchange, _messages(exchange["request"]))
    parts = _answer_parts(exchange)
    made, said = _calls(parts), _text(parts)
    reason = (_candidate(exchange) or {}).get("finishReason")
    if exchange["status"] != 200 or reason not in (*ANSWERED, "MAX_TOKENS"):
        assert isinstance(result, LLMError)
    elif reason == "MAX_TOKENS":
        assert isinstance(result, LLMResponse)
        assert (result.finish_reason, result.content) == ("max_tokens", said)
    elif not made and said is None:
        assert isinstance(result, InvalidResponseError)
    else:
        assert isinstance(result, LLMResponse)
        assert [(call.name, call.id) for call in result.function_calls or []] == [(one["name"], one.get("id")) for one in made]
        assert [call.arguments for call in result.function_calls or []] == [one.get("args") or {} for one in made]
        assert result.content == said
        assert result.provider_parts is not None
        assert result.provider_parts["content"] == parts


@numbered
async def test_a_recorded_answer_is_sent_back_unchanged(exchange: dict[str, Any]) -> None:
    """The next request after a stored answer and its results has the parts of the model unchanged."""
    messages = _messages(exchange["request"])
    result, wire = await _replayed(exchange, messages)
    if not isinstance(result, LLMResponse) or result.finish_reason == "max_tokens":
        return
    stored = _stored(result)
    more = [*stored, LLMMessage(role="user", content="And now?")]
    _, wire = await _replayed(exchange, [*messages, *more])

    contents = wire.requests[0].body["contents"]
    at = len(contents) - (3 if result.function_calls else 2)
    assert contents[at] == {"role": "model", "parts": _answer_parts(exchange)}
    if result.function_calls:
        assert [one["functionResponse"] for one in contents[at + 1]["parts"]] == [
            {**({"id": call["id"]} if "id" in call else {}), "name": call["name"], "response": {"n": n}}
            for n, call in enumerate(_calls(_answer_parts(exchange)))
        ]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.prefix)
def test_recorded_answers_are_sent_back_unchanged_in_any_conversation_and_order(family: Family) -> None:
    """Each answer follows the request of another exchange, and the next answer its results."""
    for n, exchange in enumerate(EXCHANGES):
        messages = [*_messages(EXCHANGES[n * 7 % len(EXCHANGES)]["request"]), LLMMessage(role="user", content="Go on.")]
        expected = build_contents(messages, family)
        for other in (exchange, EXCHANGES[-n], EXCHANGES[n * 5 % len(EXCHANGES)]):
            try:
                answer = parse_response(json.dumps(other["response"]), other["model"], _tools(other["request"]))
            except LLMError:
                continue
            if answer.finish_reason == "max_tokens":
                continue
            parts = _answer_parts(other)
            messages += _stored(answer)
            results = [
                {**({"id": call["id"]} if "id" in call else {}), "name": call["name"], "response": {"n": at}}
                for at, call in enumerate(_calls(parts))
            ]
            expected.append({"role": "model", "parts": parts})
            expected += [{"role": "user", "parts": [{"functionResponse": one} for one in results]}] if results else []
            messages.append(LLMMessage(role="user", content="And now?"))
            expected.append({"role": "user", "parts": [{"text": "And now?"}]})
        assert build_contents(messages, family) == expected


@numbered
async def test_a_recorded_request_is_rebuilt_with_the_same_calls_ids_and_signatures(exchange: dict[str, Any]) -> None:
    messages = [LLMMessage.model_validate_json(one.model_dump_json()) for one in _messages(exchange["request"])]
    _, wire = await _replayed(exchange, messages)
    assert _essence(wire.requests[0].body["contents"]) == _essence(_contents(exchange["request"]))


@numbered
async def test_a_recorded_tool_is_declared_with_its_schema_unchanged(exchange: dict[str, Any]) -> None:
    _, wire = await _replayed(exchange, _messages(exchange["request"]))
    sent = [one for tool in wire.requests[0].body.get("tools", []) for one in tool["functionDeclarations"]]
    assert [json.dumps(one["parametersJsonSchema"]) for one in sent] == [
        json.dumps(tool.parameters) for tool in _tools(exchange["request"])
    ]


def _stored(result: LLMResponse) -> list[LLMMessage]:
    """Return an answer and the results of its calls, as they are read back from the database."""
    answer = LLMMessage(
        role="assistant",
        content=result.content,
        function_calls=result.function_calls,
        provider_parts=result.provider_parts,
    )
    results = [
        LLMMessage(role="function", function_response=FunctionResponse(name=call.name, response={"n": n}, id=call.id))
        for n, call in enumerate(result.function_calls or [])
    ]
    return [LLMMessage.model_validate_json(one.model_dump_json()) for one in (answer, *results)]


async def _replayed(exchange: dict[str, Any], messages: list[LLMMessage]) -> tuple[LLMResponse | LLMError, WireServer]:
    async with serving(says(exchange["response"], exchange["status"])) as wire:
        adapter = GeminiAdapter("k", exchange["model"], base_url=wire.url, config=LLMConfig(api_key="k", max_retries=0))
        try:
            result: LLMResponse | LLMError = await adapter.generate(messages, _tools(exchange["request"]))
        except LLMError as error:
            result = error
        await adapter.aclose()
    return result, wire


def _candidate(exchange: dict[str, Any]) -> dict[str, Any] | None:
    response = exchange["response"]
    candidates = response.get("candidates") if isinstance(response, dict) else None
    return candidates[0] if candidates else None


def _answer_parts(exchange: dict[str, Any]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = ((_candidate(exchange) or {}).get("content") or {}).get("parts") or []
    return parts


def _calls(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part["functionCall"] for part in parts if "functionCall" in part]


def _text(parts: list[dict[str, Any]]) -> str | None:
    said = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    return said if said.strip() else None


def _contents(request: Any) -> list[dict[str, Any]]:
    contents = (request or {}).get("contents") or []
    return [one for one in contents if isinstance(one, dict) and one.get("parts")]


def _messages(request: Any) -> list[LLMMessage]:
    """Return a recorded request as our messages: contents of the model with their parts, results, and texts of users."""
    messages: list[LLMMessage] = []
    for content in _contents(request):
        parts = content["parts"]
        if content.get("role") == "model":
            made = [FunctionCall(name=one["name"], arguments=one.get("args") or {}, id=one.get("id")) for one in _calls(parts)]
            stored = {"provider": "gemini", "model": "recorded", "content": parts}
            content_text = _text(parts) or (None if made else "-")
            messages.append(
                LLMMessage(role="assistant", content=content_text, function_calls=made or None, provider_parts=stored)
            )
            continue
        for part in parts:
            if "functionResponse" in part:
                one = part["functionResponse"]
                given = FunctionResponse(name=one["name"], response=one["response"], id=one.get("id"))
                messages.append(LLMMessage(role="function", function_response=given))
            elif part.get("text"):
                messages.append(LLMMessage(role="user", content=part["text"]))
    return messages or [LLMMessage(role="user", content="hello")]


def _tools(request: Any) -> list[ToolDeclaration]:
    declared = [one for tool in (request or {}).get("tools") or [] for one in tool.get("functionDeclarations") or []]
    schema = ("parametersJsonSchema", "parameters_json_schema")
    return [
        ToolDeclaration(
            name=one["name"],
            description=one.get("description") or "",
            parameters=next((one[key] for key in schema if key in one), {"type": "object"}),
        )
        for one in declared
    ]


def _essence(contents: list[dict[str, Any]]) -> list[Any]:
    """Return the calls with ids, arguments and signatures, and the names and ids of the results, in order."""
    found: list[Any] = []
    for content in contents:
        for part in content["parts"]:
            signature = _bytes(part.get("thoughtSignature"))
            if "functionCall" in part:
                one = part["functionCall"]
                found.append(("call", one["name"], one.get("args") or {}, one.get("id"), signature))
            elif "functionResponse" in part:
                one = part["functionResponse"]
                found.append(("result", one["name"], one["response"], one.get("id")))
            elif signature:
                found.append(("signed", part.get("text"), signature))
    return found


def _bytes(signature: str | None) -> bytes | None:
    return base64.b64decode(signature.replace("-", "+").replace("_", "/")) if signature else None
