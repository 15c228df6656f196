"""The names of functions and the results of calls as a provider accepts them.

The runtime and its record only know the real names.

MCP allows names that providers refuse, such as `server.tool`: dots, slashes, spaces, more than 64 characters. A refused name is
replaced by one of the same look, with a digest that keeps it apart from all others: `server_tool_1f6b0c3a`.

On the wire a result without a call vanishes silently, and a call without a result is refused. So results are matched to calls
here, in the order of the calls, whatever the order in which they were recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from graph_agent.models.canonical import digest
from graph_agent.models.llm import NO_PARAMETERS, FunctionCall, FunctionResponse, LLMMessage, ToolDeclaration

OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
"""The names that Google documents for both of its APIs; its SDK allows 128 characters, the API's reference 64."""

_NAMESPACE = re.compile(r"\A(?:\s*(?:default_api[.:]|functions\.|tools\.))+")
"""Namespaces that models put before the name of a tool: Gemini's own, and those of chat templates."""

_MAX_NAME = 64
_DIGEST_CHARS = 8

MISSING: dict[str, Any] = {"error": "This call was not carried out."}
"""The result that a model gets for a call that has none."""


class WireNames:
    """The wire names of one request: valid, unique, and the same in every request with the same tools."""

    def __init__(
        self, allowed: re.Pattern[str], tools: Sequence[ToolDeclaration] = (), messages: Sequence[LLMMessage] = ()
    ) -> None:
        """`allowed` matches the names that the provider accepts; the names that `messages` call may not be declared."""
        self._allowed = allowed
        self._wire: dict[str, str] = {}
        declared = {tool.name for tool in tools}
        called = {call.name for message in messages for call in message.function_calls or []}
        # A server can give its tool the very name that another tool would get.
        taken = {name for name in declared if allowed.fullmatch(name)}
        # The declared ones first: a response is read without the conversation, and its names must mean the same.
        for name in (*sorted(declared - taken), *sorted(called - declared)):
            if not allowed.fullmatch(name):
                attempts = (_replacement(name, length) for length in range(_DIGEST_CHARS, _MAX_NAME))
                self._wire[name] = next(attempt for attempt in attempts if attempt not in taken)
                taken.add(self._wire[name])
        self._real = {wire: name for name, wire in self._wire.items()}

    def allows(self, name: object) -> bool:
        """Return True if the provider accepts `name`."""
        return isinstance(name, str) and self._allowed.fullmatch(name) is not None

    def wire(self, name: str) -> str:
        """Return the name to send for a real one."""
        return self._wire.get(name, name)

    def declare(self, tools: Sequence[ToolDeclaration], schema_key: str) -> list[dict[str, Any]]:
        """Return the functions to declare for `tools`, each with its unchanged schema under `schema_key`."""
        return [
            {"name": self.wire(tool.name), "description": tool.description, schema_key: tool.parameters or NO_PARAMETERS}
            for tool in tools
        ]

    def real(self, wire: str) -> str:
        """Return the real name of a function that the model called; a name that was not replaced is returned as it is."""
        return self._real.get(wire) or self._real.get(strip_namespace(wire), wire)

    def unchanged(self, message: LLMMessage, called: Sequence[tuple[Any, Any, Any]], text: str) -> bool:
        """Return True if what the provider sent is what `message` has: `called`, with wire names, or without calls its text."""
        if not message.function_calls:
            return not called and text.strip() == (message.content or "").strip()
        sent = [(strip_namespace(self.real(name)), call_id or None) for name, _, call_id in called]
        return sent == [(strip_namespace(call.name), call.id) for call in message.function_calls]


def strip_namespace(name: str) -> str:
    """Return `add_task` for `default_api.add_task`, and a plain name unchanged."""
    return _NAMESPACE.sub("", name).strip()


def _replacement(name: str, digest_chars: int) -> str:
    readable = re.sub(r"[^a-zA-Z0-9_]+", "_", name)
    # The first character is a letter, because Gemini refuses a name that begins with a digit.
    readable = readable if readable[:1].isalpha() else f"t{readable}"
    return f"{readable[: _MAX_NAME - digest_chars - 1]}_{digest(name)[:digest_chars]}"


def pair_results(messages: Sequence[LLMMessage]) -> Iterator[tuple[list[LLMMessage], list[dict[str, Any]]]]:
    """Yield the consecutive messages of a user or of the assistant, with one result for each of their calls, in call order."""
    groups = [list(group) for _, group in groupby(messages, key=lambda message: message.role)]
    for group, following in zip(groups, [*groups[1:], []], strict=True):
        if group[0].role != "function":
            yield group, _results(group, following)


def _results(calling: Sequence[LLMMessage], following: Sequence[LLMMessage]) -> list[dict[str, Any]]:
    """Return the result of each call: the one with its id, else the first unused one with its name, else `MISSING`.

    The results are the function messages among those that follow.
    """
    left = [message.function_response for message in following if message.function_response is not None]
    calls = [call for message in calling for call in message.function_calls or []]
    found: dict[int, dict[str, Any]] = {}
    # All ids first: a match by name must not take the result that belongs to another call by its id.
    for matches in (_same_id, _same_name):
        for n, call in enumerate(calls):
            if n in found:
                continue
            match = next((response for response in left if matches(call, response)), None)
            if match is not None:
                left.remove(match)
                found[n] = match.response
    return [found.get(n, MISSING) for n in range(len(calls))]


def _same_id(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.id is not None and call.id == response.id


def _same_name(call: FunctionCall, response: FunctionResponse) -> bool:
    return call.name == response.name and (call.id is None or response.id is None)
