"""Builders of questions: about the list, or about one task."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model import words as vocabulary
from graph_agent.rules_model.patterns import Builder, Groups, part
from graph_agent.rules_model.references import is_foreign, may_name_task, names_task, read_reference, starts_with_action
from graph_agent.rules_model.requests import Request, Say, Show, Status
from graph_agent.rules_model.wording import Clause

_STATUSES: Final[tuple[tuple[re.Pattern[str], Status], ...]] = (
    (re.compile(r"\b(?:haven't|not|yet to|un|in)[ -]?(?:i )?(?:yet )?(?:done|complete|finish|checked)"), "pending"),
    (re.compile(r"^(?:am i|are we) .*(?:done|finished)"), "pending"),
    (re.compile(r"\b(?:to|get|be|getting) (?:done|finished|completed)\b"), "pending"),
    (re.compile(r"\b(?:completed?|finish(?:ed)?|done|(?:check|tick|cross)(?:ed)? off|checked|accomplished)\b"), "completed"),
    (re.compile(r"\b(?:pending|open|left|remain|remaining|outstanding|active|still|else|next|missing)\b"), "pending"),
)


def status_in(clause: Clause) -> Status | None:
    return next((status for pattern, status in _STATUSES if pattern.search(clause.key)), None)


def words_of(key: str) -> list[str]:
    return [word.removesuffix("'s") for word in re.findall(r"\w[\w'-]*", key)]


def _show(clause: Clause, _groups: Groups) -> Request | None:
    """A question or an order in known words about the list, or about what the user has to do.

    Beside "my list" and the like, other words may occur.
    """
    words = words_of(clause.key) or [""]
    if words[0] == "find" and "my" not in words:
        return None
    mine = vocabulary.FIRST_PERSON.intersection(words)
    if {"you", "your"}.intersection(words) and not mine:
        return None
    rest = words_of(part("WHOLE").sub(" ", part("SHOWN").sub(" ", part("TIMES").sub(" ", clause.key))))
    known = vocabulary.SHOW_WORDS.issuperset(rest)
    first = words[0]
    opens = first in vocabulary.SEE | vocabulary.QUESTION_WORDS or bool(part("RECALLS").search(clause.key))
    if part("SHOWN").search(clause.key):
        if first in {"why", "who"} or (first in vocabulary.MODALS and {"add", "added", "put", "go"}.intersection(words)):
            return None
        names = known and vocabulary.NO_TASK.isdisjoint(rest) and not part("BEGINS_LOOSELY").match(clause.key)
        mine_too = part("MINE").search(clause.key) and not re.match(r"who\b|are (?:my|the)\b", clause.key)
        return _shown(clause) if names or (opens and (known or mine_too)) else None
    if vocabulary.SEE.union(vocabulary.SHOW_ALONE, ("again", "now", "me", "the", "my")).issuperset(
        words
    ) and vocabulary.SHOW_ALONE.intersection(words):
        return _shown(clause)
    duties = vocabulary.DUTIES.intersection(words) and (mine or vocabulary.STATES.intersection(words))
    whole = vocabulary.SEE.intersection(words) and part("WHOLE").search(clause.key)
    asks = (
        opens
        and first not in vocabulary.MODALS
        and (first != "how" or {"many", "much"}.intersection(words))
        and first not in vocabulary.ABOUT_OTHERS
    )
    return _shown(clause) if known and len(words) > 1 and (whole or (duties and asks)) else None


def _show_plain(clause: Clause, _groups: Groups) -> Request:
    return _shown(clause)


def _ask_about(_clause: Clause, groups: Groups) -> Request | None:
    """ "did i pay rent", "what about the dentist"."""
    about = groups["said"] if groups["said"].key else groups["about"]
    named = starts_with_action(about) if groups["said"].key else may_name_task(about)
    short = len(about.key.split()) <= (5 if groups["said"].key else 3)
    return Show(about=read_reference(about).words) if named and short and not is_foreign(about) else None


def _shown(clause: Clause) -> Show:
    whole = part("INCLUDING").search(clause.key)
    status = None if whole else status_in(clause)
    dated = any(found[0] not in {"today", "now", "later", "tonight"} for found in part("TIMES").finditer(clause.key))
    return Show(status, dated=dated)


def _show_about(clause: Clause, groups: Groups) -> Request | None:
    words = read_reference(groups["about"]).words
    if vocabulary.SHOW_WORDS.issuperset(words_of(groups["about"].key)):
        return _shown(clause)
    unnamed = re.fullmatch(r"(?:(?:anything|something|any|much|more|nothing|left|else|open|still|new|stuff) ?)*", words.lower())
    return _shown(clause) if unnamed else Show(about=words)


def _show_named(clause: Clause, groups: Groups) -> Request | None:
    """ "is the car on my list", "do i have anything about the car": the unknown words of a question about the list."""
    if words_of(clause.key)[0] not in vocabulary.OPENS and not clause.key.endswith("?"):
        return None
    about = groups["about"]
    spans = [
        word.span()
        for word in re.finditer(r"[\w'-]+", about.key)
        if word[0].removesuffix("'s") not in vocabulary.SHOW_WORDS | vocabulary.ABOUT_WORDS
    ]
    if not spans or part("ONLY_TIME").fullmatch(about.cut(spans[0][0], spans[-1][1]).key):
        return None
    about = about.cut(spans[0][0], spans[-1][1])
    return Show(about=about.text) if len(about.key.split()) <= 4 and not is_foreign(about, vocabulary.DIGITAL) else None


def _search(clause: Clause, groups: Groups) -> Request | None:
    about = groups["about"]
    short = names_task(about) or (len(about.key.split()) <= 3 and not about.key.startswith(("a ", "an ", "the ", "some ")))
    return _show_about(clause, groups) if short and may_name_task(about) else None


def _say(_clause: Clause, groups: Groups) -> Request:
    """The name of the group is the kind of the answer."""
    return Say(next(iter(groups)))


BUILDERS: Final[dict[str, Builder]] = {
    "ask_about": _ask_about,
    "say": _say,
    "search": _search,
    "show": _show,
    "show_about": _show_about,
    "show_named": _show_named,
    "show_plain": _show_plain,
}
