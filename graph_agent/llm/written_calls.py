"""Function calls that a model writes out as text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pydantic_core import from_json

MAX_ATTEMPTS: Final = 16
"""The number of positions of one text at which JSON is parsed in vain. Each may take time linear in the length of the text."""

_JSON: Final = json.JSONDecoder(strict=False)
_NAME_KEYS: Final = ("name", "tool_name", "function_name", "tool", "function", "action")
_ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "tool_input", "action_input", "params", "input")
# The keys of objects that contain the call itself, as in the formats of OpenAI and Gemini.
_WRAPPER_KEYS: Final = ("function", "function_call", "tool_call", "tool_calls")
_BESIDE_KEYS: Final = frozenset({*_NAME_KEYS, *_ARGUMENT_KEYS, "id", "tool_call_id", "type", "index"})
"""The keys of a call. An object with further ones is a call only if it names a declared function."""
_KEYS: Final = "|".join(dict.fromkeys((*_NAME_KEYS, *_ARGUMENT_KEYS, *_WRAPPER_KEYS, "id", "tool_call_id", "type", "index")))
_BROKEN: Final = re.compile(
    rf"[\[\s]*+(?P<object>\{{)\s*+(?:[\"'](?:id|tool_call_id|type|index)[\"']\s*+:\s*+[\w\"'-]{{1,80}}\s*+,\s*+){{0,3}}"
    rf"[\"'](?:{'|'.join(_NAME_KEYS)})[\"']\s*+:\s*+[\"'](?P<name>[^\"'\n]{{1,80}})[\"']\s*+"
    rf"(?:,\s*+[\"'](?:{'|'.join(_ARGUMENT_KEYS)})[\"']\s*+:|\Z|\}})"
)
"""The beginning of a call that is no valid JSON: cut off, or with Python's quotes."""
_CALL_TOKEN: Final = (
    r"(?:<[|｜]?(?:\w{1,20}[_:])?tool[_▁]calls?(?:[_▁]begin)?[|｜]?>|<start_function_call>|\[TOOL_CALLS\])\s{0,9}"
    r"(?:function<｜tool[_▁]sep｜>)?+(?:call:)?(?:functions\.)?[\w.-]{1,80}(?=\s{0,9}(?:[<\[{`]|:\d|\Z))"
)
"""A token that begins a call, and the name after it: DeepSeek, Gemma, GLM, Hunyuan, Kimi, Mistral and others."""
_RECIPIENT: Final = (
    r"(?:(?:<\|start\|>)?assistant)?(?:<\|channel\|>)?(?:analysis|commentary)?\s?to=functions\.[\w.-]{1,80}"
    r"|<\|channel\|>(?:analysis|commentary) to=[\w.-]{1,80}"
)
"""The header of a message to a function, also without the special tokens, which some servers leave out."""
_CALL_END: Final = r"</?[|｜]?(?:\w{1,20}[_:])?tool[_▁]calls?(?:[_▁]end)?[|｜]?>|<end_function_call>|(?=\[TOOL_CALLS\])|\Z"
_PREFIX: Final = r"(?:[|｜]?\w{1,20}[|｜:])?"
"""Prefixes of tags that some models write."""
_MARKUP: Final = re.compile(
    r"<function=(?P<function>[^<>\s]{1,80})>(?P<body>.*?)(?:</function>|\Z)"
    rf"|<{_PREFIX}invoke name=[\"'](?P<invoked>[^<>\"']{{1,80}})[\"']>(?P<parameters>.*?)(?:</{_PREFIX}invoke>|\Z)"
    r"|(?:^|(?<=\n))Action:[ \t]*`?(?P<action>[\w.-]{1,80})`?[ \t]*\n\s*Action Input:(?P<input>.*?)(?:(?=\nObservation:)|\Z)"
    r"|✿FUNCTION✿:?\s{0,9}(?P<starred>[\w.-]{1,80})(?P<star_arguments>.*?)(?:✿RESULT✿|\Z)"
    rf"|(?P<token>{_CALL_TOKEN})(?P<rest>.*?)(?:{_CALL_END})"
    rf"|(?P<recipient>{_RECIPIENT})(?P<message>.*?)(?:<\|call\|>|\Z)",
    re.DOTALL,
)
_MARKUP_PARTS: Final = {
    "function": "body",
    "invoked": "parameters",
    "action": "input",
    "starred": "star_arguments",
    "token": "rest",
    "recipient": "message",
}
"""The groups of a call's name in `_MARKUP`, each with the group of its arguments."""
_LAST_NAME: Final = re.compile(r"[\w-][\w.-]*\Z")
_PARAMETER: Final = re.compile(
    rf"<{_PREFIX}parameter(?:=| name=[\"'])([\w.-]{{1,80}})[\"']?(?: \w{{1,20}}=\"\w{{1,20}}\")?>"
    rf"\n?((?:(?!<[|｜:\w]{{0,24}}parameter[= ]).)*?)\n?</{_PREFIX}parameter>",
    re.DOTALL,
)
_KEYED: Final = re.compile(
    r"<(?:\w{1,20}_)?arg_key>\s*([\w.-]{1,80})\s*</(?:\w{1,20}_)?arg_key>\s*<(?:\w{1,20}_)?arg_value>"
    r"((?:(?!<(?:\w{1,20}_)?arg_key>).)*?)</(?:\w{1,20}_)?arg_value>",
    re.DOTALL,
)
_UNDECLARED: Final = re.compile(r"(?:default_api[.:]|functions\.|tools\.)?([A-Za-z]\w*_\w+)\(")
"""A function of any name that looks like a tool's."""
# What models write around a call: spaces, Markdown code fences, tags such as <tool_call>, brackets, and `print(`.
_BEFORE: Final = re.compile(
    r"(?:\s++|`++\w*+|<[|｜]?[\w:▁｜]{1,40}+\|?>|\[(?:\w{1,40}+\])?+|print\s?\(|functools|function(?=<)|Action:)++\Z"
)
_AFTER: Final = re.compile(
    r"[\s`)\];,]*(?:(?:<(?:/[|｜]?|[|｜]/?)(?![\w▁]*[_▁](?:begin|start))[\w:▁｜]{1,40}\|?>|<end_function_call>|<tool_call\|>|\[(?!TOOL_CALLS)/?\w{1,40}\])[\s`)\];,]*){0,3}"
)
_TAG: Final = re.compile(r"</?[|｜]?[\w:▁]{1,40}[|｜]?>|\[/?[A-Z_]{1,20}\]")
_NAMESPACE: Final = re.compile(r"\A(?:(?:default_api|functions|tools)[.:])+")
_DECORATION_CHARS: Final = 60
"""Characters before and after a call that are searched for fences, tags and brackets around it."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it is written at `start` to `end` of a text, with the fences, tags and brackets around it.

    `arguments` is None if they cannot be read. A call that is cut off is not `whole`: its last text may be too short.
    """

    name: str
    arguments: dict[str, Any] | None
    start: int
    end: int
    whole: bool = True


