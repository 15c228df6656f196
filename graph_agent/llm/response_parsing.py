"""The parts of reading a response that are the same for every provider.

A response is untrusted JSON of any shape. Each function either returns a value of the right type or raises
`InvalidResponseError`, so that a malformed response never becomes an empty success or a crash.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Literal

from pydantic_core import from_json

from graph_agent.errors import InvalidResponseError
from graph_agent.llm.context_overflow import read_overflow
from graph_agent.llm.provider_errors import blocked_error, context_error, not_json_failure
from graph_agent.llm.wire import WireNames, strip_namespace
from graph_agent.models.decision import unstorable
from graph_agent.models.llm import FunctionCall, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.models.unique_keys import unique_keys
from graph_agent.policy.schema.references import find_part
from graph_agent.reply.forms import REPLY_FORMS, read_form

MAX_DEPTH = 64
"""The deepest nesting of a response. No tool takes more, and JSON readers of the record have their own limits."""
MAX_VALUES = 50_000
"""The largest number of keys and values in a response, which every later request of the turn repeats."""

MAX_TOKENS_OF_A_CALL = 2**24
"""No model reads or writes as many tokens in one call, and the sum of a few larger counts would not fit a database column."""

MAX_MODEL_NAME = 255
"""The longest name of a model that the log stores."""

_WRONG_SHAPE = "the model's answer has the wrong shape"


class Finish(Enum):
    """The meaning of a provider's finish reason."""

    COMPLETE = auto()
    ANNOUNCES_CALL = auto()
    """Complete, and it speaks of a call; if there is none, the text is the response."""
    TRUNCATED = auto()
    BLOCKED = auto()
    """A content filter removed the response."""


Called = tuple[Any, Any, Any]
"""Name, arguments and id of a call as the provider wrote them: untrusted values of any type."""


def read_finish(reason: str, meanings: Mapping[str, Finish]) -> Finish:
    """Return the meaning of a finish reason. Raises `LLMError` (BLOCKED), or `InvalidResponseError` for an unknown reason."""
    finish = meanings.get(reason)
    if finish is Finish.BLOCKED:
        raise blocked_error()
    if finish is None:
        raise InvalidResponseError("the model did not finish its answer")
    return finish


