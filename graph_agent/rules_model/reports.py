"""Reports of finished work: "I called mom", "the rent has been paid", "I had the car washed", "laundry sorted".

A report is recognized by its form: a past form or a passive in one clause. What the user felt, or what happened to the user,
is no report of a chore.
"""

from __future__ import annotations

from graph_agent.rules_model import words
from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.references import as_plan, is_foreign, read_reference, starts_with_action
from graph_agent.rules_model.requests import Complete, Reference
from graph_agent.rules_model.wording import Clause, clause_of
from graph_agent.rules_model.words import is_action, is_past


def is_story(clause: Clause) -> bool:
    """True if words of stories occur: a story reports no chore."""
    return bool(part("STORY").search(clause.key))


def read_report(clause: Clause, said: Clause, *, by_user: bool, finished: bool) -> Complete | None:
    """Read "called mom"; `by_user` if "I" or "we" stands before it, `finished` for "watering the plants" after "I'm done"."""
    verb, _, rest = said.key.partition(" ")
    if is_story(clause) or part("NO_REPORT").match(said.key) or len(said.key.split()) > 9 or not (finished or is_past(verb)):
        return None
    if rest in {"it", "that", "them", "this"}:
        return Complete(Reference(pronoun=True), instead=said.text) if is_action(verb) and by_user else None
    definite = bool(part("DEFINITE").match(rest))
    if not by_user and (verb in words.SAME_IN_PAST or (is_foreign(said, words.DIGITAL) and not definite)):
        return None
    # "did the laundry" is a report, "did the package arrive" a question.
    asked = any(word in words.ACTION_VERBS or word in {"arrive", "happen", "list", "win"} for word in rest.split()[2:])
    asked = asked or (rest.startswith("my ") and len(rest.split()) > 3)
    if verb in {"did", "done"} and not by_user and (asked or not definite):
        return None
    if verb in words.NO_CHORE or not (is_action(verb) or definite):
        return None
    return Complete(read_reference(said), instead=as_plan(said))


def read_state(clause: Clause, thing: Clause, be: str, verb: str, particle: str) -> Complete | None:
    """Read "the rent has been paid" and "brownies baked": the thing, the form of "to be" or "to have", and the past form."""
    nouns, verb = thing.key.split(), verb.split(" ")[0]
    order = (len(nouns) > 2 and starts_with_action(thing)) or nouns[0] in words.SEE or words.NO_TASK.intersection(nouns)
    if order or is_story(clause):
        return None
    if part("GENERIC").fullmatch(f"{be} {verb} {particle}".strip()) and (is_past(verb) or len(nouns) <= 3):
        return Complete(read_reference(thing), instead=thing.text)
    if not is_past(verb) or verb in words.NO_CHORE or (verb in words.SAME_IN_PAST and not be):
        return None
    said = clause_of(f"{verb} {particle} {thing.text}")
    return Complete(read_reference(said), instead=as_plan(said)) if is_action(verb) or particle else None
