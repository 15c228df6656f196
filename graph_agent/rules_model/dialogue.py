"""The context of a message: the question that the assistant asked last, and the task that was mentioned last.

The adapter is stateless. The context is read from the assistant's earlier texts, with the templates that composed them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal, TypeVar

from graph_agent.rules_model import replies
from graph_agent.rules_model.adding import description
from graph_agent.rules_model.matching import Task, find
from graph_agent.rules_model.patterns import part
from graph_agent.rules_model.reading import read_clause, without_politeness
from graph_agent.rules_model.references import PREPOSITIONS, as_plan, is_foreign, is_time, merged, read_reference
from graph_agent.rules_model.requests import (
    UNCLEAR,
    Add,
    Change,
    Complete,
    Delete,
    Offer,
    Reference,
    Request,
    Say,
    Show,
    Update,
)
from graph_agent.rules_model.splitting import read_message
from graph_agent.rules_model.wording import Clause, clause_of
from graph_agent.rules_model.words import ORDERS, QUESTION_WORDS

_T = TypeVar("_T")
Kind = Literal["offer", "absent", "what_to_add", "new_words", "which", "confirm"]


@cache
def _template(template: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(r"\{\}", "(.+)"))


_TEMPLATES: Final[tuple[tuple[Kind, str], ...]] = (
    ("offer", replies.OFFER_OR_FIND),
    ("offer", replies.OFFER_ITEMS),
    ("offer", replies.OFFER_REPORTED),
    ("offer", replies.OTHER_LIST),
    ("offer", replies.OFFER),
    ("what_to_add", replies.WHAT_TO_ADD),
    ("what_to_add", replies.TOO_LONG),
    ("new_words", replies.NEW_WORDS),
    ("absent", replies.NOT_ON_LIST),
    ("which", replies.NOT_FOUND),
    ("which", replies.NO_SUCH_PLACE),
    ("which", replies.WHICH_DELETED_FIRST.replace("should I delete first", "should I {} first")),
    ("which", replies.WHICH_SPECIFIC),
    ("which", replies.WHICH),
)
_CONFIRMATION: Final = re.compile(r"Delete[^']{0,40} '(.+)'\. Should I go ahead\?.*", re.DOTALL)
_MENTIONS: Final = (
    *((name.removesuffix("_task"), template) for name, template in replies.CHANGED.items()),
    ("complete", replies.ALREADY_DONE),
    ("show", replies.FOUND),
)
_DONE: Final = re.compile(r"^Done: deleted(?: task)?:?")
_LISTED: Final = re.compile(r"\d{1,3}\. (?:\[[ x]\] )?(.+)")


@dataclass(frozen=True, slots=True)
class Context:
    """`text`, `verb` and `options` belong to the question; `change` is the last change or what a confirmation asks for."""

    question: Kind | None = None
    text: str = ""
    items: tuple[str, ...] = ()
    verb: str = ""
    new_words: str = ""
    options: tuple[str, ...] = ()
    mentioned: str = ""
    change: str = ""
    listed: tuple[str, ...] = ()


def read_context(said: Sequence[str]) -> Context:
    """Return what the assistant's earlier texts leave open, the latest text last."""
    if not said:
        return Context()
    lines = said[-1].splitlines() or [""]
    change, mentioned = _mentioned(said)
    listed = next((found for text in reversed(said) if (found := _listed(text.splitlines()))), ())
    if confirmed := _CONFIRMATION.fullmatch(said[-1]):
        return Context("confirm", verb="delete", mentioned=confirmed[1], change="delete", listed=listed)
    options = _listed(lines)
    last = next((line for line in reversed(lines) if not _LISTED.fullmatch(line)), "")
    for kind, template in _TEMPLATES:
        asked = _template(template).fullmatch(last)
        if asked is None:
            continue
        groups = asked.groups()
        if kind == "which":
            verb, _, new = groups[-1].partition(" to '")
            return Context(
                kind,
                "",
                (),
                _NAMES.get(verb, ""),
                new.removesuffix("'"),
                options,
                mentioned,
                change,
                listed,
            )
        text = (groups[-1] if template == replies.OTHER_LIST else groups[0]) if groups else ""
        items = tuple(read.items) if isinstance(read := read_clause(clause_of(text)), Offer) else ()
        return Context(kind, text, items, mentioned=text if kind != "what_to_add" else mentioned, change=change, listed=listed)
    return Context(mentioned=mentioned, change=change, listed=listed)


_NAMES: Final = {"mark as done": "complete", "delete": "delete", "change": "update"}
_VERBS: Final[dict[str, type[Complete | Delete | Update]]] = {"mark as done": Complete, "delete": Delete, "change": Update}


