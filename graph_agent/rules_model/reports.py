"""Reports of finished work: "I called mom", "the rent has been paid", "I had the car washed", "laundry sorted".

A report is recognized by its form: a past form or a passive in one clause. What the user felt, or what happened to the user,
is no report of a chore.
"""

from __future__ import annotations

import re

from graph_agent.rules_model.patterns import Groups, part
from graph_agent.rules_model.references import as_plan, is_foreign, read_reference, starts_with_action
from graph_agent.rules_model.requests import Complete, Reference
from graph_agent.rules_model.wording import Clause, clause_of
from graph_agent.rules_model.words import DIGITAL, NO_CHORE, NO_TASK, SAME_IN_PAST, SEE, is_action, is_past

_MAX_WORDS = 9


def is_story(clause: Clause) -> bool:
    """True if words of stories occur: a story reports no chore."""
    return bool(part("STORY").search(clause.key))


def read_report(clause: Clause, groups: Groups) -> Complete | None:
    """Read the groups of a report: a thing and its state, or what was done."""
    if clause.key.endswith("?") or is_story(clause):
        return None
    return _read_state(groups["about"], groups) if groups["about"].key else _read_deed(groups)


def _read_deed(groups: Groups) -> Complete | None:
    """Read "called mom", and "watering the plants" after "I'm done"."""
    said, by_user = groups["doing"] if groups["doing"].key else groups["ref"], bool(groups["who"].key)
    verb, _, rest = said.key.partition(" ")
    past = groups["doing"].key or is_past(verb)
    if not past or verb in NO_CHORE or part("NO_REPORT").match(said.key) or len(said.key.split()) > _MAX_WORDS:
        return None
    if rest in {"it", "that", "them", "this"}:
        return Complete(Reference(pronoun=True), instead=said.text) if is_action(verb) and by_user else None
    definite = bool(part("DEFINITE").match(rest))
    if not (by_user or definite) and (verb in {"did", "done"} or is_foreign(said, DIGITAL)):
        return None
    if verb in SAME_IN_PAST and not by_user:
        return None
    return Complete(read_reference(said), instead=as_plan(said)) if is_action(verb) or definite else None


def _read_state(thing: Clause, groups: Groups) -> Complete | None:
    """Read "the rent has been paid" and "brownies baked"."""
    # The last group may end in punctuation or an emoji.
    be, verb, particle = (re.sub(r"[\W]+$", "", groups[name].key) for name in ("be", "verb", "particle"))
    nouns = thing.key.split()
    if (len(nouns) > 2 and starts_with_action(thing)) or nouns[0] in SEE or NO_TASK.intersection(nouns):
        return None
    if part("GENERIC").fullmatch(f"{be} {verb} {particle}".strip()) and len(nouns) <= 3:
        return Complete(read_reference(thing), instead=thing.text)
    if not is_past(verb) or verb in NO_CHORE or (verb in SAME_IN_PAST and not be):
        return None
    said = clause_of(f"{verb} {particle} {thing.text}")
    return Complete(read_reference(said), instead=as_plan(said)) if is_action(verb) or particle else None
