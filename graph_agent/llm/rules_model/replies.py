"""The texts that the model says. They contain neither tool names nor ids.

`dialogue` reads the templates back from earlier replies, so each of them fills one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from graph_agent.llm.rules_model.matching import KnownTask, find
from graph_agent.llm.rules_model.requests import Offer, Show, Status
from graph_agent.llm.rules_model.wording import shown
from graph_agent.models.llm import FunctionCall
from graph_agent.reply.forms import ANSWER, ASK_USER, DECLINE

MAX_CHANGES: Final = 9
MAX_SHOWN: Final = 100
WHAT_TO_ADD: Final = "What should I add?"
TOO_LONG: Final = "That is too long for one task: 1,000 characters at most. How would you put it in short?"
NEW_WORDS: Final = "What should '{}' say instead?"
OFFER: Final = "Would you like me to add '{}' as a task?"
OFFER_OR_FIND: Final = "Would you like to add '{}' as a new task, or are you looking for an existing task about {}?"
OFFER_ITEMS: Final = "Would you like to add '{}' as one task or as {} separate tasks, or are you looking for existing ones?"
OFFER_REPORTED: Final = "I don't see '{}' on your list. Would you like me to add it as a task?"
OTHER_LIST: Final = "I keep only one list, your tasks, and not '{}'. Would you like me to add '{}' as a task?"
WHICH: Final = "Which task should I {}?"
WHICH_DELETED_FIRST: Final = "I delete one task at a time, and I ask before each. Which task should I delete first?"
NOT_FOUND: Final = "I don't see '{}' on your list. Which task should I {}?"
NO_SUCH_PLACE: Final = "There is no task number {} on your list. Which task should I {}?"
NOT_ON_LIST: Final = "No, I don't see '{}' on your list."
FOUND: Final = "'{}' is on your list, {}."
ALREADY_DONE: Final = "'{}' is already marked as done."
ALREADY_ADDED: Final = "'{}' was on your list already."
CHANGED: Final = {
    "add_task": "Added '{}' to your list.",
    "complete_task": "Marked '{}' as done.",
    "update_task": "Changed '{}' to '{}'.",
    "delete_task": "Deleted '{}'.",
}
_EXAMPLES: Final = (
    '"add call mom", "show my tasks", "mark call mom as done", "rename call mom to call dad" or "delete call mom"'
)
_ONLY_TASKS: Final = (
    "I can only help with task management: adding, showing, completing, changing and deleting tasks on your list."
)
_ANSWERS: Final = {
    "greeting": "Hello! How can I help you with your tasks today?",
    "how_are_you": "I'm doing well, thank you! How can I help you with your tasks?",
    "capabilities": 'I can help you with your tasks: add one ("remind me to call mom"), show your list, mark a task as done, '
    "change its words, or delete one after asking you.",
    "how_to": f"You do it by telling me. You can say {_EXAMPLES}.",
    "identity": "I'm your task assistant: I keep your list of tasks.",
    "joke": "Why did the to-do list go to therapy? It had too many unresolved items. Jokes aside, tasks are what I'm good at.",
    "thanks": "You're welcome!",
    "goodbye": "Goodbye! Your list will be here when you come back.",
    "praise": "Thank you! Let me know what else I can do for your list.",
    "yes": "There is nothing waiting for your confirmation. What would you like to do with your tasks?",
    "no": "All right. There is nothing waiting for your confirmation, and nothing was changed.",
    "unsure": "No hurry. Tell me when you'd like to do something with your tasks.",
    "dropped": "All right, nothing was changed.",
    "undo": "I can't undo a change. I can add a deleted task again, or change the words of a task: tell me which.",
    "not_done": "I can't mark a task as not done again. I can add it again as a new task, if you tell me to.",
    "dates": "I keep dates as text and cannot sort by them, so I don't know what is due. I can show your whole list.",
    "priority": "I don't keep priorities, so I can't tell which task matters most. I can show your whole list.",
    "sorting": "I can't sort or group your tasks. I show the newest one first.",
    "no_alarm": "I have no alarm and won't alert you. I only keep tasks, with their times as text.",
    "others": "I can only see your own tasks, not those of other people.",
    "remind_other": 'I can only remind you: I keep your own tasks. You can say "add" and what you want to do.',
    "other_list": "I keep only one list, your tasks, and no other lists. I can show it or add something to it.",
    "too_many": f"I make at most {MAX_CHANGES} changes for one message. Please ask again for the rest.",
    "not_deleted": "I have not deleted anything yet.",
    "not_read:": "I didn't understand '{}'.",
    "list_failed": "I couldn't read your task list just now. Please try again.",
}
_QUESTIONS: Final = {
    "unclear": f"I didn't understand that. You can say {_EXAMPLES}.",
    "which": "Which specific task are you referring to? Please name it, or tell me its number on your list.",
    "which:": "Which specific task are you referring to? Please tell me the name or the number of the task to {}.",
    "change_every": "I can't change all tasks at once. Which ones do you mean, by name or number?",
}
_REFUSALS: Final = {
    "out_of_scope": f"I'm sorry, I can't help with that. {_ONLY_TASKS}",
    "alarm": f"I'm sorry, I have no alarms and no timers. {_ONLY_TASKS}",
    "no_tasks_here": "I'm sorry, I know only tasks, and no task list is connected here.",
    "unavailable": "I'm sorry, that isn't possible here.",
    "delete_every": "I can't delete everything at once. I can delete one task at a time, and I ask before I do.",
    "language": f"I'm sorry, I only understand English. {_ONLY_TASKS}",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, or a part of one: `form` is the reply form that declares its kind, `reason` says why a question is asked."""

    form: str
    text: str
    reason: str = ""
    reports_change: bool = False


