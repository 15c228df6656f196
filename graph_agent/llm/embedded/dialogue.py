"""The context of a message, and the replies: the question that is open, the task that was mentioned, the list that was shown.

The adapter is stateless. The context is read from the assistant's earlier texts, with the templates that composed them.
These are in `lists.yaml`; they contain neither tool names nor ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from graph_agent.llm.embedded.reading import Reading, added, parts_of
from graph_agent.llm.embedded.references import KnownTask, find_named, share_a_word, shown
from graph_agent.llm.embedded.templates import begins_with, is_rule, responses
from graph_agent.models.llm import FunctionCall
from graph_agent.reply.fixed import DRY_RUN, question
from graph_agent.reply.forms import ANSWER, ASK_USER

MAX_SHOWN: Final = 100
VERBS: Final = {"Complete": "mark as done", "Delete": "delete", "Update": "change"}
_INTENTS: Final = {verb: intent for intent, verb in VERBS.items()}
_CONFIRMATION: Final = {"text": question("Delete task '{}'"), "opens": "confirm", "last": "seen"}
_NUMBERED: Final = re.compile(r"\d{1,3}\. (?:\[[ x]\] )?(.+)")
_EXAMPLES: Final = {
    "add": "add call mom", "remind": "remind me to call mom", "show": "show my tasks", "list": "show my tasks",
    "done": "mark call mom as done", "finish": "complete task 2", "mark": "mark call mom as done", "delete": "delete call mom",
    "remove": "delete task 2", "change": "rename call mom to call dad", "rename": "rename task 2 to call dad",
}  # fmt: skip
"""Examples of what can be said, by a word that the user may have in mind."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, or a part of one: `form` is the reply form that declares its kind, `reason` says why a question is asked."""

    form: str
    text: str
    reason: str = ""
    reports_change: bool = False


def answer(name: str, *values: str) -> Reply:
    return Reply(ANSWER, responses()[name]["text"].format(*map(shown, values)))


def ask(name: str, *values: str, reason: str = "missing_context") -> Reply:
    return Reply(ASK_USER, answer(name, *values).text, reason)


def which(tasks: Sequence[KnownTask], verb: str, name: str = "which") -> Reply:
    """Ask which of the tasks is meant."""
    options = _numbered([shown(task.description) for task in tasks])
    return Reply(ASK_USER, f"{ask(name, verb).text}\n{options}", "multiple_matches")


def not_understood(message: str, part: str = "") -> Reply:
    """Say so, name the part that was not understood, and give two examples, nearest to the words of the message first."""
    near = [example for word, example in _EXAMPLES.items() if word in message.lower()]
    examples = list(dict.fromkeys([*near, _EXAMPLES["add"], _EXAMPLES["show"]]))[:2]
    return ask("part_not_read" if part else "not_read", *filter(None, [part]), *examples, reason="unclear_intent")


def report(call: FunctionCall, task: KnownTask | None, response: dict[str, Any]) -> Reply:
    """Report the response to a change of `task`, or to the addition of a new one."""
    new, verb = call.arguments.get("description", ""), call.name.removesuffix("_task")
    subject = task.description if task else new
    if response.get("success") is True:
        return answer(call.name, subject, new)
    if response.get("error_code") in {"TIMEOUT_ERROR", "UNKNOWN_ERROR"}:
        return answer("outcome_unknown", verb, subject)
    if str(response.get("error", "")).startswith(DRY_RUN):
        return answer("nothing_yet")
    return answer("failed", verb, subject)


def listing(tasks: Sequence[KnownTask], status: str, about: str, *, whole: bool) -> Reply:
    """Show the tasks of a status, or those with some words; all of them without either. `whole`: these are all tasks."""
    found = [task for task in tasks if status in {"", "completed" if task.completed else "pending"}]
    found = find_named(about, found) if about else found
    if not found:
        return answer("not_on_list", about) if about else answer("none", status) if status else answer("empty")
    if about and len(found) == 1:
        return answer("found", found[0].description, "marked as done" if found[0].completed else "still to do")
    boxes, kind, plural = ("[ ] ", "[x] "), f"{status} " if status else "", "" if len(found) == 1 else "s"
    head = (
        f"I see {len(found)} tasks like that:"
        if about
        else f"{'You have' if whole else 'I see'} {len(found)} {kind}task{plural}:"
    )
    return Reply(ANSWER, f"{head}\n{_numbered([boxes[task.completed] + shown(task.description) for task in found])}")


