"""The replies that are composed; the texts are in `lists.yaml`. They contain neither tool names nor ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from graph_agent.llm.rules_model.references import KnownTask, find_named, shown
from graph_agent.llm.rules_model.templates import responses
from graph_agent.models.llm import FunctionCall
from graph_agent.reply.forms import ANSWER, ASK_USER

MAX_SHOWN: Final = 100
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