def first_choice(fields: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the first of the choices under `key`, of which we request one. Raises `InvalidResponseError` if there is none."""
    if (overflow := read_overflow(fields.get("error"))) is not None:
        # Proxies answer 200 with the error of the provider behind them.
        raise context_error(overflow)
    choices = as_objects(fields.get(key))
    if fields.get("error") is not None or not choices:
        raise InvalidResponseError("the model's answer is empty")
    return choices[0]


def parse_object(body: str, *, unique: bool = False) -> dict[str, Any]:
    """Parse `body` as a JSON object. It may contain NaN, which Python's parser accepts; `check_storable` rejects it.

    `unique` refuses a key that is written twice, as the arguments of a call must not have one.
    """
    try:
        value = json.loads(body, object_pairs_hook=unique_keys if unique else None)
    except (ValueError, RecursionError) as exc:
        raise not_json_failure().error from exc
    return as_object(value)


def as_object(value: Any) -> dict[str, Any]:
    """Return `value`, which must be a JSON object; None counts as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidResponseError(_WRONG_SHAPE)
    return value


def as_objects(value: Any) -> list[dict[str, Any]]:
    """Return `value`, which must be a list of JSON objects; None counts as an empty one."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidResponseError(_WRONG_SHAPE)
    return value


def as_text(value: Any) -> str:
    """Return `value`, which must be a string; None counts as an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidResponseError(_WRONG_SHAPE)
    return value


def check_storable(value: Any) -> None:
    """Raise `InvalidResponseError` unless `value` can be stored and sent back: finite numbers, text, not many, not deep."""
    # Level by level instead of recursively: the depth is the sender's choice.
    level, values = [value], 0
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
        values += len(level)
        if values > MAX_VALUES:
            raise InvalidResponseError("the model's answer has too many values")
    raise InvalidResponseError("the model's answer is nested too deeply")


def check_signature(value: Any) -> None:
    """Raise `InvalidResponseError` unless `value` is absent or base64, in the standard or the URL-safe alphabet.

    The provider refuses a damaged signature when it comes back, and by then the turn has acted on the response.
    """
    if value is None:
        return
    try:
        base64.b64decode(as_text(value).replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidResponseError("a signature in the model's answer is damaged") from exc


def _make_call(name: str, arguments: dict[str, Any], call_id: Any, tools: Sequence[ToolDeclaration]) -> FunctionCall:
    """Return one call, without the namespace that models invent, its numbers in the form that the tool's schema expects.

    The guard decides later if the tool may be called and if the arguments are valid.
    """
    schemas = {tool.name: tool.parameters for tool in tools}
    # A tool of a third-party server may really be called `tools.x`: an exact match comes first.
    tool_name = name if name in schemas else strip_namespace(name)
    if not tool_name:
        raise InvalidResponseError("the model called a function without a name")
    schema = schemas.get(tool_name)
    coerced = coerce_numbers(arguments, schema, schema) if schema else arguments
    return FunctionCall(name=tool_name, arguments=coerced, id=as_text(call_id) or None)


def _truncated_forms(calls: Iterable[Called]) -> str:
    """Return the text of the reply forms among the `calls` of a truncated response.

    The user may read the beginning of a reply, so the arguments may be JSON without its end. Calls of tools are ignored: with
    half of its arguments a call could do something that the model did not mean.
    """
    texts: list[str] = []
    for name, written, _ in calls:
        form = strip_namespace(as_text(name))
        arguments = _parse_partial_object(written) if form in REPLY_FORMS else None
        reply = read_form(FunctionCall(name=form, arguments=arguments)) if arguments else None
        if reply is not None and reply.text not in texts:
            texts.append(reply.text)
    return "\n\n".join(texts)


def _parse_partial_object(written: Any) -> dict[str, Any] | None:
    try:
        value = from_json(written, allow_partial="trailing-strings") if isinstance(written, str) else written
    except ValueError:
        return None
    check_storable(value)
    return value if isinstance(value, dict) else None


def make_usage(prompt: Any, completion: Any, total: Any, cached: Any = None) -> TokenUsage | None:
    """Return the token counts as the provider gave them; None if it gave none or they make no sense."""
    counts = [0 if count is None else count for count in (prompt, completion, total)]
    if not any(counts) or not all(_is_count(count) for count in counts):
        return None
    return TokenUsage(
        prompt_tokens=counts[0],
        completion_tokens=counts[1],
        total_tokens=counts[2],
        cached_tokens=cached if _is_count(cached) else 0,
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_TOKENS_OF_A_CALL


def read_model_name(value: Any) -> str | None:
    """Return the name of the model that answered; None if it is missing or is not a name that can be stored."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_MODEL_NAME or unstorable(value):
        return None
    return value


def make_response(
    text: str,
    called: Sequence[Called],
    names: WireNames,
    tools: Sequence[ToolDeclaration],
    finish: Finish,
    *,
    read_arguments: Callable[[Any], dict[str, Any]] = as_object,
    **fields: Any,
) -> LLMResponse:
    """Return the response with these further `fields`.

    Raises `InvalidResponseError` if it has neither text nor calls, a call that cannot be read, or two calls with the same id. A
    truncated response has no calls, and is returned even without text: the caller can tell the user why there is none.
    """
    truncated = finish is Finish.TRUNCATED
    whole = () if truncated else called
    calls = [_make_call(names.real(as_text(name)), read_arguments(written), call_id, tools) for name, written, call_id in whole]
    ids = [call.id for call in calls if call.id is not None]
    if len(ids) != len(set(ids)):
        raise InvalidResponseError("two calls of the model have the same id")
    content = (_truncated_forms(called) if truncated else "") or (text if text.strip() else None)
    if not truncated and content is None and not calls:
        missing = "call is missing" if finish is Finish.ANNOUNCES_CALL else "answer is empty"
        raise InvalidResponseError(f"the model's {missing}")
    reason: Literal["stop", "tool_calls", "max_tokens"] = "max_tokens" if truncated else "tool_calls" if calls else "stop"
    return LLMResponse(content=content, function_calls=calls or None, finish_reason=reason, **fields)


def coerce_numbers(value: Any, schema: Any, root: Any) -> Any:
    """Return `value` with whole floats converted to integers where `schema` expects integers; everything else is unchanged.

    A value of the type `number` keeps its form. `root` is the schema in which a `$ref` is looked up.
    """
    schemas = _alternatives(schema, root)

    def coerced(item: Any, inner: list[Any]) -> Any:
        return coerce_numbers(item, {"anyOf": inner}, root)

    if isinstance(value, dict):
        return {key: coerced(item, [_at_key(one, key) for one in schemas]) for key, item in value.items()}
    if isinstance(value, list):
        return [coerced(item, [_at_index(one, n) for one in schemas]) for n, item in enumerate(value)]
    if isinstance(value, float) and value.is_integer():
        types = [one.get("type") for one in schemas]
        names = [name for one in types for name in (one if isinstance(one, list) else [one])]
        if "integer" in names and "number" not in names:
            return int(value)
    return value


def _alternatives(schema: Any, root: Any) -> list[dict[str, Any]]:
    """Return `schema` and every schema that it refers to or combines, each once: recursive schemas would grow without end."""
    found: dict[int, dict[str, Any]] = {}
    pending = [schema]
    while pending:
        one = pending.pop()
        if not isinstance(one, dict) or id(one) in found:
            continue
        found[id(one)] = one
        if isinstance(reference := one.get("$ref"), str):
            pending.append(find_part(root, reference))
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending += one.get(keyword) or []
    return list(found.values())


def _at_key(schema: dict[str, Any], key: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    return schema.get("additionalProperties")


def _at_index(schema: dict[str, Any], index: int) -> Any:
    prefix = schema.get("prefixItems")
    return prefix[index] if isinstance(prefix, list) and index < len(prefix) else schema.get("items")