def interpret(message: Clause, context: Context) -> tuple[Request, ...]:
    """Return the requests of the message, read in its context."""
    if context.question not in (None, "absent", "confirm") and part("NO").fullmatch(message.key.rstrip(" .!?")):
        return (Say("dropped"),)
    if context.question and (answer := _ANSWERS[context.question](message, context)) is not None:
        return answer
    if (corrected := _correction(message, context)) is not None:
        return corrected
    asked = part("WHAT_ABOUT").fullmatch(message.key.rstrip(" .!?"))
    if asked and (context.mentioned or context.listed):
        about = message.cut(*asked.span("about"))
        return (Show("pending") if part("WHOLE").fullmatch(about.key) else Show(about=about.text),)
    if context.mentioned and part("JUST_DONE").fullmatch(message.key.strip(" .!")):
        return (Complete(Reference(exact=context.mentioned)),)
    return tuple(_known(request, context) for request in read_message(message))


def _known(request: Request, context: Context) -> Request:
    """Return the request with what "it", "the other one" and "cancel that" mean; a question if that is not known."""
    match request:
        case Change(target) if target.other:
            others = [text for text in context.listed if text != context.mentioned]
            return replace(request, target=Reference(exact=others[0])) if len(others) == 1 else Say("which")
        case Change(target) if target.pronoun and not context.mentioned:
            return Say(f"which:{next(verb for verb, kind in _VERBS.items() if isinstance(request, kind))}")
        case Say("cancel_that") if context.question or not context.change:
            return Say("dropped")
        case Say("cancel_that"):
            return Delete(Reference(exact=context.mentioned)) if context.change == "add" else Say("undo")
        case Say("which_added"):
            return Add((context.mentioned,)) if context.mentioned else Say("which")
        case Update(target) if target.every:
            return Say("change_every")
        case _:
            return request


def _answer_offer(message: Clause, context: Context) -> tuple[Request, ...] | None:
    key = message.key.rstrip(" .!?")
    if context.items and part("EACH").fullmatch(key) and len(key) < 60:
        return (Add(context.items),)
    if part("YES").fullmatch(key):
        return (Add((context.text,)),)
    if len(key) < 60 and part("FIND").fullmatch(key) and len(key.split()) <= 6:
        return (Show(about=context.text),)
    return None


def _answer_absent(message: Clause, context: Context) -> tuple[Request, ...] | None:
    return (Add((context.text,)),) if part("ADD_IT").fullmatch(without_politeness(message).key.strip(" .!")) else None


def _answer_what_to_add(message: Clause, _context: Context) -> tuple[Request, ...] | None:
    text = _as_text(message)
    return None if text is None else (Add(tuple(filter(None, text.splitlines()))),)


def _answer_new_words(message: Clause, context: Context) -> tuple[Request, ...] | None:
    text = _as_text(message)
    return None if text is None else (Update(Reference(exact=context.text), new=text),)


def _as_text(message: Clause) -> str | None:
    """Return the message as the text of a task, unless it is a request, a question or small talk."""
    clause = without_politeness(message)
    clause = clause.cut(3) if clause.key.startswith("to ") else clause
    read = read_message(message)
    is_text = isinstance(read[0], Offer) or read[0] == UNCLEAR or (read[0] == Say("out_of_scope") and not _is_order(clause))
    return description(clause) if len(read) == 1 and is_text else None


def _is_order(clause: Clause) -> bool:
    """True for what certainly is something else, also after "What should I add?"."""
    first = clause.key.split()[0]
    foreign = is_foreign(clause) and (first in ORDERS or len(clause.key.split()) > 4)
    return foreign or first in QUESTION_WORDS or "?" in clause.key


def _answer_which(message: Clause, context: Context) -> tuple[Request, ...] | None:
    if context.verb and part("YES").fullmatch(message.key.rstrip(" .!?")) and not read_reference(message).places:
        # Before a deletion the user is asked again; else only a single option can be meant.
        chosen = context.options[:1] if context.verb == "delete" or len(context.options) == 1 else ()
        target = Reference(exact=chosen[0]) if chosen else Reference()
        return (_act(context.verb, target, context.new_words),)
    targets = _targets(message, context.options)
    if targets is None or not context.verb:
        return None
    return tuple(_act(context.verb, target, context.new_words) for target in targets)


def _answer_confirmation(message: Clause, context: Context) -> tuple[Request, ...] | None:
    """A message that reaches the model is no consent: it names another task, or it is another request."""
    found = part("NO_BUT").fullmatch(message.key.rstrip(" .!?")) or part("CORRECTION").fullmatch(message.key.rstrip(" .!?"))
    if not found:
        return None
    new = message.cut(*found.span("new"))
    reference = read_reference(new)
    if reference.places or isinstance(read_clause(new), Offer | Say):
        return (Delete(_placed(reference, context)),)
    return None


