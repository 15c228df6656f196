"""Reports of finished work: "I called mom", "the rent has been paid", "I had the car washed", "laundry sorted".

A report is recognized by its form: a past form or a passive in one clause. What the user felt, or what happened to the user,
is no report of a chore.
"""

from __future__ import annotations

import re
from typing import Final

from graph_agent.rules_model import words
from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.references import as_plan, is_foreign, may_name_task, read_reference, starts_with_action
from graph_agent.rules_model.requests import Complete, Reference
from graph_agent.rules_model.wording import Clause, clause_of
from graph_agent.rules_model.words import is_action, is_past

_STORY: Final = re.compile(
    r"\b(?:entire|whole|again|first time|accidentally|literally|never|almost|nearly|by mistake|years?"
    r"|so (?:much|hard)|in (?:a|one|two|three|\d+)"
    r" (?:days?|hours?|minutes?|weeks?)|last (?:year|summer|winter|month|week|night)|for (?:hours|days|ages)|when|while|like)\b"
)
"""Words of stories: what they tell is no chore."""
_EMPTY_OBJECT: Final = re.compile(r"\b(?:the|my|a) (?:job|thing|chore|note)$")


def is_story(clause: Clause) -> bool:
    return bool(_STORY.search(clause.key) or _EMPTY_OBJECT.search(clause.key.rstrip(" .!")))


def read_report(clause: Clause, said: Clause, *, by_user: bool, finished: bool) -> Complete | None:
    """Read "called mom"; `by_user` if "I" or "we" stands before it, `finished` for "watering the plants" after "I'm done"."""
    if is_story(clause):
        return None
    if found := re.match(rf"{part('GENERIC').pattern} ", said.key):
        about = said.cut(found.end())
        likely = may_name_task(about) or part("DEFINITE").match(about.key)
        return Complete(read_reference(about), instead=about.text) if likely else None
    verb, _, rest = said.key.partition(" ")
    if (
        part("OTHER_CLAUSE").search(said.key)
        or part("NO_OBJECT").match(rest)
        or re.match(r"(?:got|went) to (?!the\b)", said.key)
    ):
        return None
    asked = any(word in words.ACTION_VERBS or word in {"arrive", "happen", "win", "come"} for word in rest.split()[2:])
    if verb == "did" and not (by_user or (part("DEFINITE").match(rest) and not asked)):
        return None
    if rest in {"it", "that", "them", "this"}:
        return Complete(Reference(pronoun=True), instead=said.text) if is_action(verb) and by_user else None
    if len(said.key.split()) > 9 or not (finished or is_past(verb)):
        return None
    if (verb in words.SAME_IN_PAST | words.PARTICIPLES and not by_user) or (verb == "got" and part("INDEFINITE").match(rest)):
        return None
    name = rest and said.text.partition(" ")[2][:1].isupper() and not clause.text.isupper()
    definite, moved = (
        bool(name or part("DEFINITE").match(rest)),
        bool(part("MOVED").match(rest) or re.search(r" (?:off|up|on|out)\b(?: at .+)?$", rest)),
    )
    felt = verb in words.NO_CHORE and not moved and verb not in words.CHORE_TOO
    known = is_action(verb) and verb not in words.NO_CHORE
    likely_chore = known or (bool(rest) and not felt and (definite or moved))
    if not likely_chore or (is_foreign(said, words.DIGITAL) and not (definite or by_user)):
        return None
    return Complete(read_reference(said), instead=as_plan(said))


def read_state(clause: Clause, thing: Clause, be: str, verb: str, particle: str) -> Complete | None:
    """Read "the rent has been paid" and "brownies baked": the thing, the form of "to be" or "to have", and the past form."""
    if is_story(clause):
        return None
    about = thing.key
    verb = verb.split(" ")[0]
    if (
        (not be and ("," in about or words.ORDERS.intersection(about.split())))
        or part("NOT_REPORTED").match(about)
        or len(about.split()) > 5
    ):
        return None
    if (
        words.NO_TASK.intersection(about.split())
        or (starts_with_action(thing) and (be or len(about.split()) > 2 or part("DEFINITE").match(about.partition(" ")[2])))
        or about.partition(" ")[0] in words.ORDERS
        or " that " in about
    ):
        return None
    if verb in {"done", "finished", "completed"} or part("GENERIC").fullmatch(f"{verb} {particle}".strip()):
        return Complete(read_reference(thing), instead=thing.text)
    if be and verb in {"out", "in", "clean", "ready"} and len(about.split()) <= 3:
        said = clause_of(f"{verb} {about}")
        return (
            Complete(read_reference(said), instead=f"{verb} {about}") if part("DEFINITE").match(about) or be == "are" else None
        )
    happened = be in {"has", "have"} and " been " not in clause.key
    event = happened or be in {"was", "were", "had"} or (verb in words.BY_ITSELF and be not in {"is", "are"})
    if event or not is_past(verb) or (verb in words.EXPERIENCES and not particle) or (verb in words.SAME_IN_PAST and not be):
        return None
    known = is_action(verb) and verb not in words.EXPERIENCES
    if not (known or particle or be in {"has", "have"}) or (
        is_foreign(thing, words.DIGITAL) and about.startswith(("my ", "a "))
    ):
        return None
    named = read_reference(thing).words or thing.text
    said = clause_of(" ".join(filter(None, (verb, particle.partition(" ")[0], named))))
    return Complete(read_reference(said), instead=as_plan(said))
