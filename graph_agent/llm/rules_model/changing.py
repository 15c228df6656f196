"""Builders of changes: completed, deleted and changed tasks."""

from __future__ import annotations

import re
from dataclasses import replace

from graph_agent.llm.rules_model import words as vocabulary
from graph_agent.llm.rules_model.adding import description
from graph_agent.llm.rules_model.patterns import Groups, part
from graph_agent.llm.rules_model.questions import status_in
from graph_agent.llm.rules_model.references import (
    is_foreign,
    is_time,
    may_name_task,
    names_task,
    read_reference,
    starts_with_action,
)
from graph_agent.llm.rules_model.reports import is_story
from graph_agent.llm.rules_model.requests import Complete, Delete, Reference, Request, Say, Update
from graph_agent.llm.rules_model.wording import Clause


def complete(clause: Clause, groups: Groups) -> Request | None:
    """ "mark milk as done", "done with the rent"; after a mere "check" or "close" the words must name a task."""
    ref = _target(groups["ref"])
    target = read_reference(ref)
    if groups["but"].key:
        return replace(Complete(target), target=replace(target, but=groups["but"].text)) if target.every else None
    told = part("TOLD").match(clause.key) and is_story(clause)
    if told or part("NOT_DONE").search(ref.key):
        return None
    if groups["weak"].key:
        named = names_task(ref) or (ref.key.isalpha() and not is_foreign(ref))
        return Complete(target) if named and not target.every else None
    # "finish the report" may also be a plan.
    instead = description(clause) if clause.key.startswith("finish ") else ""
    mine = clause.key.startswith("mark my ") and not is_foreign(ref)
    return Complete(target, instead) if mine or may_name_task(ref) else None


def _target(ref: Clause) -> Clause:
    """Return the words that name the task, without what explains the request: "the fence, my brother does it"."""
    for found in re.finditer(r"(?:\s*[,;.]|\s-|\bbecause\b|\bsince\b)+\s+", ref.key):
        if found.start() and ("because" in found[0] or "since" in found[0] or part("EXPLAINS").match(ref.key, found.end())):
            return ref.cut(0, found.start())
    return ref


def said(clause: Clause, groups: Groups) -> Request | None:
    """A clause of an unknown form with a word such as "done" or "remove" may be about a task."""
    if is_foreign(clause) or is_story(clause):
        return None
    target = Reference(words=clause.text)
    return Delete(target) if groups["delete"].key else Complete(target)


def delete_every(clause: Clause, _groups: Groups) -> Request:
    if part("OTHER_DATA").search(clause.key):
        return Say("delete_every")
    return Delete(Reference(every=True, status=status_in(clause) if part("OF_STATUS").search(clause.key) else None))


def delete(clause: Clause, groups: Groups) -> Request | None:
    """ "remove milk", "take milk off my list": a word of the list or a clear word is enough, else a task must be named."""
    ref, moved, listed = groups["ref"], groups["moved"].key, bool(groups["listed"].key)
    if found := part("LIST_FIRST").match(ref.key):
        listed, ref = True, ref.cut(found.end())
    if found := part("OFF_LIST" if moved else "ON_LIST_ALSO").search(ref.key):
        listed, ref = True, ref.cut(0, found.start())
    off = part("OFF").search(ref.key) if moved in {"take", "make"} else None
    ref = _target(ref.cut(0, off.start()) if off else ref)
    if listed or (names_task(ref) and not moved):
        return Delete(read_reference(ref))
    if off or groups["sure"].key:
        return Delete(read_reference(ref)) if may_name_task(ref) else None
    likely = re.match(r"(?:the|that) ", ref.key) or len(ref.key.split()) <= 2
    likely = likely and not clause.key.startswith("take ") and not moved and may_name_task(ref) and not is_foreign(ref)
    return Delete(read_reference(ref)) if likely else None


def update(clause: Clause, groups: Groups) -> Request | None:
    """ "change milk to oat milk": every " to " may begin the new words; which one does is known when the tasks are."""
    body = groups["body"]
    named = part("MENTIONS_TASK").search(body.key[: body.key.rfind(" to ")])
    inside = not named and bool(part("REPLACES").match(clause.key))
    choices: list[Update] = []
    for found in list(part("BECOMES").finditer(body.key))[:6]:
        ref, new = body.cut(0, found.start()), body.cut(found.end())
        if ref.key and new.key and _may_change(clause, ref, new):
            choices.append(Update(read_reference(ref), new=_without_instead(new), inside=inside))
    if not choices or part("STATE").fullmatch((choices[0].new or "").lower()):
        return None
    return replace(choices[0], others=tuple(choices[1:]))


def _may_change(clause: Clause, ref: Clause, new: Clause) -> bool:
    """True if the words name a task, or could be one: "change the oven to 350" is about something else."""
    if is_foreign(ref, vocabulary.DIGITAL):
        return bool(part("MENTIONS_TASK").search(ref.key))
    # "The milk should be soy milk" repeats the noun.
    repeats = " should be " in clause.key and ref.key.split()[-1] in new.key.split()
    plain = starts_with_action(new) or not part("DETERMINED").match(ref.key)
    renamed = plain and bool(part("RENAMES").match(clause.key))
    return may_name_task(ref) and (names_task(ref) or renamed or repeats or is_time(new))


def _without_instead(clause: Clause) -> str:
    found = part("INSTEAD").search(clause.key)
    return description(clause.cut(0, found.start()) if found else clause)


def update_one(clause: Clause, groups: Groups) -> Request | None:
    """ "move the dentist to friday", and without new words "rename the dentist"."""
    new = groups["text"]
    ref = groups["ref"] if groups["ref"].key else new
    if not may_name_task(ref):
        return None
    if new.key and (starts_with_action(new) or is_time(new)):
        return Update(read_reference(ref), description(clause), _without_instead(new))
    if names_task(ref):
        return Update(read_reference(ref))
    plain = len(ref.key.split()) <= 3 and not ref.key.startswith("your") and not part("DEFINITE").match(ref.key)
    return Update(read_reference(ref), description(clause)) if plain else None
