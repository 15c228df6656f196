"""Builders of changes: completed, deleted and changed tasks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from graph_agent.rules_model import words as vocabulary
from graph_agent.rules_model.adding import description
from graph_agent.rules_model.patterns import Builder, Groups, part
from graph_agent.rules_model.questions import status_in
from graph_agent.rules_model.references import (
    is_foreign,
    is_time,
    may_name_task,
    names_task,
    read_reference,
    starts_with_action,
)
from graph_agent.rules_model.reports import is_story, read_report, read_state
from graph_agent.rules_model.requests import Complete, Delete, Reference, Request, Say, Update
from graph_agent.rules_model.wording import Clause
from graph_agent.rules_model.words import is_past

_OTHER_THING: Final = re.compile(r"^deal\b|^the \w+ of | (?:is|are|was) ")
_MAX_SAID: Final = 20


def _complete(clause: Clause, groups: Groups) -> Request | None:
    if groups["but"].key:
        return Complete(Reference(every=True, but=groups["but"].text))
    ref, past = _target(groups["ref"]), groups["past"].key
    if "✅" in clause.key and (found := re.search(r" (?:is|are|was|has been|have been) \w+$", ref.key)):
        ref = ref.cut(0, found.start())
    story = re.match(r"(?:i|we|finished|done)\b", clause.key) and is_story(clause)
    asks = ref.key.partition(" ")[0] in vocabulary.NO_REFERENCE - {"do"}
    if story or asks or _OTHER_THING.search(ref.key) or (past and (not is_past(past) or past in {"read", "seen"})):
        return None
    # "finish the report" may also be a plan.
    instead = description(clause) if clause.key.startswith("finish ") else ""
    return Complete(read_reference(ref), instead) if may_name_task(ref) else None


def _complete_named(clause: Clause, groups: Groups) -> Request | None:
    ref = _target(groups["ref"])
    bare = len(ref.key.split()) == 1 and not is_foreign(ref) and ref.key not in {"in", "out", "up", "this", "that", "it"}
    bare = bare and not clause.key.startswith("close")
    return Complete(read_reference(ref)) if (names_task(ref) or bare) and not read_reference(ref).every else None


def _target(ref: Clause) -> Clause:
    """Return the words that name the task, without what explains the request: "the fence, my brother does it"."""
    for found in re.finditer(r"(?:\s*[,;.]|\s-|\bbecause\b|\bsince\b)+\s+", ref.key):
        if found.start() and ("because" in found[0] or "since" in found[0] or part("EXPLAINS").match(ref.key, found.end())):
            return ref.cut(0, found.start())
    return ref


def _said(clause: Clause, groups: Groups) -> Request | None:
    """A clause of an unknown form with a cue word, such as "done", may be about a task."""
    strange = is_foreign(clause) or part("OTHERS").search(clause.key)
    if len(clause.key.split()) > _MAX_SAID or (strange and not part("MENTIONS_TASK").search(clause.key)):
        return None
    target = Reference(words=clause.text)
    return Delete(target) if groups["delete"].key else None if is_story(clause) else Complete(target)


def _report(clause: Clause, groups: Groups) -> Request | None:
    if clause.key.endswith("?"):
        return None
    if groups["about"].key:
        return read_state(
            clause, groups["about"], groups["be"].key, groups["verb"].key.rstrip(" .!"), groups["particle"].key.rstrip(" .!")
        )
    said = groups["doing"] if groups["doing"].key else groups["ref"]
    # A base form where a participle belongs: "i have paint the fence".
    words = said.key.split()
    base = groups["who"].key.endswith("have") and len(words) > 2
    base = base and words[0] in vocabulary.ACTION_VERBS and words[1] in {"the", "my", "our"}
    return read_report(clause, said, by_user=bool(groups["who"].key), finished=bool(groups["doing"].key) or base)


_OTHER_DATA: Final = re.compile(r"\b(?:all|every).* (?:data|account|history|files|stuff)\b")


def _delete_every(clause: Clause, _groups: Groups) -> Request:
    if _OTHER_DATA.search(clause.key):
        return Say("delete_every")
    return Delete(Reference(every=True, status=status_in(clause) if part("OF_STATUS").search(clause.key) else None))


def _delete(clause: Clause, groups: Groups) -> Request | None:
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
        # One word without an article can hardly be meant for another service: "delete meeting".
        return Delete(read_reference(ref)) if may_name_task(ref) or ref.key.isalpha() else None
    likely = re.match(r"(?:the|that) ", ref.key) or len(ref.key.split()) <= 2
    likely = likely and not clause.key.startswith("take ") and not moved and may_name_task(ref) and not is_foreign(ref)
    return Delete(read_reference(ref), instead=description(clause) if starts_with_action(clause) else "") if likely else None


def _update(clause: Clause, groups: Groups) -> Request | None:
    """Every " to " may begin the new words; which one does is known when the tasks are."""
    body = groups["body"]
    named = part("MENTIONS_TASK").search(body.key[: body.key.rfind(" to ")])
    inside = not named and bool(re.match(r"(?:change|replace|swap|switch|correct|fix)\b", clause.key))
    choices: list[Update] = []
    for found in list(part("BECOMES").finditer(body.key))[:6]:
        ref, new = body.cut(0, found.start()), body.cut(found.end())
        if ref.key and new.key and _may_change(clause, ref, new):
            choices.append(Update(read_reference(ref), new=_without_instead(new), inside=inside))
    if not choices or _STATE.fullmatch((choices[0].new or "").lower()):
        return None
    return replace(choices[0], others=tuple(choices[1:]))


def _may_change(clause: Clause, ref: Clause, new: Clause) -> bool:
    """True if the words name a task, or could be one: "change the oven to 350" is about something else."""
    if is_foreign(ref, vocabulary.DIGITAL) or re.match(r"\d+ \w", ref.key):
        return bool(part("MENTIONS_TASK").search(ref.key))
    if names_task(ref) or is_time(new):
        return may_name_task(ref)
    wide = clause.key.startswith(("rename", "change", "update", "edit", "reword"))
    plain = ref.key != "back" and not ref.key.startswith(("the ", "a ", "my "))
    return wide and may_name_task(ref) and (starts_with_action(new) or plain)


_STATE: Final = re.compile(r"(?:done|complete|completed|finished|incomplete|pending|not done|undone|open)")


def _without_instead(clause: Clause) -> str:
    found = re.search(r",? (?:instead|from now on)[.!]?$", clause.key)
    return description(clause.cut(0, found.start()) if found else clause)


def _update_one(clause: Clause, groups: Groups) -> Request | None:
    """ "move the dentist to friday", and without new words "rename the dentist"."""
    ref, text = groups["ref"], groups["text"]
    short = len(ref.key.split()) <= 3 and not ref.key.startswith("your") and not part("DEFINITE").match(ref.key)
    if not may_name_task(ref) or not (text.key or short or names_task(ref)):
        return None
    if text.key:
        return Update(read_reference(ref), new=_without_instead(text))
    return Update(read_reference(ref), "" if names_task(ref) else description(clause))


BUILDERS: Final[dict[str, Builder]] = {
    "complete": _complete,
    "complete_named": _complete_named,
    "delete": _delete,
    "delete_every": _delete_every,
    "report": _report,
    "said": _said,
    "update": _update,
    "update_one": _update_one,
}
