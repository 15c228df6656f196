"""Reports of finished work: "I called mom", "the rent has been paid", "I had the car washed", "laundry sorted".

A report is recognized by its form: a past form or a passive in one clause. What the user felt, or what happened to the user,
is no report of a chore.
"""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model import words
from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.references import as_plan, is_foreign, read_reference, starts_with_action
from graph_agent.rules_model.requests import Complete, Reference
from graph_agent.rules_model.wording import Clause, clause_of
from graph_agent.rules_model.words import is_action, is_past

_STORY: Final = re.compile(
    r"\b(?:entire|whole|again|first time|accidentally|literally|never|almost|nearly|by mistake|years?|so (?:much|hard)"
    r"|in (?:a|one|two|three|\d+) (?:days?|hours?|minutes?|weeks?)|last (?:year|summer|winter|month|week)"
    r"|for (?:hours|days|ages)|when|while|like)\b|\b(?:the|my|a) (?:job|thing|chore|note)[ .!]*$"
)
"""Words of stories: what they tell is no chore."""


def is_story(clause: Clause) -> bool:
    return bool(_STORY.search(clause.key))


def read_report(clause: Clause, said: Clause, *, by_user: bool, finished: bool) -> Complete | None:
    """Read "called mom"; `by_user` if "I" or "we" stands before it, `finished` for "watering the plants" after "I'm done"."""
    verb, _, rest = said.key.partition(" ")
    strange = part("OTHER_CLAUSE").search(said.key) or part("NO_OBJECT").match(rest)
    strange = strange or re.match(r"(?:got|went) to (?!the\b)", said.key)
    if is_story(clause) or strange or len(said.key.split()) > 9 or not (finished or is_past(verb)):
        return None
    if rest in {"it", "that", "them", "this"}:
        return Complete(Reference(pronoun=True), instead=said.text) if is_action(verb) and by_user else None
    definite = bool(part("DEFINITE").match(rest) or said.text.partition(" ")[2][:1].isupper())
    # "got the car washed" is read as a state.
    passive = verb in {"got", "had"} and (part("INDEFINITE").match(rest) or rest.endswith(" done"))
    if (verb in words.SAME_IN_PAST and not by_user) or passive:
        return None
    asked = any(word in words.ACTION_VERBS or word in {"arrive", "happen", "win", "come"} for word in rest.split()[2:])
    if verb in {"did", "done"} and not (by_user or (part("DEFINITE").match(rest) and not asked)):
        return None
    moved = bool(part("MOVED").search(rest))
    felt = verb in words.NO_CHORE and not moved
    if felt or not (is_action(verb) or (rest and (definite or moved))):
        return None
    if is_foreign(said, words.DIGITAL) and not (definite or by_user):
        return None
    return Complete(read_reference(said), instead=as_plan(said))


def read_state(clause: Clause, thing: Clause, be: str, verb: str, particle: str) -> Complete | None:
    """Read "the rent has been paid" and "brownies baked": the thing, the form of "to be" or "to have", and the past form."""
    about, nouns = thing.key, thing.key.split()
    verb = verb.split(" ")[0]
    definite = part("DEFINITE").match(about.partition(" ")[2])
    if is_story(clause) or len(nouns) > 5 or part("NOT_REPORTED").match(about) or words.NO_TASK.intersection(nouns):
        return None
    if words.ORDERS.intersection(nouns) or (starts_with_action(thing) and (len(nouns) > 2 or definite)):
        return None
    if verb in {"done", "finished", "completed"} or part("GENERIC").fullmatch(f"{verb} {particle}".strip()):
        return Complete(read_reference(thing), instead=thing.text)
    happened = (be in {"has", "have"} and " been " not in clause.key) or be in {"was", "were", "had"}
    happened = happened or (verb in words.BY_ITSELF and be not in {"is", "are"})
    if verb in {"out", "in", "clean", "ready"} and be and len(nouns) <= 3 and (part("DEFINITE").match(about) or be == "are"):
        said = clause_of(f"{verb} {about}")
        return Complete(read_reference(said), instead=said.text)
    if happened or not is_past(verb) or (verb in words.NO_CHORE and not particle) or (verb in words.SAME_IN_PAST and not be):
        return None
    if not (is_action(verb) or particle or be in {"has", "have"}):
        return None
    if is_foreign(thing, words.DIGITAL) and nouns[0] in {"my", "a"}:
        return None
    named = read_reference(thing).words or thing.text
    said = clause_of(" ".join(filter(None, (verb, particle.partition(" ")[0], named))))
    return Complete(read_reference(said), instead=as_plan(said))