def _numbered(items: Sequence[str]) -> str:
    lines = [f"{place}. {item}" for place, item in enumerate(items[:MAX_SHOWN], 1)]
    return "\n".join([*lines, f"... and {len(items) - MAX_SHOWN} more."] if len(items) > MAX_SHOWN else lines)


@dataclass(slots=True)
class Context:
    """`facts` are what templates may require, `values` fill the open question, `options` are listed below it."""

    facts: dict[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    options: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    mentioned: str = ""


def read_context(said: Sequence[str]) -> Context:
    """Return the context of the next message. Only the latest text, `said[-1]`, opens a question."""
    context = Context()
    for text in said:
        # A task may look like a question, so a numbered line never is one.
        lines = [(line, _NUMBERED.fullmatch(line)) for line in text.split("\n")]
        items, plain = [found[1] for _, found in lines if found], [line for line, found in lines if not found]
        context = Context({}, (), items, items or context.listed, items[0] if len(items) == 1 else context.mentioned)
        for line in plain:
            if read := _match(line, "last"):
                context.facts["last"], (old, *new) = read
                context.mentioned = new[-1] if read[0] == "changed" else old
                context.listed = [context.mentioned if item == old else item for item in context.listed]
        if plain and (read := _match(plain[-1], "opens")):
            context.facts["open"], context.values = read
    return context


def _match(line: str, key: str) -> tuple[str, tuple[str, ...]] | None:
    """Return what the reply `line` opens, or what it reports, and what its text is about."""
    matches = ((one.get(key), _pattern(one["text"]).fullmatch(line)) for one in (*responses().values(), _CONFIRMATION))
    return next(((kind, found.groups()) for kind, found in matches if kind and found), None)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(r"\{\}", "(.+?)"))


def resolve(one: Reading, context: Context) -> list[Reading | Reply]:
    """Turn an answer, or a reference to what was said before, into a request of its own."""
    asked, values, slots = context.facts.get("open"), context.values, one.slots
    match one.intent:
        case "Agree" if asked == "match":
            return [Reading(_INTENTS[values[2]], {"exact": values[1]})]
        case "Agree" if asked == "items":
            return [ask("offer_items", *values, reason="unclear_intent")]
        case "Agree" | "Together" if one.fits:
            return [added(values[0] if asked == "items" else values[-1])]
        case "Separately":
            return [added(item) for item in parts_of(values[0])]
        case "AnswerText" if asked == "new_words":
            # Words that share nothing with the old ones go on to another thing.
            answered = share_a_word(values[0], slots["task"])
            return [Reading("Update", {"exact": values[0], "new": slots["task"]}) if answered else not_understood("rename")]
        case "AnswerText" | "More":
            return [Reading("Add", {"text": slots.get("task") or slots["few"]}, {"one": True})]
        case "AnswerRef":
            verb = {"confirm": "Delete", "which": _INTENTS.get(values[-1] if values else "", "Delete")}.get(
                asked or "", "Complete"
            )
            return [Reading(verb, slots, {"among": context.options})]
        case "Correct":
            return [_correction(context.mentioned, slots["new"])]
        case "Complete" | "Delete" | "Update" if one.fits or is_rule("pronoun", slots.get("ref", "")):
            if not context.mentioned:
                return [ask("which_to", VERBS[one.intent])]
            return [Reading(one.intent, {"exact": context.mentioned, "new": slots.get("new", "")}, {"guessed": True})]
        case _:
            return [one]


def _correction(old: str, new: str) -> Reading | Reply:
    """Return the change that "I meant oat milk" makes; a question if it is not clear which words it replaces."""
    words, text = old.split(), new
    if new.split()[0].lower() != words[0].lower():
        text = f"{words[0]} {new}" if len(words) == 2 and begins_with("chores", old) else ""
    clear = text and not old.endswith("…") and "not" not in text.split()
    return Reading("Update", {"exact": old, "new": text}) if clear else ask("new_words", old)
