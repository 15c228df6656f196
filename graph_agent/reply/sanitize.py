"""Text of a model made fit for people, and forms that it wrote out instead of using them."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from graph_agent.models.llm import FunctionCall
from graph_agent.reply.imitated_call import LONGEST_CALL, WrittenCall, written_calls
from graph_agent.reply.forms import ASK_USER, QUESTION_REASONS

MAX_REPLY_CHARS: Final = 8_000

_FORMS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    # form: its arguments by position, and what models call the first one instead
    "ask_user": (("question", "reason"), ("message", "text", "prompt", "content", "query")),
    "decline": (("message",), ("reason", "text", "content", "response", "explanation")),
}

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]{0,4}[0-~]?"
)
_PLAIN: Final = re.compile(r"[\n\t -~]*")
_NEWLINES: Final = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_NAMING: Final = re.compile(r"(?<!\w)(?:call:)?default_api(?:\s?\.\s?|:)(?=\w)|(?<!\w)functions\.(?=\w)")
_TEMPLATE: Final = re.compile(r"<\|\w{1,40}\|>")
_RESULTS: Final = re.compile(
    r"```(tool_outputs?)\b|<(tool_response|tool_outputs?|tool_results?|function_results?)>", re.IGNORECASE
)
"""Where results begin that a model invented for calls it wrote out."""
_REACT: Final = re.compile(
    r"^(?:Thought:[^\n]{0,4000}\n+)?Action:[^\n]{0,4000}\n+Action Input:(?:[^\n]|\n(?=[ \t\"{}\]])){0,8000}"
    r"(?:\n+Observation:[^\n]{0,8000})?"
    r"|^(?:Thought:[^\n]{0,4000}\n+)?Final Answer:[ \t]*",
    re.MULTILINE,
)
"""Steps as models write them that were taught to call tools in plain text."""
_REASON: Final = re.compile(
    rf"[ \t]?[(\[]?(?:\breason\s?[:=]\s?)?[`\"']?\b(?:{'|'.join(QUESTION_REASONS)})\b[`\"']?[)\]]?", re.IGNORECASE
)
_PARTS: Final = re.compile(r"[_\-.\s]+|(?<=[a-z0-9])(?=[A-Z])")

_ALWAYS_HIDDEN: Final = ("default_api", "tool_code")
_ZWNJ, _ZWJ = "\u200c", "\u200d"
_EMOJI_STYLES: Final = frozenset("\ufe0e\ufe0f")
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")
_VISIBLE_FORMATS: Final = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")


def clean_reply(text: str, hidden_names: Collection[str]) -> str:
    """`text` without anything a screen could be fooled by, without calls written out, and with `hidden_names` in plain words.

    At most `MAX_REPLY_CHARS` characters, cut at a word; empty where nothing is left to say. Never raises; linear.
    """
    shown = _visible(_NEWLINES.sub("\n", _ESCAPES.sub("", text)))
    shown = _without_steps(shown)
    shown = in_plain_words(_without_calls(shown, hidden_names), hidden_names)
    shown = _REASON.sub("", shown)
    shown = "\n".join(line.rstrip() for line in shown.split("\n"))
    return _cut(re.sub(r"\n{3,}", "\n\n", shown).strip())


def read_imitated_form(text: str) -> FunctionCall | None:
    """The reply form that `text` spells out instead of calling it, where it is the whole reply or stands at either end."""
    text = _TEMPLATE.sub("", text)
    if (given := _question_alone(text)) is not None:
        return FunctionCall(name=ASK_USER, arguments=given)
    for call in written_calls(text, _FORMS, labels=_FORMS):
        readable = call.name in _FORMS and call.whole and call.arguments is not None and _stands_apart(text, call)
        if readable and (_is_blank(text[: call.start]) or _is_blank(text[call.end :])):
            return FunctionCall(name=call.name, arguments=_form_arguments(call))
    return None


def imitates_call(text: str, names: Collection[str]) -> bool:
    """Whether `text` is nothing but calls of `names` written out: it says nothing to the user, and does nothing."""
    said_something = not _is_blank(text)
    text = _without_steps(text)
    calls = written_calls(text, names, labels=[name for name in names if "_" in name])
    position, left = 0, ""
    for call in calls:
        left += text[position : call.start]
        position = call.end
    return said_something and _is_blank(left + text[position:])


def _question_alone(text: str) -> dict[str, str] | None:
    """The arguments of a question, where they are the whole reply and nothing says whose they are."""
    bare = text.strip().removeprefix("```json").strip("` \n")
    if not (bare.startswith("{") and bare.endswith("}")) or len(bare) > LONGEST_CALL:
        return None
    try:
        given = json.loads(bare, strict=False)
    except (ValueError, RecursionError):
        return None
    told = isinstance(given, dict) and given.keys() == {"question", "reason"}
    return {key: _visible(value) for key, value in given.items() if isinstance(value, str)} if told else None


def _form_arguments(call: WrittenCall) -> dict[str, str]:
    places, other_names = _FORMS[call.name]
    given = {key: _visible(value) for key, value in (call.arguments or {}).items() if isinstance(value, str)}
    for index, place in enumerate(places):
        if place not in given and str(index) in given:
            given[place] = given[str(index)]
    if places[0] not in given:
        instead = next((name for name in other_names if name in given), None)
        if instead is not None:
            given[places[0]] = given.pop(instead)
    return {key: value for key, value in given.items() if not key.isdigit()}


def _without_steps(text: str) -> str:
    """`text` without what a chat template or a written-out call leaves around it."""
    return _TEMPLATE.sub("", _REACT.sub("", _without_results(text)))


def _without_results(text: str) -> str:
    kept, position = "", 0
    while (opening := _RESULTS.search(text, position)) is not None:
        kept += text[position : opening.start()]
        closing = "```" if opening[1] else f"</{opening[2]}>"
        end = text.find(closing, opening.end())
        if end < 0:
            return kept
        position = end + len(closing)
    return kept + text[position:]


def _is_blank(text: str) -> bool:
    return not any(char.isalnum() for char in text)


def _stands_apart(text: str, call: WrittenCall) -> bool:
    """Whether a call begins a line or follows a finished sentence, and ends its line: it is not part of what is said."""
    before = text[: call.start].rstrip()
    begins = not before or before[-1] in ".!?:…" or "\n" in text[max(0, call.start - 2) : call.start + 2]
    return begins and (call.end == len(text) or "\n" in text[call.end - 1 : call.end + 1])


def _without_calls(text: str, names: Collection[str]) -> str:
    """`text` without the calls that stand on lines of their own; inside a sentence they stay, and lose their names."""
    kept: list[str] = []
    position = 0
    for call in written_calls(text, names):
        if _stands_apart(text, call):
            kept.append(text[position : call.start])
            position = call.end
    if not position:
        return text
    kept.append(text[position:])
    return "\n".join(part.strip() for part in kept if part.strip())


@lru_cache(maxsize=64)
def _hidden(names: frozenset[str]) -> re.Pattern[str] | None:
    spelled = (r"(?:\\?[_.]|-)?".join(map(re.escape, filter(None, _PARTS.split(name)))) for name in _longest_first(names))
    found = "|".join(filter(None, spelled))
    return re.compile(rf"(`?)(?<!\w)(?:mcp__\w{{1,60}}?__)?({found})(?!\w)(?:\(\))?(`?)", re.IGNORECASE) if found else None


def _longest_first(names: frozenset[str]) -> list[str]:
    return sorted(names, key=lambda name: (-len(name), name))


def in_plain_words(text: str, names: Collection[str]) -> str:
    """`text` with `names`, however they are spelled, as words: `add_task` becomes "add task"."""
    text = _NAMING.sub("", text)
    pattern = _hidden(frozenset((*names, *_ALWAYS_HIDDEN)))
    return pattern.sub(_plain, text) if pattern else text


def _plain(match: re.Match[str]) -> str:
    """The name in a match as words, without a pair of backticks around it; a lone one stays."""
    opening, name, closing = match.groups()
    words = " ".join(filter(None, _PARTS.split(name.replace("\\", ""))))
    return words if opening and closing else opening + words + closing


def _visible(text: str) -> str:
    """`text` without controls, direction overrides, tags and what has no width; emoji and joined scripts stay whole."""
    if _PLAIN.fullmatch(text):
        return text
    kept: list[str] = []
    for index, char in enumerate(text):
        if char < "\x7f":
            if char >= " " or char in "\n\t":
                kept.append(char)
            continue
        if char in (_ZWJ, _ZWNJ):
            following = text[index + 1] if index + 1 < len(text) else ""
            if kept and following and _joins(char, kept[-1], following):
                kept.append(char)
            continue
        category = unicodedata.category(char)
        if category in ("Cc", "Cs", "Cn", "Co") or (category == "Cf" and char not in _VISIBLE_FORMATS):
            continue
        if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
            if char in _EMOJI_STYLES and kept and kept[-1] not in _EMOJI_STYLES and not kept[-1].isspace():
                kept.append(char)
            continue
        if char not in _BLANK_LETTERS:
            kept.append(char)
    return "".join(kept)


def _joins(joiner: str, before: str, after: str) -> bool:
    """Whether a joiner does its work here: between emoji, or between letters of scripts that are written with it."""
    if _script_uses_joiners(before) and _script_uses_joiners(after):
        return True
    pictured = before in _EMOJI_STYLES or "\U0001f3fb" <= before <= "\U0001f3ff" or unicodedata.category(before) == "So"
    return joiner == _ZWJ and pictured and unicodedata.category(after) == "So"


def _script_uses_joiners(char: str) -> bool:
    return "\u0600" <= char <= "\u0dff" or "\u1780" <= char <= "\u18af"


def _cut(text: str) -> str:
    if len(text) <= MAX_REPLY_CHARS:
        return text
    head = text[: MAX_REPLY_CHARS - 1]
    at = max(head.rfind(" "), head.rfind("\n"))
    return (head[:at] if at > MAX_REPLY_CHARS // 2 else head).rstrip() + "…"
