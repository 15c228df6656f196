"""Our messages as chat completions' JSON and that JSON as our answers: pure functions, no SDK.

Spoken by Gemini's compatible endpoint, OpenAI, Ollama, vLLM, llama.cpp and many more, each a little differently. A message of
the model is kept as it came; what goes back of it are the fields that every server takes, and `extra_content` with its
signatures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
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
from graph_agent.llm.families import Effort, family_of, output_tokens, plain_name
from graph_agent.llm.gemini_wire import UNSIGNED
from graph_agent.llm.openai_thoughts import without_thoughts
from graph_agent.llm.pairing import exchanges
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration

PROVIDER = "openai"

_SENT_BACK = ("content", "extra_content")
_CALLING = frozenset({"tool_calls", "function_call", "function_call_filter: unexpected_tool_call"})
_ANSWERS = _CALLING | {"", "stop"}
_CUT = frozenset({"length", "max_tokens"})
_BLOCKED = "content_filter"
"""Gemini's endpoint adds which filter it was: `content_filter: PROHIBITED_CONTENT`."""


@dataclass(frozen=True)
class Dialect:
    """How a kind of model wants its limits said. `thinks`: it takes an effort, and thoughts count against the limit."""

    prefixes: tuple[str, ...]
    limit: str
    takes_temperature: bool
    thinks: bool


_ANY = Dialect(("",), "max_tokens", takes_temperature=True, thinks=False)
_DIALECTS = (
    Dialect(("gpt-5", "o1", "o3", "o4"), "max_completion_tokens", takes_temperature=False, thinks=True),
    _ANY,
)


def settings_of(model: str, temperature: float, max_tokens: int, effort: Effort) -> dict[str, Any]:
    """The generation settings that `model` takes."""
    name = plain_name(model)
    family = family_of(model)
    dialect = next(dialect for dialect in _DIALECTS if name.startswith(dialect.prefixes))
    if name.startswith("gemini"):
        dialect = Dialect(("gemini",), "max_tokens", family.takes_temperature, thinks=family.thinking is not None)
    settings: dict[str, Any] = {dialect.limit: output_tokens(family, effort, max_tokens) if dialect.thinks else max_tokens}
    if dialect.takes_temperature:
        settings["temperature"] = temperature
    if dialect.thinks:
        settings["reasoning_effort"] = effort
    return settings


def messages_of(messages: Sequence[LLMMessage], model: str, system_instruction: str | None) -> list[dict[str, Any]]:
    """`messages` as `messages`; after each message with calls stands one `tool` message for each of them, in call order."""
    sent: list[dict[str, Any]] = [{"role": "system", "content": system_instruction}] if system_instruction else []
    signed = plain_name(model).startswith("gemini") and family_of(model).signs_calls
    names = _CallIds(messages)
    for exchange in exchanges(messages):
        if all(message.role == "user" for message in exchange.messages):
            sent += [{"role": "user", "content": message.content} for message in exchange.messages]
            continue
        results = iter(exchange.results)
        for message in exchange.messages:
            made = _assistant(message, signed=signed)
            sent.append(made)
            for call in made.get("tool_calls") or []:
                call["id"] = call.get("id") or names.next()
                result = json.dumps(next(results), ensure_ascii=False)
                sent.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return sent


