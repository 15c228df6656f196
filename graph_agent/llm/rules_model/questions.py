"""Builders of questions about the list or about one task, and of fixed answers."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.llm.rules_model import words as vocabulary
from graph_agent.llm.rules_model.patterns import Groups, part
from graph_agent.llm.rules_model.references import is_foreign, may_name_task, read_reference, starts_with_action
from graph_agent.llm.rules_model.requests import Request, Say, Show, Status
from graph_agent.llm.rules_model.wording import Clause

_STATUSES: Final[dict[str, Status]] = {"NOT_YET": "pending", "FINISHED_ONES": "completed", "OPEN_ONES": "pending"}
_OPENS: Final = vocabulary.SEE | vocabulary.QUESTION_WORDS | {"everything", "tasks", "just", "ones"}


def status_in(clause: Clause) -> Status | None:
    return next((status for name, status in _STATUSES.items() if part(name).search(clause.key)), None)


def words_of(key: str) -> list[str]:
    return [word.removesuffix("'s") for word in re.findall(r"\w[\w'-]*", key)]


def show(clause: Clause, _groups: Groups) -> Request | None:
    """A question or an order about the list, or about what the user has to do, in the words of such requests.

    Other words say what it is about if they stand before "on my list" or after "anything about".
    """
    key, words = clause.key, words_of(clause.key) or [""]
    mine = vocabulary.FIRST_PERSON.intersection(words)
    if not mine and {"you", "your"}.intersection(words):
        return None
    asks = words[0] in _OPENS or key.endswith("?") or part("RECALLS").search(key)
    rest = part("LISTED").sub(lambda found: " " * len(found[0]), key)
    known = vocabulary.SHOW_WORDS | vocabulary.SEE.intersection(words[:1])
    unknown = [word for word in re.finditer(r"[^\W_][\w'-]*", rest) if word[0].removesuffix("'s") not in known]
    if unknown and not part("OCCASION").search(key):
        about = _named(clause, unknown[0].start(), unknown[-1].end()) if asks else None
        return about or (_shown(clause) if asks and part("MINE").search(key) else None)
    if part("STATUS_ONLY").fullmatch(key.strip(" .!?")):
        return _shown(clause)
    if part("SHOWN").search(key):
        return _shown(clause) if asks or vocabulary.NO_TASK.isdisjoint(words_of(rest)) else None
    duties = part("ASKED").search(key) and (mine or part("TO_DO").search(key))
    whole = words[0] in vocabulary.SEE and part("WHOLE").search(key)
    return _shown(clause) if asks and (duties or whole) else None


def _shown(clause: Clause) -> Show:
    dated = any(found[0] not in {"today", "now", "later", "tonight"} for found in part("TIMES").finditer(clause.key))
    return Show(None if part("INCLUDING").search(clause.key) else status_in(clause), dated=dated)


def _named(clause: Clause, start: int, end: int) -> Request | None:
    """Ask about the words from `start` to `end` if their place shows that they name a task."""
    about, before, after = clause.cut(start, end), clause.key[:start], clause.key[end:].rstrip(" .!?")
    on_list = part("AFTER_NAME").match(after)
    if on_list and read_reference(about).places:
        return _shown(clause)
    named = part("BEFORE_NAME").search(before) or (on_list and not is_foreign(about, vocabulary.DIGITAL))
    return Show(about=about.text) if named and len(about.key.split()) <= 4 else None


def ask_about(_clause: Clause, groups: Groups) -> Request | None:
    """ "did i pay rent", "search milk"."""
    about = groups["about"]
    named = starts_with_action(about) or (may_name_task(about) and len(about.key.split()) <= 3)
    return Show(about=read_reference(about).words or about.text) if named and not is_foreign(about) else None


def say(_clause: Clause, groups: Groups) -> Request:
    """The name of the group is the kind of the answer."""
    return Say(next(iter(groups)))
