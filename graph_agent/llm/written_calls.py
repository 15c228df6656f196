"""Function calls that a model writes out as text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

MAX_ATTEMPTS: Final = 16
"""The number of positions of one text at which JSON is parsed. Each may take time linear in the length of the text."""

_JSON: Final = json.JSONDecoder(strict=False)
_ARGUMENT_KEYS: Final = ("arguments", "args", "parameters")
# The keys of objects that contain the call itself, as in the formats of OpenAI and Gemini.
_WRAPPER_KEYS: Final = ("function", "function_call", "tool_calls")
# What models write around a call: spaces, Markdown code fences, tags such as <tool_call>, brackets, and `print(`.
_BEFORE: Final = re.compile(r"(?:\s++|`++\w*+|<\|?\w{1,40}+\|?>|\[(?:\w{1,40}+\])?+|print\s?\()++\Z")
_AFTER: Final = re.compile(r"[\s`)\];,]*(?:<[/|]\w{1,40}\|?>|\[/?\w{1,40}\])?[\s`)\];,]*")
_DECORATION_CHARS: Final = 60
"""Characters before and after a call that are searched for fences, tags and brackets around it."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it is written at `start` to `end` of a text, with the fences, tags and brackets around it.

    `arguments` is None if they are cut off or cannot be read.
    """

    name: str
    arguments: dict[str, Any] | None
    start: int
    end: int


def written_calls(text: str, names: Collection[str]) -> list[WrittenCall]:
    """Return the calls of functions called `names` that `text` writes out, in order.

    Three spellings are known: `name(argument="value")`, `name{...}`, and a JSON object with a name and arguments. A call
    starts at the beginning of a line or after a sentence, and ends at the end of a line: a name that is only mentioned is no
    call. Never raises.
    """
    calls: list[WrittenCall] = []
    position = attempts = 0
    for match in _openings(frozenset(names)).finditer(text):
        is_json = match[1] is None
        attempts += is_json
        if match.start() < position or (is_json and attempts > MAX_ATTEMPTS):
            continue
        call = _read_json(text, match.start(), names) if is_json else _read_named(text, match)
        if call is None:
            continue
        call = _with_decoration(text, call, position)
        if _is_separate(text, call):
            calls.append(call)
        position = call.end
    return calls


def without_calls(text: str, calls: Collection[WrittenCall]) -> str:
    """Return `text` without `calls`."""
    parts, position = [], 0
    for call in calls:
        parts.append(text[position : call.start])
        position = call.end
    parts.append(text[position:])
    return "\n".join(part.strip() for part in parts if any(map(str.isalnum, part))) if calls else text


@lru_cache(maxsize=64)
def _openings(names: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of the beginning of a written call: a declared name before its arguments, or JSON."""
    any_name = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    return re.compile(
        rf"(?<![\w.])(?:call:)?(?:(?:default_api|functions)[.:])?({any_name})(?::\d{{1,3}})?[({{]|[\[{{]"
        if any_name
        else "(?!)"  # matches nowhere
    )


def _read_json(text: str, start: int, names: Collection[str]) -> WrittenCall | None:
    try:
        value, end = _JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    found = _named_in(value, names)
    return None if found is None else WrittenCall(*found, start, end)


def _named_in(value: Any, names: Collection[str], depth: int = 5) -> tuple[str, dict[str, Any] | None] | None:
    """Return the name and the arguments of the call that a JSON value describes."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict) or not depth:
        return None
    name = value.get("name")
    given = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if isinstance(name, str) and (name := name.removeprefix("default_api.")) in names and given is not None:
        if isinstance(given, str):
            return _named_in({"name": name, "arguments": _decoded(given)}, names, depth - 1) or (name, None)
        return name, given if isinstance(given, dict) else None
    return next((found for key in _WRAPPER_KEYS if (found := _named_in(value.get(key), names, depth - 1))), None)


def _decoded(source: str) -> Any:
    """Return the JSON value of `source`; False, which is no valid arguments, if it is not JSON."""
    try:
        return _JSON.decode(source)
    except (ValueError, RecursionError):
        return False


def _read_named(text: str, match: re.Match[str]) -> WrittenCall:
    opening = match.end() - 1
    end = _closing(text, opening)
    read = _json_arguments if text[opening] == "{" else _python_arguments
    arguments = None if end is None else read(text[opening:end])
    return WrittenCall(match[1], arguments, match.start(), len(text) if end is None else end)


def _closing(text: str, opening: int) -> int | None:
    """Return the position after the bracket that closes the one at `opening`; None if there is none."""
    opens = text[opening]
    closes = {"(": ")", "{": "}"}[opens]
    depth, quote, escaped = 0, "", False
    for position in range(opening, len(text)):
        char = text[position]
        if escaped:
            escaped = False
        elif quote:
            escaped = char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == opens:
            depth += 1
        elif char == closes:
            depth -= 1
            if not depth:
                return position + 1
    return None


def _json_arguments(source: str) -> dict[str, Any] | None:
    arguments = _decoded(source)
    return arguments if isinstance(arguments, dict) else None


def _python_arguments(source: str) -> dict[str, Any] | None:
    """Return the keyword arguments of `source`, such as `(title="x")`; None if they are not literals."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # an invalid escape in a model's string is not our code
            call = ast.parse(f"f{source}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _with_decoration(text: str, call: WrittenCall, floor: int) -> WrittenCall:
    """Extend `call` by the fences, tags and brackets around it; it does not begin before the position `floor`."""
    window = max(floor, call.start - _DECORATION_CHARS)
    before = _BEFORE.search(text[window : call.start])
    after = _AFTER.match(text[call.end : call.end + _DECORATION_CHARS])
    start = window + before.start() if before else call.start
    return WrittenCall(call.name, call.arguments, start, call.end + (after.end() if after else 0))


def _is_separate(text: str, call: WrittenCall) -> bool:
    """True if the call starts at the beginning of a line or after a sentence, and ends at the end of a line."""
    before = text[: call.start][-1:]
    begins = not before or before in ".!?:…\n" or "\n" in text[call.start : call.start + 2]
    ends = call.end == len(text) or "\n" in text[call.end - 1 : call.end + 1]
    return begins and ends
