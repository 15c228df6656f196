"""The embedded model for tools other than the task list: the requests of a file, each with its calls and its reply.

    requests:
      - says: ["where is order {order}", "show order {order}"]
        calls: [{get_order: {order_id: "{order}"}}]
        reply: "Order {order} is {get_order.status}."
    help: "I answer without a language model. You can ask me: where is order FH-2087"

A message is matched as a whole, without regard to case and to the punctuation at its end. A `{word}` takes the text up to the
next words of the sentence, and stands for it in the calls and the reply; where a tool takes a number, `"{word}"` is one.
`{get_order.status}` is a value of a result, and `{get_order}` all of it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, ValidationError, field_validator

from graph_agent.errors import ConfigurationError
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.models.base import Frozen, located_violation
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMRequest, LLMResponse
from graph_agent.reply.fixed import UNKNOWN_REPLY
from graph_agent.reply.forms import ANSWER, ASK_USER

_SLOT = re.compile(r"\{([\w.]+)\}")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)
_EDGE = " \t\n.,!?;:"
_DONE = "That is done."
_MAX_SLOTS = 4
_MAX_SLOT = 60
"""The longest text of a slot, so that a match takes a bounded time."""


class FixedRequest(Frozen):
    """The sentences of one request, the calls that it makes in one round, and the reply after them."""

    says: list[str] = Field(min_length=1)
    calls: list[dict[str, dict[str, Any]]] = Field(default_factory=list)
    reply: str = _DONE

    @field_validator("says")
    @classmethod
    def _can_be_matched(cls, value: list[str]) -> list[str]:
        for sentence in value:
            slots = _SLOT.findall(sentence)
            if len(slots) > _MAX_SLOTS or len(set(slots)) < len(slots) or not all(slot.isidentifier() for slot in slots):
                raise ValueError(f"'{sentence}' needs different words as slots, at most {_MAX_SLOTS}")
        return value

    def match(self, message: str) -> dict[str, str] | None:
        """Return the values of the slots if one of the sentences is the whole message, else None."""
        for sentence in self.says:
            if found := re.fullmatch(_pattern(sentence), message, re.IGNORECASE):
                return found.groupdict()
        return None

    def requested(self, slots: Mapping[str, str], parameters: Mapping[str, dict[str, Any]]) -> list[FunctionCall]:
        """Return the calls, with the slots in their arguments; `parameters` has the schemas of the offered tools."""
        return [
            FunctionCall(name=name, arguments=_filled(arguments, slots, parameters.get(name)))
            for call in self.calls
            for name, arguments in call.items()
        ]


class FixedRequestsFile(Frozen):
    """A file of fixed requests. `help` is the reply to any other message."""

    requests: list[FixedRequest] = Field(min_length=1)
    help: str


class FixedRequestsAdapter(RequestAdapter):
    """An offline, deterministic and stateless model that makes the calls of a file of requests."""

    model = "embedded"

    def __init__(self, file: FixedRequestsFile) -> None:
        super().__init__()
        self._file = file

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read the file. Raises `ConfigurationError` if it cannot be read, or is no file of requests."""
        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
            return cls(FixedRequestsFile.model_validate(values))
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigurationError(f"the requests {path} cannot be read") from exc
        except yaml.YAMLError as exc:
            raise ConfigurationError(f"the requests {path} are not YAML") from exc
        except ValidationError as exc:
            raise ConfigurationError(f"the requests {path} are wrong: {located_violation(exc)}") from None

    async def respond(self, request: LLMRequest) -> LLMResponse:
        """Return the calls of the last message, or the reply after them. Never raises."""
        messages, offered = request.messages, {tool.name: tool.parameters for tool in request.tools}
        start = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
        asked = next((message.content for message in messages[start:] if message.role == "user"), None) or ""
        responses = [message.function_response for message in messages[start:] if message.function_response]
        one, slots = self._find(asked)
        if responses:
            return _reply(ANSWER, _report(responses, _DONE if one is None else one.reply, slots), offered)
        if one is None:
            return _reply(ASK_USER, self._file.help, offered)
        if calls := one.requested(slots, offered):
            return LLMResponse(function_calls=calls, finish_reason="tool_calls")
        return _reply(ANSWER, _filled(one.reply, slots), offered)

    def _find(self, message: str) -> tuple[FixedRequest | None, dict[str, str]]:
        text = " ".join(message.split()).strip(_EDGE)
        found = ((one, one.match(text)) for one in self._file.requests)
        return next(((one, slots) for one, slots in found if slots is not None), (None, {}))


def _pattern(sentence: str) -> str:
    """Return the regular expression of a sentence, with a group for each slot."""
    parts = _SLOT.split(sentence)
    return "".join(f"(?P<{part}>.{{1,{_MAX_SLOT}}}?)" if index % 2 else re.escape(part) for index, part in enumerate(parts))


def _filled(value: Any, slots: Mapping[str, str], schema: object = None) -> Any:
    """Return a value of the file with the slots in its texts filled; a slot alone is a number if the schema wants one."""
    if isinstance(value, str):
        text = _SLOT.sub(lambda found: slots.get(found[1], found[0]), value)
        return _number(text, schema) if _SLOT.fullmatch(value) else text
    if isinstance(value, list):
        return [_filled(item, slots, _part(schema, "items")) for item in value]
    if isinstance(value, dict):
        properties = _part(schema, "properties")
        return {name: _filled(item, slots, _part(properties, name)) for name, item in value.items()}
    return value


def _part(schema: object, name: str) -> Any:
    """Return a part of a schema, which another server may have written; None without it."""
    return schema.get(name) if isinstance(schema, dict) else None


def _number(text: str, schema: object) -> str | int | float:
    """Return the text as a number if the schema takes one and no text, and it is one."""
    choices = _part(schema, "anyOf")
    types = [_part(one, "type") for one in (schema, *(choices if isinstance(choices, list) else ()))]
    if "string" in types or not ("integer" in types or "number" in types) or not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _report(responses: Sequence[FunctionResponse], reply: str, slots: Mapping[str, str]) -> str:
    """Return the reply, filled from the results; the reasons of the failed calls instead, if there are any."""
    failed = [one.response for one in responses if one.response.get("success") is not True]
    if failed:
        return "\n".join(dict.fromkeys(map(_failed, failed)))
    results = {one.name: one.response.get("data") for one in responses}
    return _SLOT.sub(lambda found: slots.get(found[1]) or _value(found[1], results), reply)


def _failed(response: Mapping[str, Any]) -> str:
    # The response has an outcome if it is not known; then nothing "did not work".
    return (
        UNKNOWN_REPLY if "outcome" in response else f"That did not work: {response.get('error') or 'the tool gave no reason'}"
    )


def _value(path: str, results: Mapping[str, Any]) -> str:
    """Return the value at `tool.field.field` as text; a list or an object as lines of YAML."""
    value: Any = results
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict) and value.keys() == {"result"}:  # how MCP wraps a result that is no object
        value = value["result"]
    if isinstance(value, dict | list):
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).rstrip()
    return "unknown" if value is None else str(value)


def _reply(form: str, text: str, offered: Container[str]) -> LLMResponse:
    """Return the text as a call of the form, or as plain text where the forms are not offered."""
    if form not in offered:
        return LLMResponse(content=text, finish_reason="stop")
    arguments = {"text": text, "reports_change": False} if form == ANSWER else {"question": text, "reason": "unclear_intent"}
    return LLMResponse(function_calls=[FunctionCall(name=form, arguments=arguments)], finish_reason="tool_calls")
