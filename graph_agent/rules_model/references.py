"""Reading of references: numbers, ordinals, pronouns and words of a description."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.requests import Reference
from graph_agent.rules_model.wording import Clause, clause_of
from graph_agent.rules_model.words import ACTION_VERBS, CARDINALS, DIGITAL, FOREIGN, ORDINALS, base_form, is_action

_NUMBER: Final = re.compile(rf"\d{{1,3}}|\b(?:{'|'.join((*CARDINALS, *ORDINALS))})\b")
_PREPOSITIONS: Final = frozenset({"at", "by", "for", "from", "on", "with"})
_ARTICLE: Final = re.compile(r"(?:the|my|our|a|an|that|this) ")
_MAX_DESCRIPTION_WORDS: Final = 12
"""Longer texts are not taken for the description of a task, unless other words show that they name one."""


def read_reference(clause: Clause) -> Reference:
    """Return what `clause` refers to; an empty reference if it names nothing."""
    key = clause.key.strip(" .!?,:;")
    if part("PRONOUN").fullmatch(key):
        return Reference(pronoun=True, other=bool(re.search(r"\bother\b", key)))
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
    if found := part("EXCEPT").fullmatch(key):
        return Reference(every=True, but=found["but"])
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
    """True if the words may mean a task, and nothing that another service has, such as a browser's history.

    A bare name means a task ("blog post"); with an article it does not, if its noun is one of another service.
    """
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
    words = clause.key.split()
    if not read_reference(clause).words or len(words) > _MAX_DESCRIPTION_WORDS:
        return not read_reference(clause).words
    if re.search(r"[$€£]\d|\b(?:from|as|onto|into|someone|anymore|of this)\b", clause.key):
        return False
    if part("OWN").match(clause.key):
        return False
    determined = bool(re.match(r"(?:the|an?) ", clause.key))
    if determined and is_foreign(clause) and (len(words) == 2 or {"my", "your", "a"}.intersection(words[1:])):
        return False
    return not (is_foreign(clause, DIGITAL) and (determined or len(words) > 3))


def starts_with_action(clause: Clause) -> bool:
    """True if the first word is a verb of a chore and something follows: "buy eggs", "calling mom"."""
    first, _, rest = clause.key.removeprefix("to ").partition(" ")
    return bool(rest) and is_action(first)


def is_time(clause: Clause) -> bool:
    return bool(part("ONLY_TIME").fullmatch(clause.key.strip(" .!?,")))


def merged(old: str, new: str) -> str:
    """Return the corrected description: "buy milk" and "oat milk" give "buy oat milk", a time replaces a time."""
    if is_time(clause_of(new)):
        kept = clause_of(re.sub(rf" ?{part('TIMES').pattern}", "", old, flags=re.IGNORECASE)).text
        return f"{kept or old} {new}"
    words, others = old.split(), new.split()
    folded = [word.casefold() for word in words]
    if others[0].lower() in ACTION_VERBS or others[0].casefold() == folded[0]:
        return new
    if others[-1].casefold() in folded[1:]:
        place = folded.index(others[-1].casefold(), 1)
        return " ".join([*words[: max(1, place - len(others) + 1)], *others, *words[place + 1 :]])
    if others[0].casefold() in _PREPOSITIONS:
        start = folded.index(others[0].casefold()) if others[0].casefold() in folded else len(words)
        return " ".join([*words[:start], *others])
    return f"{words[0]} {new}" if folded[0] in ACTION_VERBS and len(words) <= 3 else new


def as_plan(clause: Clause) -> str:
    """Return a report of something done as a description: "called mom" gives "call mom"."""
    first, _, rest = clause.text.partition(" ")
    verb = first.lower()
    return f"{base_form(verb)} {rest}".strip() if is_action(verb) else clause.text


def is_foreign(clause: Clause, nouns: frozenset[str] = FOREIGN) -> bool:
    """True if one of the nouns of other services occurs. A first word that is a verb, as in "book dentist", does not count."""
    words = re.findall(r"[a-z][\w']*", clause.key)
    words = words[1:] if len(words) > 1 and is_action(words[0]) else words
    return any(word in nouns or word.removesuffix("s") in nouns for word in words) or bool(re.search(r"[$€£]\d", clause.key))


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
    return clause.cut(offset + start, offset + end).text