_ANSWERS: Final = {
    "offer": _answer_offer,
    "absent": _answer_absent,
    "what_to_add": _answer_what_to_add,
    "new_words": _answer_new_words,
    "which": _answer_which,
    "confirm": _answer_confirmation,
}


def _targets(message: Clause, options: tuple[str, ...]) -> list[Reference] | None:
    """Return the listed tasks that an answer names; None if it is no such answer."""
    clause = without_politeness(message)
    if found := re.match(r"(?:i mean(?:t)?|it's|its|number|option|no,|(?:start|begin|go) with)\s+", clause.key):
        clause = clause.cut(found.end())
    reference = read_reference(clause)
    if reference.places or reference.every:
        if not options:
            return [reference]
        places = reference.places or range(1, len(options) + 1)
        chosen = [option for place in places if (option := place_in(place, options)) is not None]
        return [Reference(exact=option) for option in chosen] or None
    if not isinstance(read_clause(clause), Offer | Say | Show) or not reference.words:
        return None
    if not options:
        return [reference] if isinstance(read_clause(clause), Offer) else None
    named, possible = find(reference.words, [Task(option, option, False) for option in options])
    matches = named or possible
    return [Reference(exact=matches[0].description)] if len(matches) == 1 else None


def _act(verb: str, target: Reference, new_words: str) -> Request:
    match verb:
        case "complete":
            return Complete(target)
        case "delete":
            return Delete(target)
        case _:
            return Update(target, new=new_words or None)


def _correction(message: Clause, context: Context) -> tuple[Request, ...] | None:
    key = message.key.rstrip(" .!?")
    asks = message.key.endswith("?") and context.change != "add"
    if found := None if asks else part("ANOTHER").fullmatch(key):
        new = message.cut(*found.span("new" if found["new"] else "more"))
        if context.change in {"complete", "delete"} and read_reference(new).other:
            return (_known(_another(new, context), context),)
        return (_another(new, context),) if context.change and _as_text(new) is not None else None
    if context.change == "complete" and part("NOT_THAT").fullmatch(key):
        return (Say("not_done"),)
    found = part("CORRECTION").fullmatch(key) if context.mentioned else None
    if found is None and (found := part("NO_BUT").fullmatch(key) if context.change else None):
        new = message.cut(*found.span("new"))
        same_start = new.key.partition(" ")[0] == context.mentioned.lower().partition(" ")[0]
        changed = context.change in {"add", "update"}
        moved = _is_phrase(new) or (changed and (new.key.partition(" ")[0] in PREPOSITIONS or is_time(new)))
        if not (moved or read_reference(new).places or (same_start and isinstance(read_clause(new), Offer))):
            return None
    new = message.cut(*found.span("new")) if found else without_politeness(message)
    if found is None and not (context.change in {"add", "update"} and is_time(new)):
        return None
    reworded = found is not None and bool(re.search(r"\b(?:change|make) (?:it|that)\b", key))
    if reworded and part("CLOCK").fullmatch(new.key):
        new = clause_of(f"at {new.text}")
    reference = read_reference(new)
    match "update" if reworded else context.change:
        case "add" | "update" if not reference.places:
            return (Update(Reference(exact=context.mentioned), new=merged(context.mentioned, description(new))),)
        case "complete":
            return Complete(_placed(reference, context)), Say("not_done")
        case "delete":
            return (Delete(_placed(reference, context)),)
        case _:
            return None


def _is_phrase(clause: Clause) -> bool:
    return isinstance(read := read_clause(clause), Offer) and read.bare and not read.items


def _another(new: Clause, context: Context) -> Request:
    target = _placed(read_reference(new), context)
    match context.change:
        case "complete":
            return Complete(target, instead=as_plan(new))
        case "delete":
            return Delete(target)
        case _:
            return Add((description(new),))


def place_in(number: int, options: Sequence[_T]) -> _T | None:
    """Return the option at a place that counts from 1, or from -1 backwards; None if there is none."""
    index = number if number < 0 else number - 1
    return options[index] if number and -len(options) <= index < len(options) else None


def _placed(reference: Reference, context: Context) -> Reference:
    if len(reference.places) == 1 and (option := place_in(reference.places[0], context.listed)) is not None:
        return Reference(exact=option)
    return reference


def _listed(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(found[1] for line in lines if (found := _LISTED.fullmatch(line)))


def _mentioned(said: Sequence[str]) -> tuple[str, str]:
    """Return the last change and the description that it was about."""
    for text in list(reversed(said))[:4]:
        if found := _CONFIRMATION.fullmatch(text):
            return "delete", found[1]
        for line in reversed(_DONE.sub("Deleted", text).splitlines()):
            for verb, template in _MENTIONS:
                if found := _template(template).fullmatch(line):
                    return verb, found[2] if verb == "update" else found[1]
    return "", ""
