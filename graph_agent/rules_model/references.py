"""Reading of references: numbers, ordinals, pronouns and words of a description."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.requests import Reference
from graph_agent.rules_model.text import Clause
from graph_agent.rules_model.vocabulary import ACTION_VERBS, CARDINALS, FOREIGN, ORDINALS, PAST_FORMS

_NUMBER: Final = re.compile(rf"\d{{1,3}}|\b(?:{'|'.join((*CARDINALS, *ORDINALS))})\b")
_ARTICLE: Final = re.compile(r"(?:the|my|our|a|an|that|this) ")
_MAX_DESCRIPTION_WORDS: Final = 12
"""Longer texts are not taken for the description of a task, unless other words show that they name one."""


def read_reference(clause: Clause) -> Reference:
    """Return what `clause` refers to; an empty reference if it names nothing."""
    key = clause.key.strip(" .!?,:;")
    if part("PRONOUN").fullmatch(key):
        return Reference(pronoun=True)
    if not key or part("UNNAMED").fullmatch(key):
        return Reference()
    if found := part("SPAN").fullmatch(key):
        count = 2 if found["count"].startswith("couple") else CARDINALS.get(found["count"]) or int(found["count"])
        places = range(1, min(count, 20) + 1)
        from_end = ORDINALS.get(found["end"], 1) < 0
        return Reference(places=tuple(-place for place in reversed(places)) if from_end else tuple(places))
    if part("BOTH").fullmatch(key):
        return Reference(places=(1, 2))
    if part("PLACES").fullmatch(key):
        # In "the first one" the second word is no number.
        numbers = _NUMBER.findall(re.sub(rf"\b({'|'.join(ORDINALS)}) one\b", r"\1", key))
        return Reference(places=tuple(dict.fromkeys(_place(number) for number in numbers)))
    if part("EVERY").fullmatch(key):
        return Reference(every=True)
    if found := part("QUOTED").fullmatch(key):
        start, end = found.span("text")
        return Reference(words=_at(clause, key, start, end))
    return Reference(words=_description(clause))


def names_task(clause: Clause) -> bool:
    """True if the words can hardly mean anything but a task of the list."""
    reference = read_reference(clause)
    if reference.places or reference.pronoun or reference.every or part("QUOTED").fullmatch(clause.key):
        return True
    return bool(part("MENTIONS_TASK").search(clause.key)) or starts_with_action(clause)


def may_name_task(clause: Clause) -> bool:
    """True if the words may mean a task, and nothing that another service has, such as a flight or a playlist."""
    if part("SENTENCE").match(clause.key):
        return False
    if names_task(clause):
        return (
            not part("OWN").match(clause.key)
            or bool(part("MENTIONS_TASK").search(clause.key))
            or bool(read_reference(clause).pronoun)
            or starts_with_action(clause)
            or bool(part("EVERY").fullmatch(clause.key))
        )
    if not read_reference(clause).words or len(clause.key.split()) > _MAX_DESCRIPTION_WORDS:
        return not read_reference(clause).words
    return not (
        part("OWN").match(clause.key)
        or is_foreign(clause)
        or re.search(r"\b(?:from|as|onto|into|someone|anymore)\b", clause.key)
    )


def starts_with_action(clause: Clause) -> bool:
    """True if the first word is a verb of a chore and something follows: "buy eggs", "calling mom"."""
    first, _, rest = clause.key.removeprefix("to ").partition(" ")
    return bool(rest) and is_action(first)


def is_action(word: str) -> bool:
    return base_form(word) in ACTION_VERBS


def base_form(word: str) -> str:
    """Return the base form of a verb: "buying" and "bought" give "buy"."""
    if word in ACTION_VERBS:
        return word
    if word in PAST_FORMS:
        return PAST_FORMS[word]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            stem = word.removesuffix(ending)
            doubled = stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else stem
            candidates = (stem, stem + "e", doubled, stem[:-1] + "y" if stem.endswith("i") else stem)
            return next((base for base in candidates if base in ACTION_VERBS), word)
    return word


def as_plan(clause: Clause) -> str:
    """Return a report of something done as a description: "called mom" gives "call mom"."""
    first, _, rest = clause.text.partition(" ")
    verb = first.lower()
    return f"{base_form(verb)} {rest}".strip() if is_action(verb) else clause.text


def is_foreign(clause: Clause) -> bool:
    """True if a noun of another service occurs. A first word that is a verb, as in "book dentist", does not count."""
    words = re.findall(r"[a-z][\w']*", clause.key)
    nouns = words[1:] if len(words) > 1 and is_action(words[0]) else words
    return any(word in FOREIGN or word.removesuffix("s") in FOREIGN for word in nouns) or bool(
        re.search(r"[$€£]\d", clause.key)
    )


def _place(number: str) -> int:
    return int(number) if number.isdigit() else CARDINALS.get(number) or ORDINALS[number]


def _description(clause: Clause) -> str:
    while True:
        shorter = clause
        if found := part("TRAILING").search(shorter.key[-60:].rstrip(" .!?,")):
            shorter = shorter.cut(0, len(shorter.key.rstrip(" .!?,")) - len(found[0]))
        if (found := part("LEADING").match(shorter.key)) and found.end() < len(shorter.key):
            shorter = shorter.cut(found.end())
        if not shorter.key or shorter.key == clause.key:
            break
        clause = shorter
    if found := _ARTICLE.match(clause.key):
        clause = clause.cut(found.end())
    return clause.text.strip(' .!?,;:"')


def _at(clause: Clause, key: str, start: int, end: int) -> str:
    offset = clause.key.index(key)
    return clause.text[offset + start : offset + end].strip()
