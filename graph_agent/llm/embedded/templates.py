"""Sentence templates in Home Assistant's format, compiled to regular expressions.

`re` and not the library `hassil`: five signs of notation need neither two dependencies nor 100 ms of import. A match takes time
in proportion to the length of the text: words cannot be divided (`\\S++`), and of the slots of a template at most one is of any
length; the others take a few words.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import yaml

_TOKEN: Final = re.compile(r"[\[\]()|]|<\w+>|\{\w+\}(?:'s)?|[^\s\[\](){}<>|]+")
_GAP: Final = r"(?:[,:;]| [-–—])? "
"""The end of a word. Every text that is matched ends with a space, so no value of a list ends inside a word."""


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A regular expression, the words that its matches may begin with ("" is any), and if it also matches nothing."""

    pattern: str
    first: frozenset[str]
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Template:
    """One sentence of `sentences.yaml` with what stands beside it."""

    intent: str
    sentence: str
    metadata: Mapping[str, Any]
    """Also the fixed response, if there is one."""
    context: Mapping[str, Any]

    def match(self, text: str) -> re.Match[str] | None:
        """Match the whole of `text`."""
        return _compiled(_fragment(self.sentence).pattern).fullmatch(f"{text} ")

    def fits(self, facts: Mapping[str, str]) -> bool:
        """True if the conversation is where the template requires it to be."""
        return all(facts.get(name) in ([value] if isinstance(value, str) else value) for name, value in self.context.items())


def candidates(text: str) -> Iterator[Template]:
    """Yield the templates that can match a text with this first word; only these are ever compiled."""
    for word in (_key(text.partition(" ")[0]), ""):
        yield from _by_first_word().get(word, ())


def is_rule(name: str, text: str) -> bool:
    """True if the whole of `text` is what a rule describes."""
    return _compiled(_rule(name).pattern).fullmatch(f"{text} ") is not None


def begins_with(name: str, text: str) -> int:
    """Return the length of what a rule matches at the beginning of `text`."""
    found = _compiled(_rule(name).pattern).match(f"{text} ")
    return min(found.end(), len(text)) if found else 0


def contains(name: str, text: str) -> bool:
    return _compiled(rf"(?<![^\s,;(]){_rule(name).pattern}").search(f"{text} ") is not None


@cache
def words_of(name: str) -> frozenset[str]:
    """Return the longer words of a rule, which a misspelt word is compared with."""
    return frozenset(re.findall(r"[a-z]{4,}", _rule(name).pattern))


def responses() -> dict[str, dict[str, str]]:
    """Return the replies that are composed: the text, and the question or the change that it stands for."""
    # YAML has no types; `test_templates.py` reads the whole file.
    return cast("dict[str, dict[str, str]]", _files()["responses"])


@cache
def meanings(name: str) -> dict[str, str]:
    """Return the values of a list with what they stand for: "called" stands for "call"."""
    return {value["in"]: str(value["out"]) for value in _files()["lists"][name]["values"]}


@cache
def _files() -> dict[str, Any]:
    """Read both files, at the first message and not at import."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("sentences.yaml", "lists.yaml"))
    sentences, lists = (yaml.load(text, loader) for text in texts)
    return {**sentences, **lists}


@cache
def all_templates() -> tuple[Template, ...]:
    """Return the templates in the order of the file."""
    groups = [(intent, group) for intent, value in _files()["intents"].items() for group in value["data"]]
    return tuple(
        Template(
            intent,
            sentence,
            {**group.get("metadata", {}), "response": group.get("response", "")},
            group.get("requires_context", {}),
        )
        for intent, group in groups
        for sentence in group["sentences"]
    )


@cache
def _by_first_word() -> dict[str, list[Template]]:
    found: dict[str, list[Template]] = {}
    for template in all_templates():
        for word in _fragment(template.sentence).first:
            found.setdefault(word, []).append(template)
    return found


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def _rule(name: str) -> _Fragment:
    return _fragment(_files()["expansion_rules"][name])


@cache
def _fragment(sentence: str) -> _Fragment:
    return _choice(deque(_TOKEN.findall(sentence)))


def _choice(tokens: deque[str]) -> _Fragment:
    options = [_sequence(tokens)]
    while tokens and tokens[0] == "|":
        tokens.popleft()
        options.append(_sequence(tokens))
    first = frozenset[str]().union(*(option.first for option in options))
    return _Fragment(f"(?:{'|'.join(option.pattern for option in options)})", first, any(option.empty for option in options))


def _sequence(tokens: deque[str]) -> _Fragment:
    pattern, first, empty = "", frozenset[str](), True
    while tokens and tokens[0] not in "|])":
        part = _part(tokens)
        pattern, first, empty = pattern + part.pattern, first | part.first if empty else first, empty and part.empty
    return _Fragment(pattern, first, empty)


def _part(tokens: deque[str]) -> _Fragment:
    token = tokens.popleft()
    if token in "[(":
        inner = _choice(tokens)
        tokens.popleft()
        return _Fragment(f"{inner.pattern}?", inner.first, empty=True) if token == "[" else inner
    if token[0] == "<":
        return _rule(token[1:-1])
    if token[0] == "{":
        return _slot(*token[1:].split("}"))
    gap = " " if token.endswith(":") else _GAP
    return _Fragment(re.escape(token).replace("'", "'?") + gap, frozenset({_key(token)}))


def _slot(name: str, ending: str) -> _Fragment:
    """Return a group for any words, at most `words` of them, or for the values of a list."""
    described = _files()["lists"][name]
    if values := described.get("values"):
        inner = _fragment("|".join(value["in"] if isinstance(value, dict) else value for value in values))
        return _Fragment(f"(?P<{name}>{inner.pattern})", inner.first)
    most = f"{{0,{described['words'] - 1}}}" if "words" in described else "*"
    word = r"\S+?" if ending else r"\S++"
    return _Fragment(rf"(?P<{name}>{word}(?: {word}){most}?){ending}{_GAP}", frozenset({""}))


def _key(word: str) -> str:
    return word.lower().replace("'", "").rstrip(",:;")