def written_calls(text: str, names: Collection[str]) -> list[WrittenCall]:
    """Return the calls that `text` writes out, in order; `names` are the declared functions.

    The spellings `name(argument="value")` and `name{...}` are calls of a declared function that start at the beginning of a
    line or after a sentence: a name that is only mentioned is no call. A JSON object with a name and arguments, and the tags
    that some models write, are calls of any name, wherever they are. So is a text that is nothing but `any_name(...)`. Never
    raises.
    """
    declared = frozenset(names)
    calls: list[WrittenCall] = []
    position = failures = 0
    for match in _openings(declared).finditer(text):
        if match.start() < position:
            continue
        named = match["named"] is not None
        call: WrittenCall | None
        if named:
            call = _read_named(text, match)
        elif match["tag"] is not None:
            call = _read_markup(text, match.start())
        else:
            call = None if failures > MAX_ATTEMPTS else _read_json(text, match.start(), declared)
            failures += call is None
        if call is None:
            continue
        call = _with_decoration(text, call, position)
        if not named or _is_separate(text, call):
            calls.append(call)
        position = call.end
    return calls or _only_call(text)


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
    """Return the pattern of the beginning of a written call: a declared name before its arguments, a tag, or JSON."""
    any_name = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name) or "(?!)"
    return re.compile(
        rf"(?<![\w.])(?:call:)?(?:(?:default_api|functions)[.:])?(?P<named>{any_name})(?::\d{{1,3}})?(?:\(|\n?\{{)"
        rf"|(?P<tag><function=|<{_PREFIX}invoke name=|(?:^|(?<=\n))Action:|✿FUNCTION✿|{_CALL_TOKEN}|{_RECIPIENT})"
        rf"|[\[{{](?=[\[{{\s]{{0,20}}[\"'](?:{_KEYS}|{any_name})[\"'])"
    )


