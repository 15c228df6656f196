"""What is the same in every provider's answer: JSON of any shape, malformed calls, text that may be missing."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Sequence
from typing import Any, Literal

from graph_agent.errors import InvalidResponseError
from graph_agent.llm.coercion import coerced
from graph_agent.models.decision import unstorable
from graph_agent.models.llm import FunctionCall, LLMResponse, TokenUsage, ToolDeclaration

MAX_DEPTH = 64
"""Deeper answers are refused: nothing a tool takes is, and later readers of the record have limits of their own."""

MOST_TOKENS = 2**24
"""No model takes or says as many in one call. More is nonsense, and a few such counts would not fit a column of the log."""

_NAMESPACE = re.compile(r"\A(?:\s*(?:default_api[.:]|functions\.|tools\.))+")
"""Namespaces that models put before a tool's name: Gemini's own, and those of chat templates."""


def read_object(body: str) -> dict[str, Any]:
    """`body` as a JSON object. Raises `InvalidResponseError` for anything else; NaN is left to `check_plain`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidResponseError("the model's answer is not JSON") from exc
    return as_object(value)


def as_object(value: Any) -> dict[str, Any]:
    """`value` if it is a JSON object; None is an empty one. Raises `InvalidResponseError`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidResponseError("the model's answer has the wrong shape")
    return value


def as_objects(value: Any) -> list[dict[str, Any]]:
    """`value` if it is a list of JSON objects; None is an empty one. Raises `InvalidResponseError`."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidResponseError("the model's answer has the wrong shape")
    return value


def as_text(value: Any) -> str:
    """`value` if it is text; None is empty. Raises `InvalidResponseError`."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidResponseError("the model's answer has the wrong shape")
    return value


def check_plain(value: Any) -> None:
    """Raise `InvalidResponseError` unless `value` can be stored and sent on: finite numbers, Unicode text, bounded depth."""
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                deeper.extend(item)
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
            elif isinstance(item, float) and not math.isfinite(item):
                raise InvalidResponseError("the model's answer contains a number that is not finite")
            elif isinstance(item, str) and unstorable(item):
                raise InvalidResponseError("the model's answer contains characters that are not text")
        if not deeper:
            return
        level = deeper
    raise InvalidResponseError("the model's answer is nested too deeply")


def check_signature(value: Any) -> None:
    """Raise `InvalidResponseError` unless `value` is absent or base64 in either alphabet: it must come back as it is."""
    if value is None:
        return
    try:
        base64.b64decode(as_text(value).replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidResponseError("a signature in the model's answer is damaged") from exc


def call_of(name: Any, arguments: Any, call_id: Any, tools: Sequence[ToolDeclaration]) -> FunctionCall:
    """One call, its name without the prefix that models invent, its numbers as the tool's schema wants them.

    Whether the tool exists and the arguments fit is the guard's business. Raises `InvalidResponseError` for a call without
    a name or with arguments that are no object.
    """
    said = as_text(name)
    schemas = {tool.name: tool.parameters for tool in tools}
    known = said if said in schemas else plain_call_name(said)
    if not known:
        raise InvalidResponseError("the model called a function without a name")
    given = as_object(arguments)
    schema = schemas.get(known)
    return FunctionCall(
        name=known,
        arguments=coerced(given, schema, schema) if schema else given,
        id=as_text(call_id) or None,
    )


def plain_call_name(name: str) -> str:
    """`default_api.add_task` is `add_task`, and a plain name is itself."""
    return _NAMESPACE.sub("", name).strip()


def usage_of(prompt: Any, completion: Any, total: Any) -> TokenUsage | None:
    """The tokens as they were counted; None where the provider did not say, or said nonsense."""
    counts = [0 if count is None else count for count in (prompt, completion, total)]
    if not any(counts) or not all(type(count) is int and 0 <= count <= MOST_TOKENS for count in counts):
        return None
    return TokenUsage(prompt_tokens=counts[0], completion_tokens=counts[1], total_tokens=counts[2])


def answer(
    text: str,
    calls: list[FunctionCall],
    usage: TokenUsage | None,
    parts: dict[str, Any],
    *,
    cut: bool = False,
    calling: bool = False,
) -> LLMResponse:
    """The response, if there is one. Raises `InvalidResponseError` for an answer without text and calls, or with equal ids.

    `cut`: the limit of tokens was reached. That is told as such even when nothing came, and its calls may be halves.
    `calling`: the provider said that the model called something. Without a call, one was lost, whatever the text says.
    """
    ids = [call.id for call in calls if call.id is not None]
    if len(ids) != len(set(ids)):
        raise InvalidResponseError("two calls of the model have the same id")
    content = text if text.strip() else None
    if calling and not calls:
        raise InvalidResponseError("the model's call did not arrive")
    if not cut and content is None and not calls:
        raise InvalidResponseError("the model's answer is empty")
    finish: Literal["stop", "tool_calls", "max_tokens"] = "max_tokens" if cut else "tool_calls" if calls else "stop"
    return LLMResponse(content=content, function_calls=calls or None, finish_reason=finish, usage=usage, provider_parts=parts)