def tools_of(declarations: Sequence[ToolDeclaration]) -> list[dict[str, Any]]:
    """`declarations` as `tools`, their schemas untouched."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in declarations
    ]


def response_of(body: str, model: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
    """What `body`, an answer with status 200, says. Raises `LLMError` (BLOCKED) or `InvalidResponseError`."""
    said = read_object(body)
    choices = as_objects(said.get("choices"))
    if said.get("error") is not None or not choices:
        raise InvalidResponseError("the model's answer is empty")
    reason = as_text(choices[0].get("finish_reason")).lower()
    if reason.startswith(_BLOCKED):
        raise blocked()
    if reason not in _ANSWERS and reason not in _CUT:
        raise InvalidResponseError("the model did not finish its answer")
    message = as_object(choices[0].get("message"))
    check_plain(message)
    _check_signatures(message)
    cut = reason in _CUT
    usage = said.get("usage")
    counted = usage if isinstance(usage, dict) else {}
    return answer(
        _text(message),
        [] if cut else [_call(called, tools) for called in _called(message)],
        usage_of(*(counted.get(key) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))),
        {"provider": PROVIDER, "model": model, "message": message},
        cut=cut,
        calling=reason in _CALLING,
    )


_TEXTS = {"": "text", "text": "text", "output_text": "text", "refusal": "refusal"}
"""Kinds of parts that speak to the user -> the field that says it. Others are thoughts, by whatever name."""


def _text(message: dict[str, Any]) -> str:
    """What the message says to the user: a model's thoughts may stand in front of it."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(as_text(part.get(_TEXTS.get(as_text(part.get("type")), ""))) for part in as_objects(content))
    return without_thoughts(as_text(content)) or as_text(message.get("refusal"))


def _called(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls in a message, also where a server still has the one `function_call` that came before them."""
    legacy = message.get("function_call")
    return as_objects(message.get("tool_calls")) or ([{"function": legacy}] if legacy is not None else [])


def _call(called: dict[str, Any], tools: Sequence[ToolDeclaration]) -> FunctionCall:
    function = as_object(called.get("function"))
    given = function.get("arguments")
    if not isinstance(given, dict):  # the protocol wants text; some servers write the object itself
        written = as_text(given)
        given = read_object(written) if written.strip() else {}
    check_plain(given)
    return call_of(function.get("name"), given, called.get("id"), tools)


def _check_signatures(message: dict[str, Any]) -> None:
    for signed in (message, *_called(message)):
        extra = signed.get("extra_content")
        google = extra.get("google") if isinstance(extra, dict) else None
        check_signature(google.get("thought_signature") if isinstance(google, dict) else None)


def _assistant(message: LLMMessage, *, signed: bool) -> dict[str, Any]:
    kept = _kept(message)
    if kept is not None:
        return kept
    made: dict[str, Any] = {"role": "assistant", "content": message.content}
    foreign = message.provider_parts is not None
    calls: list[dict[str, Any]] = [
        {
            "id": "" if foreign else call.id or "",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in message.function_calls or []
    ]
    if calls:
        made["tool_calls"] = calls
        if signed:
            calls[0]["extra_content"] = {"google": {"thought_signature": UNSIGNED}}
    return made


def _kept(message: LLMMessage) -> dict[str, Any] | None:
    """The message as the provider sent it, as far as it goes back, if ours has it and still says the same."""
    stored = message.provider_parts
    theirs = stored.get("message") if stored and stored.get("provider") == PROVIDER else None
    if not isinstance(theirs, dict):
        return None
    called = _called(theirs)
    if message.function_calls:
        same = [(plain_call_name(call["function"]["name"]), call.get("id") or None) for call in called] == [
            (plain_call_name(call.name), call.id) for call in message.function_calls
        ]
    else:
        same = not called and _text(theirs).strip() == (message.content or "").strip()
    if not same:
        return None
    back = {key: theirs[key] for key in _SENT_BACK if theirs.get(key) is not None}
    if called:
        back["tool_calls"] = [_sent_back(call) for call in called]
    return {"role": "assistant", "content": message.content, **back}


def _sent_back(call: dict[str, Any]) -> dict[str, Any]:
    """A call as it came, with what the protocol demands and its server left out."""
    function = call["function"]
    written = function.get("arguments")
    if not isinstance(written, str) or not written.strip():
        written = json.dumps(written if isinstance(written, dict) else {}, ensure_ascii=False)
    return {**call, "type": "function", "function": {**function, "arguments": written}}


class _CallIds:
    """Ids for calls that came without one: the protocol wants every call to have one, and its result to name it."""

    def __init__(self, messages: Sequence[LLMMessage]) -> None:
        self._taken = {call.id for message in messages for call in message.function_calls or []}
        self._count = 0

    def next(self) -> str:
        while True:
            self._count += 1
            candidate = f"call_{self._count}"
            if candidate not in self._taken:
                return candidate