def _read_json(text: str, start: int, names: frozenset[str]) -> WrittenCall | None:
    try:
        value, end = _JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _read_broken(text, start, names)
    found = _named_in(value, names)
    return None if found is None else WrittenCall(*found, start, end)


def _read_broken(text: str, start: int, names: frozenset[str]) -> WrittenCall | None:
    """Return the call at `start` that is no JSON: cut off, with Python's quotes, or with an error in it."""
    match = _BROKEN.match(text, start)
    if match is None:
        return None
    opening, name = match.start("object"), match["name"]
    end = _closing(text, opening)
    value: Any = None
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        value = from_json(text[opening:], allow_partial="trailing-strings") if end is None else _literal(text[opening:end])
    _, arguments = _named_in(value, names) or (name, None)
    return WrittenCall(name, arguments, start, len(text) if end is None else end, whole=end is not None)


def _read_markup(text: str, start: int) -> WrittenCall | None:
    match = _MARKUP.match(text, start)
    if match is None:
        return None
    named, written = next((match[name], match[body]) for name, body in _MARKUP_PARTS.items() if match[name] is not None)
    name = _NAMESPACE.sub("", _LAST_NAME.findall(named)[0])
    arguments: Any = dict(_PARAMETER.findall(written) or _KEYED.findall(written))
    if not arguments and (opening := written.find("{")) >= 0:
        arguments = _first_object(written, opening)
    elif not arguments:
        # A notation of tags may write nothing for no arguments.
        arguments = {} if not _TAG.sub("", written).strip() else _decoded(written)
    return WrittenCall(name, arguments if isinstance(arguments, dict) else None, start, match.end())


def _only_call(text: str) -> list[WrittenCall]:
    """Return the call of a function of any name that is all of `text`."""
    match = _UNDECLARED.search(text[:_DECORATION_CHARS])
    if match is None:
        return []
    opening = match.end() - 1
    end = _closing(text, opening)
    arguments = None if end is None else _python_arguments(text[opening:end])
    if end is None or arguments is None:
        return []
    call = _with_decoration(text, WrittenCall(match[1], arguments, match.start(), end), 0)
    return [call] if (call.start, call.end) == (0, len(text)) else []


def _named_in(value: Any, names: frozenset[str], depth: int = 5) -> tuple[str, dict[str, Any] | None] | None:
    """Return the name and the arguments of the call that a JSON value describes."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict) or not depth:
        return None
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    nothing: Any = {} if value.keys() <= {*_NAME_KEYS, "id", "type"} else None
    given: Any = next((value[key] for key in _ARGUMENT_KEYS if key in value), nothing)
    if name is not None and given is not None:
        name = _NAMESPACE.sub("", name)
        arguments = _decoded(given) if isinstance(given, str) else given
        readable = arguments if isinstance(arguments, dict) else None
        if name in names or (_is_call_of_any_name(value) and readable is not None):
            return name, readable
    if len(value) == 1 and (only := next(iter(value))) in names and isinstance(value[only], dict):
        return only, value[only]
    return next((found for key in _WRAPPER_KEYS if (found := _named_in(value.get(key), names, depth - 1))), None)


def _is_call_of_any_name(value: dict[str, Any]) -> bool:
    beside = value.keys() <= _BESIDE_KEYS and any(key in value for key in _ARGUMENT_KEYS)
    return beside or not value.keys().isdisjoint(("arguments", "args"))


def _first_object(text: str, opening: int) -> Any:
    """Return the JSON object at `opening`, beside which a notation may have signs of its own; False if there is none."""
    try:
        return _JSON.raw_decode(text, opening)[0]
    except (ValueError, RecursionError):
        return False


def _literal(source: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # an invalid escape in a model's string is not our code
        return ast.literal_eval(source)


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
    return WrittenCall(match["named"], arguments, match.start(), len(text) if end is None else end, whole=end is not None)


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
    return replace(call, start=start, end=call.end + (after.end() if after else 0))


def _is_separate(text: str, call: WrittenCall) -> bool:
    """True if the call begins a line or follows a sentence, and has arguments or ends its line."""
    before = text[: call.start][-1:]
    begins = not before or before in ".!?:…\n" or "\n" in text[call.start : call.start + 2]
    ends = call.end == len(text) or "\n" in text[call.end - 1 : call.end + 1]
    return begins and (ends or bool(call.arguments))
