"""Builders of new tasks: what is to be added, in which words."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model import words as vocabulary
from graph_agent.rules_model.patterns import Builder, Groups, part
from graph_agent.rules_model.references import is_foreign, read_reference, starts_with_action
from graph_agent.rules_model.requests import Add, Offer, Request, Say
from graph_agent.rules_model.wording import Clause, clause_of

_ITEM: Final = re.compile(r"\s*(?:,\s*(?:and |or |plus )?|\s(?:and|&|plus)\s|(?<!\w)\d{1,2}\)\s)\s*")
_REMIND: Final = re.compile(r"remind|tell me|alert|notify|ping|wake|alarm")


def description(clause: Clause) -> str:
    """Return the text of a new task: without the quotes around all of it and the period that ends the sentence."""
    text, key = clause.text, clause.key
    if len(key) > 3 and key[0] in "\"'" and key[-2] == key[0] and key[-1] in ".!,":
        text, key = text[:-1], key[:-1]
    if len(key) > 2 and key[0] in "\"'" and key[-1] == key[0] and (key[0] == "'" or key.count('"') == 2):
        return text[1:-1].strip()
    if key.endswith((".", "!")) and not re.search(r"(?:\b\w\.|\.\.)$", key):
        return text[:-1].rstrip(" .!") or text
    return text


def items_of(text: str) -> tuple[str, ...]:
    """Return the things that a text enumerates; nothing if it is no enumeration of short things."""
    items = tuple(item.strip(" .") for item in _ITEM.split(text) if item.strip(" ."))
    return items if len(items) > 1 and max(len(item.split()) for item in items) <= 5 else ()


def _add(clause: Clause, groups: Groups) -> Request | None:
    text, when = groups["text"], groups["when"]
    if found := re.search(rf",? {part('TO_LIST').pattern}(?:\.|!)*$", text.key):
        text = text.cut(0, found.start())
    if part("NOTHING").fullmatch(text.key.strip(" .!?:,-")) or part("TIME").fullmatch(text.key):
        return Add()
    if read_reference(text).pronoun or part("ANYTHING").fullmatch(text.key):
        return Say("which")
    if part("ALL_QUOTED").fullmatch(text.key):
        return Add(tuple(re.findall(r'"([^"]+)"', text.text)))
    several = part("SEPARATE").fullmatch(text.key)
    if several and (items := items_of(text.text[: several.end("items")])):
        return Add(items)
    chores = items_of(description(text.cut(5) if text.key.startswith("both ") else text).replace(" and also ", " and "))
    if (
        chores
        and not re.search(r"&|remind", clause.key)
        and not when.key
        and all(starts_with_action(clause_of(chore)) for chore in chores)
    ):
        return Add(chores)
    first = text.key.partition(" ")[0]
    clear = starts_with_action(text) or clause.key.endswith(f"to {text.key}")
    if clause.key.startswith("remember ") and (first in vocabulary.ORDERS or not clear):
        return None
    timed = bool(_REMIND.search(clause.key) and (when.key or part("TIMES").search(text.key)))
    return Add((" ".join(filter(None, (description(text), when.text))),), timed)


def _remind(clause: Clause, groups: Groups) -> Request | None:
    """ "remind me X": not a question about something ("remind me what my pin is")."""
    text = groups["text"]
    if text.key.partition(" ")[0] in vocabulary.QUESTION_WORDS | {"if", "whether", "your"}:
        return None
    before = clause.key[: clause.key.rindex(text.key)].split() if text.key else ["to"]
    clear = (
        groups["when"].key or starts_with_action(text) or part("TIMES").search(text.key) or part("NOTHING").fullmatch(text.key)
    )
    return Offer(description(text)) if before[-1:] == ["of"] and not clear else _add(clause, groups)


def _add_items(clause: Clause, groups: Groups) -> Request | None:
    text = description(groups["text"])
    items = items_of(text)
    return Add(items) if items else _add(clause, groups)


def _add_bare(clause: Clause, groups: Groups) -> Request | None:
    """ "add X" without a list: clear if X is a chore or a plain thing. "add John as a friend" is offered."""
    text = groups["text"]
    if found := re.search(r" (?:again|back|too|as well|instead)[.!]?$", text.key):
        text = groups["text"] = text.cut(0, found.start())
    if part("SEPARATE").fullmatch(text.key):
        return _add(clause, groups)
    strange = is_foreign(
        text, vocabulary.FOREIGN if " to " in text.key or text.key.startswith("a ") else vocabulary.DIGITAL
    ) or part("ELSEWHERE").search(text.key)
    if strange and not (text.key[:1] in "\"'" or starts_with_action(text) or part("NOTHING").fullmatch(text.key)):
        return Offer(description(text))
    return _add(clause, groups)


def _placed(clause: Clause, groups: Groups) -> Request | None:
    """ "put milk on my list", "jot down call Bo", "new task: call Bo": the text without the words that say where it is put."""
    text, placed = groups["text"], False
    while text.key:
        if found := part("FRONT").match(text.key) or part("BACK").search(text.key):
            groups |= {"when": text.cut(*found.span("when"))} if found["when"] else {}
            text, placed = text.cut(found.end()) if found.start() == 0 else text.cut(0, found.start()), True
        elif text.start == groups["text"].start and (found := part("PARTICLE_FRONT").match(text.key)):
            text = text.cut(found.end())
        else:
            break
    if text.key.startswith("my ") and is_foreign(text, vocabulary.DIGITAL):
        return None
    groups["text"] = text
    return _add(clause, groups) if placed else None


def _other_list(_clause: Clause, groups: Groups) -> Request:
    text = description(groups["text"])
    return Offer(text, other_list=groups["list"].text) if text else Say("other_list")


def _needed(clause: Clause, groups: Groups) -> Request | None:
    text = groups["text"]
    items = items_of(description(text)) if " need " in f" {clause.key}" else ()
    dated = clause.key.startswith(("i ", "we ")) and re.match(r"(?:an?|my|the) ", text.key) and part("TIMES").search(text.key)
    likely = items or dated or (starts_with_action(text) and len(text.key) < 120)
    words = " ".join(filter(None, (description(text), groups["when"].text)))
    return Offer(re.sub(r"^an? ", "", words) if dated else words, items if len(items) > 2 else ()) if likely else None


BUILDERS: Final[dict[str, Builder]] = {
    "add": _add,
    "add_bare": _add_bare,
    "add_items": _add_items,
    "needed": _needed,
    "other_list": _other_list,
    "placed": _placed,
    "remind": _remind,
}
