"""Our messages as Gemini's JSON and Gemini's JSON as our answers: pure functions, no SDK.

A model's own content is kept as it came and goes back as it came: signatures, ids, thoughts, code, images and whatever kind of
part is invented next. Only what has no stored form is built from our fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_agent.errors import InvalidResponseError
from graph_agent.llm.answers import (
    answer,
    as_object,
    as_objects,
    as_text,
    call_of,
    check_plain,
    check_signature,
    plain_call_name,
    read_object,
    usage_of,
)
from graph_agent.llm.failures import blocked
from graph_agent.llm.families import Family
from graph_agent.llm.pairing import exchanges
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration

PROVIDER = "gemini"

UNSIGNED = "skip_thought_signature_validator"
"""Gemini's own word for a call it has to take without a signature: one that was not made by it, or not kept."""

_CALLING = "UNEXPECTED_TOOL_CALL"
_ANSWERS = frozenset({"", "FINISH_REASON_UNSPECIFIED", "STOP", _CALLING})
_CUT = "MAX_TOKENS"
_BLOCKED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
"""Finish reasons of content filters. What is in none of these three is a malformed answer, whatever it is called."""


def contents_of(messages: Sequence[LLMMessage], family: Family) -> list[dict[str, Any]]:
    """`messages` as `contents`; after a model's calls stands one user content with exactly one result for each of them."""
    contents: list[dict[str, Any]] = []
    for exchange in exchanges(messages):
        if all(message.role == "user" for message in exchange.messages):
            contents += [{"role": "user", "parts": [{"text": message.content}]} for message in exchange.messages]
            continue
        made: list[dict[str, Any]] = [{"role": "model", "parts": _parts(message, family)} for message in exchange.messages]
        calls = [part["functionCall"] for content in made for part in content["parts"] if "functionCall" in part]
        contents += made
        if calls:
            results = [_result(call, response) for call, response in zip(calls, exchange.results, strict=True)]
            contents.append({"role": "user", "parts": results})
    return contents


def tools_of(declarations: Sequence[ToolDeclaration]) -> list[dict[str, Any]]:
    """`declarations` as `tools`, their schemas untouched."""
    if not declarations:
        return []
    return [
        {
            "functionDeclarations": [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
                for tool in declarations
            ]
        }
    ]


def response_of(body: str, model: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
    """What `body`, an answer with status 200, says. Raises `LLMError` (BLOCKED) or `InvalidResponseError`."""
    said = read_object(body)
    if as_object(said.get("promptFeedback")).get("blockReason") not in (None, "", "BLOCK_REASON_UNSPECIFIED"):
        raise blocked()
    candidates = as_objects(said.get("candidates"))
    if said.get("error") is not None or not candidates:
        raise InvalidResponseError("the model's answer is empty")
    first = candidates[0]
    reason = as_text(first.get("finishReason")).upper()
    if reason in _BLOCKED:
        raise blocked()
    if reason not in _ANSWERS and reason != _CUT:
        raise InvalidResponseError("the model did not finish its answer")
    cut = reason == _CUT
    parts = as_objects(as_object(first.get("content")).get("parts"))
    check_plain(parts)
    for part in parts:
        check_signature(part.get("thoughtSignature"))
    return answer(
        _text(parts),
        [] if cut else _calls(parts, tools),
        _usage(said.get("usageMetadata")),
        {"provider": PROVIDER, "model": model, "content": parts},
        cut=cut,
        calling=reason == _CALLING,
    )


def _text(parts: Sequence[dict[str, Any]]) -> str:
    return "".join(as_text(part.get("text")) for part in parts if part.get("thought") is not True)


def _calls(parts: Sequence[dict[str, Any]], tools: Sequence[ToolDeclaration]) -> list[FunctionCall]:
    called = [as_object(part["functionCall"]) for part in parts if "functionCall" in part]
    return [call_of(call.get("name"), call.get("args"), call.get("id"), tools) for call in called]


def _usage(counted: Any) -> Any:
    if not isinstance(counted, dict):
        return None
    spent = [counted.get(key) for key in ("candidatesTokenCount", "thoughtsTokenCount")]
    completion = sum(count for count in spent if isinstance(count, int))
    return usage_of(counted.get("promptTokenCount"), completion, counted.get("totalTokenCount"))


def _parts(message: LLMMessage, family: Family) -> list[dict[str, Any]]:
    kept = _kept(message)
    if kept is not None:
        return kept
    foreign = message.provider_parts is not None
    parts: list[dict[str, Any]] = [{"text": message.content}] if message.content else []
    for n, call in enumerate(message.function_calls or []):
        part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
        if call.id is not None and family.gives_ids and not foreign:
            part["functionCall"]["id"] = call.id
        if n == 0 and family.signs_calls:
            part["thoughtSignature"] = UNSIGNED
        parts.append(part)
    return parts


def _kept(message: LLMMessage) -> list[dict[str, Any]] | None:
    """The parts as Gemini sent them, if `message` has them and still says the same."""
    stored = message.provider_parts
    if not stored or stored.get("provider") != PROVIDER:
        return None
    parts = stored.get("content")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        return None
    called = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    if message.function_calls:
        theirs = [(plain_call_name(str(call.get("name"))), call.get("id") or None) for call in called]
        return parts if theirs == [(plain_call_name(call.name), call.id) for call in message.function_calls] else None
    return parts if not called and _text(parts).strip() == (message.content or "").strip() else None


def _result(call: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    echoed = {"id": call["id"]} if call.get("id") else {}
    return {"functionResponse": {**echoed, "name": call.get("name"), "response": response}}
