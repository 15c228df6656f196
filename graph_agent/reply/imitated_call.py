"""Calls that a model wrote out as text instead of making them.

Four habits, each with a finder: `name(argument="...")` (Python, often fenced, printed or in brackets) or `name{...}`, a JSON
object that names a function, tags, and `name: text`. What is found is only ever *read*: nothing here makes a call happen.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

MOST_CANDIDATES: Final = 24
"""Places looked at per habit: more than any reply has, few enough to keep hostile text linear."""

LONGEST_CALL: Final = 20_000
"""Characters one written-out call may take."""

_MARKS: Final = re.compile(r"[({<:\[\n]")
"""Every written-out call has one of these."""

_NAME_KEYS: Final = ("name", "function", "tool", "tool_name", "function_name", "recipient_name", "action", "form")
_ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "params", "input", "tool_input", "action_input", "kwargs")
_WRAPPER_KEYS: Final = (
    "function_call",
    "functionCall",
    "tool_call",
    "toolCall",
    "tool_calls",
    "tool_uses",
    "function",
    "calls",
)
_PREFIX: Final = r"(?:call:)?(?:(?:default_api|functions?|tools?|api|multi_tool_use)(?:\s?\.\s?|:))?"
_BEFORE: Final = re.compile(
    r"(?:\s|```\w*|`|<\|?/?\w[^<>\n]{0,60}>|\[/?[A-Z_]{4,20}\]|(?<!\w)print\s*\(|\[|(?<!\w)(?:tool_code|tool_call|function_call|json)\b:?|"
    r"(?<!\w)(?:Action|Tool|Function|Call|Form):)+\Z"
)
_AFTER: Final = re.compile(r"(?:\s|```|`|</?\|?\w[^<>\n]{0,60}>|\[/?[A-Z_]{4,20}\]|[)\];,])+")
_TAG_PARAMETER: Final = re.compile(r"<(?:parameter|param|arg)(?:=|\s+name=)[\"']?(\w{1,40})[\"']?>|<(\w{1,40})>")
_LOOSE_ARGUMENT: Final = re.compile(
    r"""["']?(\w{1,40})["']?\s*[:=]\s*(?:"((?:[^"\\]|\\.){0,8000})"|'((?:[^'\\]|\\.){0,8000})')""", re.DOTALL
)
_LOOSE_TEXT: Final = re.compile(r"""\(\s*(?:"((?:[^"\\]|\\.){0,8000})"|'((?:[^'\\]|\\.){0,8000})')\s*\)\Z""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it stands in a text, decoration included, from `start` to `end`.

    `arguments` has positional ones under "0", "1", ...; None where they cannot be read. `whole`: it was not cut off.
    """

    name: str
    arguments: dict[str, Any] | None
    start: int
    end: int
    whole: bool = True


def written_calls(text: str, names: Collection[str], *, labels: Collection[str] = ()) -> list[WrittenCall]:
    """The calls of functions called `names` that `text` spells out, in order, none inside another. Never raises.

    A name that a model puts behind `default_api.` counts whatever it is.

    A text that begins with one of `labels` and a colon counts as one call, whatever follows.
    """
    known = frozenset(name for name in names if name)
    if not known or not _MARKS.search(text):
        return []
    found: list[WrittenCall] = []
    finders = (_in_json, _in_tags, _in_python)
    everything = [call for finder in finders for call in finder(text, known)]
    everything.extend(_after_a_label(text, frozenset(filter(None, labels))) if labels else ())
    everything.sort(key=lambda call: (call.start, -call.end))
    for call in everything:
        if not found or call.start >= found[-1].end:
            found.append(_with_decoration(text, call, found[-1].end if found else 0))
    return found


@lru_cache(maxsize=64)
def _any_of(names: frozenset[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))


@lru_cache(maxsize=64)
def _python_call(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w.])(?:{_PREFIX}({_any_of(names)})|(?:call:)?default_api[.:](\w{{1,60}}))(?:\(|(?::\d{{1,3}})?\s?(?=\{{))"
    )


@lru_cache(maxsize=64)
def _tag(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(
        rf"<(?:(function|invoke|tool|call)(?:=|\s+name=)[\"']?(?:default_api\.)?({_any_of(names)})[\"']?|({_any_of(names)}))\s*>"
    )


@lru_cache(maxsize=64)
def _label(names: frozenset[str]) -> re.Pattern[str]:
    lead = r"\s{0,9}(?:(?:Action|Tool|Function|Call|Form):\s{0,9})?"
    marked = rf"[`*_]{{0,3}}{_PREFIX}({_any_of(names)})[`*_]{{0,3}}\s{{0,9}}[:\n][`*_]{{0,3}}"
    return re.compile(rf"{lead}(?:{marked}|\[({_any_of(names)})\]:?)\s{{0,9}}(?=\S)")


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for count, match in enumerate(pattern.finditer(text)):
        if count == MOST_CANDIDATES:
            return
        yield match


def _in_python(text: str, names: frozenset[str]) -> Iterator[WrittenCall]:
    for match in _first(_python_call(names), text):
        name, bare = match[1] or match[2], not match[0].endswith("(")
        opening = match.end() - (not bare)
        end = _closing(text, opening)
        if end is None:
            yield WrittenCall(name, None, match.start(), len(text), whole=False)
        elif bare:
            yield WrittenCall(name, _as_arguments(_literal(text[opening:end])), match.start(), end)
        else:
            yield WrittenCall(name, _python_arguments(text[opening:end]), match.start(), end)


def _in_json(text: str, names: frozenset[str]) -> Iterator[WrittenCall]:
    position = 0
    for _ in range(MOST_CANDIDATES):
        start = text.find("{", position)
        if start < 0:
            return
        position = start + 1
        end = _closing(text, start)
        if end is None:
            continue
        value = _literal(text[start:end])
        if isinstance(value, dict):
            call = _named_in(value, names)
            if call is not None:
                yield WrittenCall(call[0], call[1], start, end)
            position = end


def _in_tags(text: str, names: frozenset[str]) -> Iterator[WrittenCall]:
    for match in _first(_tag(names), text):
        name = match[2] or match[3]
        closing = f"</{match[1] or name}>"
        end = text.find(closing, match.end(), match.end() + LONGEST_CALL)
        if end >= 0:
            body = text[match.end() : end]
            yield WrittenCall(name, _tag_arguments(body), match.start(), end + len(closing))


def _after_a_label(text: str, names: frozenset[str]) -> Iterator[WrittenCall]:
    match = _label(names).match(text)
    if match is None:
        return
    name = match[1] or match[2]
    rest = text[match.end() : match.end() + LONGEST_CALL].strip()
    rest = re.sub(r"\A(?:Action Input|Arguments|Args|Input|Parameters):\s{0,9}", "", rest)
    if rest.startswith("{"):
        yield WrittenCall(name, _as_arguments(_literal(rest.strip("` \n"))), match.start(), len(text))
        return
    lines = [line.partition(":") for line in rest.splitlines() if line.strip()]
    keyed = all(colon and re.fullmatch(r"[-*\s]*\"?\w{1,40}\"?", key) for key, colon, _ in lines)
    arguments = {key.strip(' -*"'): value.strip(' "') for key, _, value in lines} if keyed else {"0": rest.strip('"')}
    yield WrittenCall(name, arguments, match.start(), len(text))


def _closing(text: str, opening: int) -> int | None:
    """Where the bracket at `opening` is closed, quotes respected (one past it), or None."""
    depth, quote = 0, ""
    limit = min(len(text), opening + LONGEST_CALL)
    position = opening
    while position < limit:
        char = text[position]
        if quote:
            if char == "\\":
                position += 1
            elif char == quote:
                quote = ""
        elif char == '"' or (char == "'" and not text[position - 1].isalnum()):
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    return None


def _literal(source: str) -> Any:
    """The value of a JSON or Python literal, or None."""
    try:
        return json.loads(source, strict=False)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "\d" in a model's string is no business of ours
            return ast.literal_eval(source)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _python_arguments(source: str) -> dict[str, Any] | None:
    """The arguments in `source`, parentheses included: `("Which?", reason="x")`, `({...})` or, loosely, `(question: "...")`."""
    if not source[1:-1].strip():
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            call = ast.parse(f"f{source}", mode="eval").body
        if not isinstance(call, ast.Call):
            return None
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return _loose_arguments(source)
    if len(positional) == 1 and not named and isinstance(positional[0], dict):
        return {str(key): value for key, value in positional[0].items() if isinstance(key, str)}
    return {**{str(index): value for index, value in enumerate(positional)}, **named}


def _loose_arguments(source: str) -> dict[str, Any] | None:
    alone = _LOOSE_TEXT.match(source)
    if alone is not None:
        return {"0": _unescaped(alone[1] if alone[1] is not None else alone[2])}
    found = {match[1]: _unescaped(match[2] if match[2] is not None else match[3]) for match in _first(_LOOSE_ARGUMENT, source)}
    return found or None


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'")


def _named_in(value: Any, names: frozenset[str], depth: int = 0) -> tuple[str, dict[str, Any] | None] | None:
    """The function that a JSON value names, with its arguments."""
    if depth > 4:
        return None
    if isinstance(value, list):
        return next((call for item in value[:8] if (call := _named_in(item, names, depth + 1))), None)
    if not isinstance(value, dict):
        return None
    for key in _NAME_KEYS:
        name = value.get(key)
        if isinstance(name, str) and (name := name.rpartition(".")[2]) in names:
            given = next((value[held] for held in _ARGUMENT_KEYS if held in value), None)
            if given is None:
                given = {other: held for other, held in value.items() if other not in (key, "id", "type")}
            return name, _as_arguments(given)
    for name in names:
        if name in value and len(value) == 1:
            return name, _as_arguments(value[name])
    return next((call for key in _WRAPPER_KEYS if (call := _named_in(value.get(key), names, depth + 1))), None)


def _as_arguments(given: Any) -> dict[str, Any] | None:
    if isinstance(given, str):
        read = _literal(given) if given.lstrip().startswith("{") else None
        return read if isinstance(read, dict) else {"0": given}
    return {key: held for key, held in given.items() if isinstance(key, str)} if isinstance(given, dict) else None


def _tag_arguments(body: str) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for match in _first(_TAG_PARAMETER, body):
        end = body.find("</", match.end())
        if end >= 0:
            found[match[1] or match[2]] = body[match.end() : end].strip()
    if found:
        return found
    stripped = body.strip()
    return _as_arguments(stripped) if stripped else {}


def _with_decoration(text: str, call: WrittenCall, floor: int) -> WrittenCall:
    """`call` widened over the fence, tags, brackets and `print(` that it stands in."""
    window = max(floor, call.start - 120)
    before = _BEFORE.search(text[window : call.start])
    after = _AFTER.match(text[call.end : call.end + 120])
    start = window + before.start() if before else call.start
    return WrittenCall(call.name, call.arguments, start, call.end + (after.end() if after else 0), call.whole)