def answer(template: str, *values: str) -> Reply:
    return Reply(ANSWER, template.format(*map(shown, values)))


def ask(template: str, *values: str, reason: str = "missing_context") -> Reply:
    return Reply(ASK_USER, template.format(*map(shown, values)), reason)


def fixed(kind: str) -> Reply:
    """Return the reply of a kind; what follows a colon fills its template."""
    name, colon, detail = kind.partition(":")
    name += colon
    if name in _QUESTIONS:
        return ask(_QUESTIONS[name], detail, reason="unclear_intent" if name == "unclear" else "missing_context")
    return Reply(DECLINE, _REFUSALS[name]) if name in _REFUSALS else answer(_ANSWERS[name], detail)


def offer(offered: Offer) -> Reply:
    """Ask if something that could be a task is to be added."""
    if offered.other_list:
        return ask(OTHER_LIST, offered.other_list, offered.text, reason="unclear_intent")
    if len(offered.items) > 1:
        return ask(OFFER_ITEMS, offered.text, str(len(offered.items)), reason="unclear_intent")
    return ask(OFFER_OR_FIND if offered.bare else OFFER, offered.text, offered.text, reason="unclear_intent")


def which(tasks: Sequence[KnownTask], verb: str, question: str = WHICH) -> Reply:
    """Ask which of the tasks is meant."""
    return Reply(ASK_USER, f"{question.format(verb)}\n{_numbered([task.shown for task in tasks])}", "multiple_matches")


def report(call: FunctionCall, task: KnownTask | None, response: dict[str, Any]) -> Reply:
    """Report the response to a change of `task`, or to the addition of a new one."""
    new, verb = call.arguments.get("description", ""), call.name.removesuffix("_task")
    subject = task.description if task else new
    if response.get("success") is True:
        return answer(CHANGED[call.name], subject, new)
    if response.get("error_code") in {"TIMEOUT_ERROR", "UNKNOWN_ERROR"}:
        return answer("I don't know if I could {} '{}'. Please look at your list before you try again.", verb, subject)
    return answer("I couldn't {} '{}'.", verb, subject)


def of_status(tasks: Sequence[KnownTask], status: Status | None) -> tuple[KnownTask, ...]:
    """Return the tasks of this status; all of them without one."""
    return tuple(task for task in tasks if status in {None, "completed" if task.completed else "pending"})


def listing(show: Show, tasks: Sequence[KnownTask]) -> Reply:
    """Return the list, or the tasks that were asked about."""
    if show.about is not None:
        named, possible = find(show.about, tasks)
        found = named or possible
        if len(found) > 1:
            return Reply(ANSWER, f"I see {len(found)} tasks like that:\n{_with_boxes(found)}")
        states = ["marked as done" if task.completed else "still to do" for task in found]
        return answer(FOUND, found[0].description, *states) if found else answer(NOT_ON_LIST, show.about)
    found, kind = of_status(tasks, show.status), f"{show.status} " if show.status else ""
    if not found:
        return answer(f"You have no {kind}tasks." if kind else "Your list is empty: you have no tasks yet.")
    note = "\n(I keep dates as text and cannot sort or filter by them.)" if show.dated else ""
    plural = "" if len(found) == 1 else "s"
    return Reply(ANSWER, f"You have {len(found)} {kind}task{plural}:\n{_with_boxes(found)}{note}")


def _with_boxes(tasks: Sequence[KnownTask]) -> str:
    return _numbered([f"[{'x' if task.completed else ' '}] {task.shown}" for task in tasks])


def _numbered(items: Sequence[str]) -> str:
    lines = [f"{place}. {item}" for place, item in enumerate(items[:MAX_SHOWN], 1)]
    return "\n".join([*lines, f"... and {len(items) - MAX_SHOWN} more."] if len(items) > MAX_SHOWN else lines)
