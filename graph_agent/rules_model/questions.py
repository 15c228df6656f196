"""Builders of questions about the list or about one task, and of fixed answers."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model import words as vocabulary
from graph_agent.rules_model.patterns import Builder, Groups, part
from graph_agent.rules_model.references import is_foreign, may_name_task, read_reference, starts_with_action
from graph_agent.rules_model.requests import Request, Say, Show, Status
from graph_agent.rules_model.wording import Clause

_STATUSES: Final[tuple[tuple[re.Pattern[str], Status], ...]] = (
    (re.compile(r"\b(?:haven't|not|yet to|un|in)[ -]?(?:i )?(?:yet )?(?:done|complete|finish|checked)"), "pending"),
    (re.compile(r"^(?:am i|are we) .*(?:done|finished)"), "pending"),
    (re.compile(r"\b(?:to|get|be|getting) (?:done|finished|completed)\b"), "pending"),
    (re.compile(r"\b(?:completed?|finish(?:ed)?|done|(?:check|tick|cross)(?:ed)? off|checked|accomplished)\b"), "completed"),
    (re.compile(r"\b(?:pending|open|left|remain|remaining|outstanding|active|still|else|next|missing)\b"), "pending"),
)
_OPENS: Final = vocabulary.SEE | vocabulary.QUESTION_WORDS | {"everything", "tasks", "just", "ones"}
_NOT_WHAT: Final = vocabulary.MODALS | vocabulary.ABOUT_OTHERS
_PREPOSITIONS: Final = vocabulary.words("on to in from for at and")


def status_in(clause: Clause) -> Status | None:
    return next((status for pattern, status in _STATUSES if pattern.search(clause.key)), None)


def words_of(key: str) -> list[str]:
    return [word.removesuffix("'s") for word in re.findall(r"\w[\w'-]*", key)]


def _show(clause: Clause, _groups: Groups) -> Request | None:
    """A question or an order about the list, or about what the user has to do, in the words of such requests.

    Other words say what it is about if they stand before "on my list" or after "anything about".
    """
    key, words = clause.key, words_of(clause.key) or [""]
    mine = vocabulary.FIRST_PERSON.intersection(words)
    if words[0] in {"who", "why"} or (not mine and {"you", "your"}.intersection(words)):
        return None
    opens = words[0] in _OPENS or key.endswith("?") or part("RECALLS").search(key)
    rest = key
    for name in ("TIMES", "SHOWN", "WHOLE", "ABOUT"):
        rest = part(name).sub(lambda found: " " * len(found[0]), rest)
    unknown = [word for word in re.finditer(r"[^\W_][\w'-]*", rest) if word[0].removesuffix("'s") not in vocabulary.SHOW_WORDS]
    if unknown and not part("OCCASION").search(key):
        about = _named(clause, unknown[0].start(), unknown[-1].end())
        return (about or (_shown(clause) if part("MINE").search(key) else None)) if opens else None
    if part("SHOWN").search(key):
        bare = words[0] not in _PREPOSITIONS and vocabulary.NO_TASK.isdisjoint(words_of(rest))
        return _shown(clause) if opens or bare else None
    duties = part("ASKED").search(key) and (mine or part("TO_DO").search(key))
    whole = words[0] in vocabulary.SEE and part("WHOLE").search(key)
    return _shown(clause) if opens and words[0] not in _NOT_WHAT and (duties or whole) else None


def _shown(clause: Clause) -> Show:
    whole = part("INCLUDING").search(clause.key)
    status = None if whole else status_in(clause)
    dated = any(found[0] not in {"today", "now", "later", "tonight"} for found in part("TIMES").finditer(clause.key))
    return Show(status, dated=dated)


def _named(clause: Clause, start: int, end: int) -> Request | None:
    """Ask about the words from `start` to `end` if their place shows that they name a task."""
    about, before, after = clause.cut(start, end), clause.key[:start], clause.key[end:].rstrip(" .!?")
    if read_reference(about).places and part("AFTER_NAME").match(after):
        return _shown(clause)
    named = part("BEFORE_NAME").search(before) or (
        part("AFTER_NAME").match(after) and not is_foreign(about, vocabulary.DIGITAL)
    )
    return Show(about=about.text) if named and len(about.key.split()) <= 4 else None


def _ask_about(_clause: Clause, groups: Groups) -> Request | None:
    """ "did i pay rent", "search milk"."""
    about = groups["about"]
    named = starts_with_action(about) or (may_name_task(about) and len(about.key.split()) <= 3)
    short = len(about.key.split()) <= 5 and not is_foreign(about)
    return Show(about=read_reference(about).words) if named and short else None


def _say(_clause: Clause, groups: Groups) -> Request:
    """The name of the group is the kind of the answer."""
    return Say(next(iter(groups)))


BUILDERS: Final[dict[str, Builder]] = {"ask_about": _ask_about, "say": _say, "show": _show}
