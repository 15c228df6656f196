"""Reading of one clause: the first cue that fits, and whose builder does not return None, decides on the request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final

from graph_agent.llm.rules_model import adding, changing, questions, reports
from graph_agent.llm.rules_model import words as vocabulary
from graph_agent.llm.rules_model.adding import description, is_chore, items_of
from graph_agent.llm.rules_model.patterns import Builder, matches, part
from graph_agent.llm.rules_model.references import is_foreign, names_task, starts_with_action
from graph_agent.llm.rules_model.requests import UNCLEAR, Add, Complete, Delete, Offer, Request, Say, Show, Update
from graph_agent.llm.rules_model.wording import Clause, clause_of

_TABLES: Final = (("guards", "add", "update", "change", "report", "ask"), ("last_add", "last_change"))
_BUILDERS: Final = (adding, changing, questions, reports)
_MAX_WORDS: Final = 80


def read_clause(clause: Clause) -> Request:
    """Return the request that one clause makes; `UNCLEAR` if no cue fits."""
    bare = without_politeness(clause)
    if talk := _first(clause, "talk") or _first(bare, "talk"):
        return talk
    if bare.key.count(" ") > _MAX_WORDS:
        return Add((bare.text,)) if _first(bare.cut(0, 200), "add") else UNCLEAR
    attempts = [bare, *_commands_inside(bare)]
    found = (_first(attempt, name) for names in _TABLES for attempt in attempts for name in names)
    return next((request for request in found if request), None) or _leftover(bare)


def without_politeness(clause: Clause) -> Clause:
    """Return the clause without greetings, requests and thanks around it; never an empty one."""
    while (found := part("LEAD").match(clause.key)) and (rest := clause.cut(found.end())).key:
        clause = rest
    while found := part("TAIL").search(clause.key[-40:].rstrip(" .!?")):
        end = len(clause.key.rstrip(" .!?")) - len(found[0])
        if end <= 0:
            break
        clause = clause.cut(0, end)
    return clause


def _commands_inside(clause: Clause) -> Iterator[Clause]:
    """Yield what follows unknown words, from a command on ("it'd be grand to have milk put on my list")."""
    for found in islice(part("INSIDE").finditer(clause.key), 3):
        if not part("ASIDE").search(clause.key[: found.start()]):
            yield clause.cut(found.start())


def can_follow(clause: Clause, before: Request, *, new_sentence: bool) -> bool:
    """True if the clause is a command that can follow `before` after "and". The text of a new task may contain "and" itself.

    So what follows a new task must name a task, a place, the list or a change.
    """
    clause = without_politeness(clause)
    request = next(filter(None, (_first(clause, name) for name in (*_TABLES[0], "last_add"))), None)
    after_text = isinstance(before, Add | Offer | Say)
    words = clause.key.partition(" ")[2]
    match request:
        case Show(about=about):
            asks = (not about or part("ASKS_LIST").match(clause.key)) and not clause.key.startswith(("is it ", "is that "))
            return bool(asks and (not after_text or new_sentence or part("SHOWN").search(clause.key)))
        case Complete():
            return True
        case Update(target):
            return not (target.pronoun and isinstance(before, Say))
        case Add(texts) if after_text:
            new = clause.key.startswith("add ") != bool(texts) or starts_with_action(clause.cut(4))
            return new or new_sentence or bool(part("TASK").search(words))
        case Delete(target) if after_text:
            named = names_task(clause_of(words)) or part("TASK").search(words) or part("LIST").search(words)
            return bool(words) and not target.every and (isinstance(before, Say) or (bool(named) and not target.pronoun))
        case _:
            return isinstance(request, Add | Delete)


def _first(clause: Clause, *names: str) -> Request | None:
    """Return the request of the first cue in the named tables that fits the clause."""
    for section, groups in matches(clause, *names):
        if (request := _builder(section)(clause, groups)) is not None:
            return request
    return None


def _leftover(clause: Clause) -> Request:
    """Offer what could be a task, decline what certainly is something else, and ask about the rest."""
    key = clause.key.strip(" .!?,")
    words = questions.words_of(key)
    if not words or part("ONLY_NOISE").fullmatch(key):
        return UNCLEAR
    if sum(char.isalpha() and not char.isascii() for char in key) > len(key) / 3:
        return Say("language")
    asked = clause.key.rstrip().endswith("?") or (words[0] in vocabulary.QUESTION_WORDS and not part("CHORE").match(key))
    foreign = is_foreign(clause)
    order = part("SERVICE").match(key) or words[0] in vocabulary.ORDERS or (foreign and words[1:2] in (["a"], ["an"]))
    items = items_of(description(clause))
    if starts_with_action(clause) and not (asked or order or words[1] in {"me", "us"}):
        several = len(items) > 2 or all(map(is_chore, items))
        return Offer(description(clause), items if several else ())
    asks_world = asked and not vocabulary.FIRST_PERSON.intersection(words) and not vocabulary.SHOW_WORDS.issuperset(words)
    if order or asks_world or (foreign and asked):
        return Say("out_of_scope")
    longest = 20 if items else 12 if part("TIMES").search(key) else 4
    if asked or foreign or len(words) > longest or vocabulary.NO_TASK.intersection(words):
        return UNCLEAR
    return Offer(description(clause), items, bare=not items)


@cache
def _builder(section: str) -> Builder:
    """Return the function that a section of the cues names."""
    builder: Builder = next(vars(module)[section] for module in _BUILDERS if section in vars(module))
    return builder
