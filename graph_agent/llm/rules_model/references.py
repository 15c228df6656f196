"""Reading of references: numbers, ordinals, pronouns and words of a description."""

from __future__ import annotations

import re
from typing import Final

from rapidfuzz import fuzz

from graph_agent.llm.rules_model.patterns import part
from graph_agent.llm.rules_model.requests import Reference
from graph_agent.llm.rules_model.wording import Clause, clause_of
from graph_agent.llm.rules_model.words import ACTION_VERBS, CARDINALS, DIGITAL, FOREIGN, ORDINALS, base_form, is_action

_NUMBER: Final = re.compile(rf"(\d{{1,3}}|\b(?:{'|'.join((*CARDINALS, *ORDINALS))})\b)(?:st|nd|rd|th)?(?: one\b)?")
"""A number; in "the first one" the second word is none."""
PREPOSITIONS: Final = frozenset({"at", "by", "for", "from", "on", "to", "with"})


def read_reference(clause: Clause) -> Reference:
    """Return what `clause` refers to; an empty reference if it names nothing."""
    key = clause.key.strip(" .!?,:;")
    if not key or part("UNNAMED").fullmatch(key):
        return Reference()
    if part("PRONOUN").fullmatch(key):
        return Reference(pronoun=True, other="other" in key)
    if part("PLACES").fullmatch(key):
        return Reference(places=tuple(dict.fromkeys(map(_number, _NUMBER.findall(key)))))
    if found := part("SPAN").fullmatch(key):
        sign = -1 if ORDINALS.get(found["end"], 1) < 0 else 1
        return Reference(places=tuple(sorted(sign * place for place in range(1, min(_number(found["count"]), 20) + 1))))
    if found := part("EVERY_BUT").fullmatch(key):
        return Reference(every=True, but=found["but"] or "")
    found = part("DESCRIPTION").fullmatch(clause.key.rstrip(" .!?,"))
    return Reference(words=clause.cut(*found.span("text")).text.strip(' .!?,;:"') if found else "")


def _number(word: str) -> int:
    """Return the number that a word stands for; "both" and "a couple" are two."""
    return int(word) if word.isdigit() else CARDINALS.get(word) or ORDINALS.get(word, 2)


def names_task(clause: Clause) -> bool:
    """True if the words can hardly mean anything but a task of the list."""
    reference = read_reference(clause)
    sure = reference.places or reference.pronoun or reference.every or part("MENTIONS_TASK").search(clause.key)
    return bool(sure) or starts_with_action(clause)


def may_name_task(clause: Clause) -> bool:
    """True if the words may mean a task, and nothing that another service has, such as a browser's history.

    A bare name means a task ("blog post"); with an article it does not, if its noun is one of another service.
    """
    if part("SENTENCE").match(clause.key):
        return False
    if names_task(clause) or not read_reference(clause).words:
        return True
    words = clause.key.split()
    if words[0] not in {"the", "a", "an"}:
        return not part("OWN").match(clause.key)
    nouns = FOREIGN if len(words) == 2 or {"my", "a"}.intersection(words) else DIGITAL
    # "The history essay" is an essay.
    noun = clause.cut(clause.key.rfind(" ")) if part("COMPOUND").fullmatch(clause.key) else clause
    return not (part("OWN").match(clause.key) or is_foreign(noun, nouns))


def starts_with_action(clause: Clause) -> bool:
    """True if the first word is a verb of a chore and something follows: "buy eggs", "calling mom"."""
    first, _, rest = clause.key.partition(" ")
    return bool(rest) and is_action(first)


def is_time(clause: Clause) -> bool:
    return bool(part("ONLY_TIME").fullmatch(clause.key.strip(" .!?,")))


def merged(old: str, new: str) -> str:
    """Return the corrected description: "buy milk" and "oat milk" give "buy oat milk", a time replaces a time.

    The first or the last of the new words shows their place: "bed 6" for "bed 4", "windows" for "window". Otherwise they stand
    between the verb and the next preposition: "email anna about the contract" and "ben".
    """
    if (number := new.removeprefix("at ")).isdigit() and re.search(r"\d", old):
        return re.sub(r"\d+(?!.*\d)", number, old)
    if is_time(clause_of(new)):
        return _retimed(old, new)
    words, fresh = old.split(), new.split()
    there, (first, *_, last) = [word.casefold() for word in words], [*new.casefold().split(), new.casefold().split()[-1]]
    if first in ACTION_VERBS:
        return new
    verbs = int(there[0] in ACTION_VERBS)
    alike = [place for place, word in enumerate(there) if place and fuzz.ratio(word, last) > 85 and len(fresh) == 1]
    ends = PREPOSITIONS.union({"about"}).difference(new.casefold().split())
    if first in there[1:]:
        start = there.index(first, 1)
        end = next(
            (place for place in range(start, len(there)) if there[place] in ends or place == start + len(fresh)), len(there)
        )
    elif alike:
        start, end = alike[0], alike[0] + 1
    elif last in there[1:]:
        end = there.index(last, 1) + 1
        start = max(verbs, end - len(fresh))
    elif first in PREPOSITIONS - {"to"}:
        start = end = len(words)
    else:
        start = verbs
        end = next((place for place, word in enumerate(there) if place > start and word in ends), len(words))
    return " ".join([*words[:start], *fresh, *words[end:]])


def _retimed(old: str, new: str) -> str:
    """An hour replaces an hour, and a day a day."""
    hour, only_hour = part("AT_CLOCK").search(new.casefold()), part("AT_CLOCK").fullmatch(new.casefold())
    kept = old
    for found in reversed(list(part("TIMES").finditer(old.casefold()))):
        if hour if part("AT_CLOCK").fullmatch(found[0]) else not only_hour:
            kept = kept[: found.start()].rstrip() + kept[found.end() :]
    return f"{kept or old} {new}"


def as_plan(clause: Clause) -> str:
    """Return a report of something done as a description: "called mom" gives "call mom"."""
    first, _, rest = clause.text.partition(" ")
    verb = first.lower()
    return f"{base_form(verb)} {rest}".strip() if is_action(verb) else clause.text


def is_foreign(clause: Clause, nouns: frozenset[str] = FOREIGN) -> bool:
    """True if one of the nouns of other services occurs, also in the plural."""
    return any(word in nouns or word.removesuffix("s") in nouns for word in re.findall(r"[a-z][\w']*", clause.key))
