"""Reports of finished work: "I called mom", "the rent has been paid", "I had the car washed", "laundry sorted".

A report is recognized by its form: a past form or a passive in one clause. What the user felt, or what happened to the user,
is no report of a chore.
"""

from __future__ import annotations

import re

from graph_agent.llm.rules_model.patterns import Groups, part
from graph_agent.llm.rules_model.references import PREPOSITIONS, as_plan, is_foreign, read_reference, starts_with_action
from graph_agent.llm.rules_model.requests import Complete, Delete
from graph_agent.llm.rules_model.wording import Clause, clause_of
from graph_agent.llm.rules_model.words import IRREGULAR, NO_CHORE, NO_TASK, SEE, is_action, is_past


def is_story(clause: Clause) -> bool:
    """True if words of stories occur: a story reports no chore."""
    return bool(part("STORY").search(clause.key))


def report(clause: Clause, groups: Groups) -> Complete | Delete | None:
    if clause.key.endswith("?") or is_story(clause):
        return None
    return _read_state(groups) if groups["about"].key else _read_deed(groups)


def _read_deed(groups: Groups) -> Complete | None:
    """Read "called mom", and "watering the plants" after "I'm done"."""
    doing, by_user = groups["doing"], bool(groups["who"].key)
    said = doing if doing.key else groups["ref"]
    verb, _, rest = said.key.rstrip(" .!").partition(" ")
    if part("NO_REPORT").match(said.key) or not (doing.key or _reports(verb, by_user)):
        return None
    named = read_reference(said.cut(len(verb)))
    if named.places or (named.pronoun and by_user):
        return Complete(named, instead=said.text if named.pronoun else "")
    # "did the laundry" is a report, "did my deposit arrive at the bank yet" a question.
    asked = verb in {"did", "done"} and not by_user
    mine = rest.startswith("my ")
    strange = rest.count(" ") >= (3 if mine else 4) if asked else mine and is_foreign(said)
    known = (is_action(verb) and not asked) or (part("DEFINITE").match(rest) and not strange)
    return Complete(read_reference(said), instead=as_plan(said)) if known else None


def _read_state(groups: Groups) -> Complete | Delete | None:
    """Read "the rent has been paid" and "brownies baked"."""
    # The last group may end in punctuation or an emoji.
    be, verb, particle = (re.sub(r"\W+$", "", groups[name].key) for name in ("be", "verb", "particle"))
    thing, nouns = groups["about"], groups["about"].key.split()
    if (
        (len(nouns) > 2 and starts_with_action(thing) and nouns[1] not in PREPOSITIONS)
        or nouns[0] in SEE
        or NO_TASK.intersection(nouns)
    ):
        return None
    if part("GENERIC").fullmatch(f"{be} {verb} {particle}".strip()) and len(nouns) <= 3:
        return Complete(read_reference(thing), instead=thing.text)
    if verb.startswith("cancel"):
        return Delete(read_reference(thing), instead=thing.text)
    said = clause_of(f"{verb} {particle} {thing.text}")
    known = _reports(verb, bool(be)) and (is_action(verb) or particle)
    return Complete(read_reference(said), instead=as_plan(said)) if known else None


def _reports(verb: str, certain: bool) -> bool:
    """True for the past form of a chore. If it is not certain, it must differ from an order such as "cut the grass"."""
    return is_past(verb) and verb not in NO_CHORE and (certain or IRREGULAR.get(verb) != verb)
