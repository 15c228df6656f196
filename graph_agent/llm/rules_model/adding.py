"""Builders of new tasks: what is to be added, in which words."""

from __future__ import annotations

import re
from typing import Final

from graph_agent.llm.rules_model import words as vocabulary
from graph_agent.llm.rules_model.patterns import Groups, part
from graph_agent.llm.rules_model.references import is_foreign, read_reference, starts_with_action
from graph_agent.llm.rules_model.requests import Add, Offer, Request, Say
from graph_agent.llm.rules_model.wording import Clause, clause_of

_ITEM: Final = re.compile(r"\s*(?:,\s*(?:and |or |plus )?|\s(?:and|&|plus)\s|(?<!\w)(?:\d{1,2}\)|[-•*])\s)\s*")


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


def is_chore(text: str) -> bool:
    return starts_with_action(clause_of(text))


def texts_of(clause: Clause) -> tuple[str, ...]:
    """Return the tasks in a text: its lines, or what it enumerates ("call mom and pay rent", "eggs, butter and flour")."""
    if len(parts := re.split(r",? (?:and )?also |(?:^| )\d{1,2}[.)] (?=.)", description(clause))) > 1:
        return tuple(part.strip() for part in parts if part)
    items = items_of(description(clause))
    short = len(items) > 2 and max(len(item.split()) for item in items) < 3
    things = short and "," in clause.key and not starts_with_action(clause) and not part("TIMES").search(clause.key)
    enumerated = things or (len(items) > 1 and "&" not in clause.key and all(map(is_chore, items)))
    return items if enumerated else tuple(description(clause).splitlines())


def add(clause: Clause, groups: Groups) -> Request | None:
    text, when = groups["text"], groups["when"]
    if part("NOTHING").fullmatch(text.key.strip(" .!?:,-")):
        return Add()
    if read_reference(text).pronoun or part("ANYTHING").fullmatch(text.key):
        return Say("which")
    if found := part("SEPARATE").fullmatch(text.key):
        return Add(items_of(text.text[: found.end("items")]) or (text.text,))
    reminds = part("REMINDS").search(clause.key)
    if not (reminds or when.key) and len(texts := texts_of(text.cut(5) if text.key.startswith("both ") else text)) > 1:
        return Add(texts)
    timed = bool(reminds and (when.key or part("TIMES").search(text.key)))
    return Add((" ".join(filter(None, (description(text), when.text))),), timed)


def _peel(groups: Groups, *, linked: bool) -> tuple[bool, bool]:
    """Take away from the group "text" what says where and how the task is kept; its time becomes the group "when".

    Return if there was such a word, and if several things are announced ("these:"). `linked`: the text may begin with "to",
    "that" and the like.
    """
    text, placed, several = groups["text"], False, False
    while text.key:
        if found := part("KEPT_AS").match(text.key):
            placed = linked = True
            several = several or bool(part("SEVERAL_THINGS").search(found[0]))
        elif found := (linked and part("WHEN_FIRST").match(text.key)) or part("TAKEN").search(text.key):
            placed = placed or bool(found.start() and found.groupdict().get("kept"))
            groups |= {"when": text.cut(*found.span("when"))} if found["when"] else {}
            text = text.cut(0, found.start()) if found.start() else text
        elif not (found := part("LINK" if linked else "PARTICLE_FIRST").match(text.key)):
            break
        elif found[0] == "to":
            linked = False
        text = text if found.start() else text.cut(found.end())
    groups["text"] = text
    return placed, several


def remember(clause: Clause, groups: Groups) -> Request | None:
    """ "remind me to call Bo", "do not let me forget the milk"; not "remind me what my pin is" or "remember the holidays"."""
    said = groups["text"].key.lstrip(" ,:")
    _peel(groups, linked=True)
    text = groups["text"]
    before = clause.key[: len(clause.key) - len(said)] + said[: said.find(text.key)]
    if part("INDIRECT").match(text.key) and not before.endswith("to "):
        return None
    timed = groups["when"].key or part("TIMES").search(text.key)
    clear = timed or starts_with_action(text) or before.endswith("to ") or part("NOTHING").fullmatch(text.key)
    if part("REMEMBER").match(before):
        vague = part("NOTES").match(clause.key) and (not clear or text.key.partition(" ")[0] in vocabulary.ORDERS)
        return None if vague else add(clause, groups)
    if said and text.key == said and not ("remind me" in before and (clear or said.startswith(("not to ", "my ")))):
        return None
    return Offer(description(text)) if before.endswith("of ") and not clear else add(clause, groups)


def placed(clause: Clause, groups: Groups) -> Request | None:
    """ "put milk on my list", "new task: call Bo", "one more thing for my list: milk"."""
    head, kept = groups["head"].key, groups["said"]
    announced = head or groups["list"].key
    if head and not part("ANNOUNCES").fullmatch(head):
        return None
    groups["text"] = kept if kept.key else groups["text"]
    placed, several = _peel(groups, linked=bool(announced or kept.key))
    text = groups["text"]
    if (several or part("SEVERAL_THINGS").search(head)) and (items := items_of(description(text))):
        return Add(items)
    mine = text.key.startswith("my ") and is_foreign(text, vocabulary.DIGITAL)
    return add(clause, groups) if (placed or announced) and not mine else None


def add_bare(clause: Clause, groups: Groups) -> Request | None:
    """ "add X" without a list: clear if X is a chore or a plain thing. "add John as a friend" is offered."""
    again = part("AGAIN").search(groups["text"].key)
    text = groups["text"] = groups["text"].cut(0, again.start() if again else None)
    nouns = vocabulary.FOREIGN if " to " in text.key or text.key.startswith("a ") else vocabulary.DIGITAL
    clear = starts_with_action(text) or part("PLAIN").match(text.key) or part("NOTHING").fullmatch(text.key)
    strange = is_foreign(text, nouns) or part("ELSEWHERE").search(text.key)
    return Offer(description(text)) if strange and not clear else add(clause, groups)


def other_list(_clause: Clause, groups: Groups) -> Request:
    text = description(groups["text"])
    return Offer(text, other_list=groups["list"].text) if text else Say("other_list")


def needed(clause: Clause, groups: Groups) -> Request | None:
    """ "I need to fix the sink", "we need milk and eggs"."""
    text = groups["text"]
    needs = bool(re.search(r"\b(?:need|out of|low on)\b", clause.key))
    items = items_of(description(text)) if needs else ()
    wanted = needs and len(text.key.split()) <= 3 and not is_foreign(text)
    if not (items or wanted or starts_with_action(text)):
        return None
    return Offer(description(text), items if len(items) > 2 else ())
