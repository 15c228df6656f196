"""The context of a message: the question that the assistant asked last, and the tasks that were mentioned last.

The adapter is stateless. The context is read from the assistant's earlier texts, with the templates that composed them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, TypeVar

from graph_agent.llm.rules_model import replies
from graph_agent.llm.rules_model.adding import description, texts_of
from graph_agent.llm.rules_model.matching import KnownTask, find
from graph_agent.llm.rules_model.patterns import matches, part
from graph_agent.llm.rules_model.questions import words_of
from graph_agent.llm.rules_model.reading import read_clause, without_politeness
from graph_agent.llm.rules_model.references import (
    PREPOSITIONS,
    as_plan,
    is_foreign,
    is_time,
    merged,
    read_reference,
    starts_with_action,
)
from graph_agent.llm.rules_model.requests import (
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
from graph_agent.llm.rules_model.splitting import read_message
from graph_agent.llm.rules_model.wording import Clause, clause_of
from graph_agent.llm.rules_model.words import DIGITAL, QUESTION_WORDS, SAYINGS
from graph_agent.reply.fixed import question

_T = TypeVar("_T")
_Change = Complete | Delete | Update
Requests = tuple[Request, ...]

_NONE: Final = Reference()
_VERBS: Final[dict[str, _Change]] = {"mark as done": Complete(_NONE), "delete": Delete(_NONE), "change": Update(_NONE)}
_CONFIRMATION: Final = question("Delete '{}'")
_REPORTS: Final[dict[str, Request]] = {
    replies.CHANGED["add_task"]: Add(),
    replies.CHANGED["complete_task"]: Complete(_NONE),
    replies.ALREADY_DONE: Complete(_NONE),
    replies.CHANGED["update_task"]: Update(_NONE),
    replies.CHANGED["delete_task"]: Delete(_NONE),
    "Done: deleted '{}'.": Delete(_NONE),
    _CONFIRMATION: Delete(_NONE),
    replies.FOUND: Show(),
    replies.NOT_ON_LIST: Show(),
}
_QUESTIONS: Final = {
    "confirm": (_CONFIRMATION,),
    "offer": (replies.OFFER_OR_FIND, replies.OFFER_ITEMS, replies.OFFER_REPORTED, replies.OFFER),
    "what_to_add": (replies.WHAT_TO_ADD, replies.TOO_LONG),
    "new_words": (replies.NEW_WORDS,),
}
"""The questions, by the tables of the cues that have the answers."""
_WHICH: Final = re.compile(r"(?:should I|the task to) (mark as done|delete|change)(?: to '(.+)')?(?: first)?[?.]$")
_LISTED: Final = re.compile(r"^\d{1,3}\. (?:\[[ x]\] )?(.+)", re.MULTILINE)
_MAX_AGE: Final = 4
"""The number of texts in which the last change is looked for."""


@dataclass(frozen=True, slots=True)
class Context:
    """`text`, `wanted` (without its target) and `options` belong to the question; `change` was made or is to be confirmed.

    `mentions` are the tasks of the latest texts, the last one last; `together` those of the very latest text.
    """

    question: str = ""
    text: str = ""
    wanted: _Change | None = None
    options: tuple[str, ...] = ()
    change: Request | None = None
    mentions: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()

    @property
    def mentioned(self) -> str:
        return self.mentions[-1] if self.mentions else ""


def read_context(said: Sequence[str]) -> Context:
    """Return what the assistant's earlier texts leave open, the latest text last."""
    latest = said[-1] if said else ""
    reports = [report for text in said[-_MAX_AGE:] for report in _reports(text)]
    change, mentions = reports[-1][0] if reports else None, _distinct(task for _, task in reports)
    together = tuple(task for _, task in _reports(latest))
    shown = _LISTED.findall(latest)
    if len(shown) == 1:
        mentions = _distinct((*mentions, *shown))
    listed = next(filter(None, (_LISTED.findall(text) for text in reversed(said))), together if len(together) > 1 else ())
    context = Context(change=change, mentions=mentions, together=together, listed=tuple(listed))
    # What a list shows asks nothing, although the text of a task may look like a question.
    asked = _LISTED.sub("", latest).rstrip().rpartition("\n")[2]
    if found := _WHICH.search(asked):
        wanted = Update(_NONE, new=found[2]) if found[2] else _VERBS[found[1]]
        return replace(context, question="which", wanted=wanted, options=tuple(_LISTED.findall(latest)))
    for kind, template in ((kind, template) for kind, templates in _QUESTIONS.items() for template in templates):
        if found := _pattern(template).search(asked):
            text = found[1] if found.re.groups else ""
            return replace(context, question=kind, text=text, mentions=(text,) if text else mentions)
    return context


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts in the order in which they occur last."""
    return tuple(reversed(dict.fromkeys(reversed(list(texts)))))


def _reports(text: str) -> list[tuple[Request, str]]:
    """Return the changes that a text reports or asks about, each with the description of its task."""
    return [
        (change, found[2 if isinstance(change, Update) else 1])
        for line in text.splitlines()
        for template, change in _REPORTS.items()
        if (found := _pattern(template).match(line))
    ]


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(r"\{\}", "(.+)") + "$")


def interpret(message: Clause, context: Context) -> Requests:
    """Return the requests of the message, read in its context."""
    tables = ("question", context.question, "follow_up") if context.question else ("follow_up",)
    read = (
        _in_context(form, groups["new"], context)
        for table in tables
        for clause in (without_politeness(message), message)
        for form, groups in matches(clause, table)
    )
    requests = next(filter(None, read), ()) or read_message(message)
    together = context.mentions[-2:] if re.search(r"\bboth\b", message.key) else context.together
    together = together if len(together) > 1 and part("TOGETHER").search(message.key) else ()
    return tuple(known for request in requests for known in _known(request, context, together))


def _in_context(form: str, new: Clause, context: Context) -> Requests:
    """Return the requests of a form of `cues/answers.txt`; nothing if the context, such as the last change, does not fit."""
    target, first = read_reference(new), new.key.partition(" ")[0]
    match form, context.change:
        case "dropped", _:
            return (Say("dropped"),)
        case _ if form != "chosen" and target.words and SAYINGS.issuperset(words_of(new.key)):
            return ()
        case "each", _ if isinstance(offer := read_clause(clause_of(context.text)), Offer) and offer.items:
            return (Add(offer.items),)
        case "accepted", _:
            return (Add((context.text,)),)
        case "looked_for", _:
            return (Show(about=context.text),)
        case "text", _ if _is_text(new):
            return (Add(texts_of(new)),)
        case "new_words", _ if _is_text(new):
            return (Update(Reference(exact=context.text), new=description(new)),)
        case "chosen", _ if context.wanted:
            return tuple(replace(context.wanted, target=one) for one in _chosen(new, context.wanted, context.options))
        case "named", _ if target.places or target.other or isinstance(read_clause(new), Offer):
            return (Delete(target),)
        case "agreed", _ if isinstance((read := read_message(new))[0], Add | Change | Show):
            return Delete(Reference(exact=context.mentioned)), *read
        case "cancelled", Add():
            return (Delete(Reference(exact=context.mentioned)),)
        case "cancelled", Complete() | Delete() | Update():
            return (Say("undo"),)
        case ("added", _) | ("back", Delete()) if context.mentioned:
            return (Add((context.mentioned,)),)
        case "asked", _ if new.message.endswith("?") and target.words and context.mentions + context.listed and _is_text(new):
            return (Show(about=target.words),)
        case "another" | "asked", _ if new.message.endswith("?"):
            return ()
        case "another", _ if context.question == "offer" and new.start and _is_text(new):
            return Add((context.text,)), Add(texts_of(new))
        case "corrected" | "retimed" | "reworded", _ if context.question == "offer" and not (target.places or target.pronoun):
            return (Add((_merged(new, context),)),)
        case "another", Complete() | Delete() if not (target.other or _is_text(new)):
            return ()
        case "instead", _ if not _replaces(new, context):
            return ()
        case "another" | "corrected" | "instead", Delete():
            return (Delete(target),)
        case "another", Complete():
            return (Complete(target, as_plan(new)),)
        case "corrected" | "instead", Complete():
            return Complete(target), Say("not_done")
        case "not_done", Complete():
            return (Say("not_done"),)
        case "not_done", Add() if new.key:
            return (Delete(target),)
        case "another", Add() if part("NOTHING").fullmatch(new.key):
            return (Add(),)
        case "another", Add() | Update() | Show() if _is_text(new):
            return (Offer(description(new)) if part("STATEMENT").search(new.key) else Add(texts_of(new)),)
        case "meant", Add() | Update() if _is_text(new) and not context.question:
            return _reworded(new, context)
        case "extended", Add() | Update() if not context.question and first in {"for", "with", *context.mentioned.split()}:
            # "Thanks for the help" adds nothing.
            return () if part("THANKS").match(new.message.casefold()) else _reworded(new, context)
        case "corrected" | "instead" | "retimed", Add() | Update() if not target.places or (
            new.key.isdigit() and re.search(r"\d", context.mentioned)
        ):
            return _reworded(new, context)
        case "appended", _ if context.mentioned:
            return (Update(Reference(exact=context.mentioned), new=f"{context.mentioned} {description(new)}"),)
        case "reworded", _ if context.mentioned:
            return _reworded(new, context)
        case "asked_about", _ if (context.mentioned or context.listed) and not is_foreign(new, DIGITAL):
            return (Show("pending") if part("WHOLE").fullmatch(new.key) else Show(about=new.text),)
        case "done", _ if context.mentioned:
            return (Complete(Reference(pronoun=True)),)
        case _:
            return ()


def _is_text(clause: Clause) -> bool:
    """True if the clause can be the text of a task: no clear request, and no question or small talk."""
    match read_message(clause):
        case (Offer() | Say("unclear"),):
            return True
        case (Say("out_of_scope"),):
            first, *others = clause.key.split()
            return first not in QUESTION_WORDS and (len(others) < 4 or starts_with_action(clause))
        case _:
            return False


def _chosen(new: Clause, wanted: _Change, options: tuple[str, ...]) -> Sequence[Reference]:
    """Return the tasks that an answer names; nothing if it is no such answer."""
    reference, read = read_reference(new), read_message(new)[0]
    if reference.places:
        return [reference]
    if reference.every:
        return [Reference(exact=option) for option in options] or [reference]
    if part("YES").fullmatch(new.key.rstrip(" .!?")) and not new.message.casefold().startswith("no"):
        # Before a deletion the user is asked again; else only a single option can be meant.
        sure = options and (isinstance(wanted, Delete) or len(options) == 1)
        return [Reference(exact=options[0]) if sure else Reference()]
    if not reference.words or not isinstance(read, Offer | Say | Show):
        return ()
    if not options:
        return [reference] if isinstance(read, Offer) or (read == UNCLEAR and new.key.count(" ") < 3) else ()
    tasks = [KnownTask(option, option, False) for option in options]
    found = [find(reference.words, tasks)]
    if sum(map(len, found[0])) > 1:
        found = [find(words, tasks) for words in re.split(r"\s*(?:\band\b|,)\s*", reference.words)]
    matching = [one for named, possible in found for one in named or possible]
    if new.key.startswith("not "):
        kept = {task.description for task in matching}
        return [Reference(exact=option) for option in options if option not in kept] if kept else ()
    return [Reference(exact=task.description) for task in matching] if len(matching) == len(found) else ()


def _replaces(new: Clause, context: Context) -> bool:
    """True if what follows a bare "no" corrects the change; it may as well be a new request."""
    first, reference, read = new.key.partition(" ")[0], read_reference(new), read_clause(new)
    moved = isinstance(context.change, Add | Update) and (first in PREPOSITIONS or is_time(new))
    same_start = first == context.mentioned.lower().partition(" ")[0]
    named = isinstance(read, Offer) and (same_start or read.bare)
    return moved or named or bool(reference.places) or reference.other


def _reworded(new: Clause, context: Context) -> Requests:
    if read_reference(new).pronoun:
        return ()
    return (Update(Reference(exact=context.mentioned), new=_merged(new, context)),)


def _merged(new: Clause, context: Context) -> str:
    if part("CLOCK").fullmatch(new.key.rstrip(" .!")):
        new = clause_of(f"at {new.text}")
    return merged(context.mentioned, description(new))


def _known(request: Request, context: Context, together: tuple[str, ...]) -> Requests:
    """Return the request with what "it", "both" and "the other one" mean; a question if that is not known."""
    match request:
        case Complete(target) | Delete(target) | Update(target) if target.other:
            others = [[text for text in texts if text != context.mentioned] for texts in (context.listed, context.mentions)]
            one = next((texts[0] for texts in others if len(texts) == 1), None)
            return (replace(request, target=Reference(exact=one)) if one else Say("which"),)
        case Complete(target) | Delete(target) if together and (target.pronoun or target.places == (1, 2)):
            return tuple(replace(request, target=Reference(exact=text)) for text in together)
        case Complete(target) | Delete(target) | Update(target) if target.pronoun and not context.mentioned:
            return (Say(f"which:{next(verb for verb, change in _VERBS.items() if type(change) is type(request))}"),)
        case Update(target) if target.every:
            return (Say("change_every"),)
        case _:
            return (request,)


def place_in(number: int, options: Sequence[_T]) -> _T | None:
    """Return the option at a place that counts from 1, or from -1 backwards; None if there is none."""
    index = number if number < 0 else number - 1
    return options[index] if number and -len(options) <= index < len(options) else None
