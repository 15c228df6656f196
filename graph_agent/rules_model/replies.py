"""What the adapter says. No tool's name and no id is in any of it."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.rules_model.conversation import Deed
from graph_agent.rules_model.intents import Show
from graph_agent.rules_model.matching import Task, find, shortened

MAX_SHOWN = 100

_ABILITIES = (
    'I can help you with your tasks: add one ("remind me to call mom"), show your list, mark a task as done, change its words, '
    "or delete one after asking you."
)
CHAT = {
    "greeting": "Hello! How can I help you with your tasks today?",
    "how_are_you": "I'm doing well, thank you! How can I help you with your tasks?",
    "capabilities": _ABILITIES,
    "identity": "I'm your task assistant: I keep your list of tasks.",
    "joke": "Why did the to-do list go to therapy? It had too many unresolved items. Jokes aside, tasks are what I'm good at.",
    "thanks": "You're welcome!",
    "goodbye": "Goodbye! Your list will be here when you come back.",
    "praise": "Thank you! Let me know what else I can do for your list.",
    "yes": "There is nothing waiting for your confirmation. What would you like to do with your tasks?",
    "no": "All right. There is nothing waiting for your confirmation, and nothing was changed.",
    "unsure": "No hurry. Tell me when you'd like to do something with your tasks.",
    "dropped": "All right, nothing was changed.",
}
_ONLY_TASKS = "I can only help with task management: adding, showing, completing, changing and deleting tasks on your list."
REFUSALS = {
    "out_of_scope": f"I'm sorry, I can't help with that. {_ONLY_TASKS}",
    "everything": "I can't delete everything at once. I can delete one task at a time, and I ask before I do.",
    "change_everything": "I can't change all tasks at once, only one task at a time. Tell me which one.",
    "language": f"I'm sorry, I only understand English. {_ONLY_TASKS}",
    "unreadable": f"I'm sorry, I couldn't read that. {_ONLY_TASKS}",
}
WHICH_ITEM = "Which specific task are you referring to? Please name it, or tell me its number on your list."
WHAT_WITH_IT = "What would you like me to do with that task: mark it as done, change it or delete it?"
TOO_LONG = "That is too long for one task: 1,000 characters at most. How would you put it in short?"
ONE_AT_A_TIME = "I delete one task at a time, so that nothing is lost by accident."
UNAVAILABLE = "I'm sorry, that isn't possible here."
UNREADABLE_LIST = "I couldn't read your task list just now. Please try again."
UNCLEAR_LIST = "I couldn't read your task list in time. Please try again."

_PAST = {
    "add_task": (
        "Added '{}' to your list.",
        "I couldn't add '{}'.",
        "I don't know whether '{}' was added: please look at your list before you try again.",
    ),
    "complete_task": (
        "Marked '{}' as done.",
        "I couldn't mark '{}' as done.",
        "I don't know whether '{}' was marked as done: please look at your list before you try again.",
    ),
    "update_task": (
        "Changed '{}' to '{}'.",
        "I couldn't change '{}'.",
        "I don't know whether '{}' was changed: please look at your list before you try again.",
    ),
    "delete_task": (
        "Deleted '{}'.",
        "I couldn't delete '{}'.",
        "I don't know whether '{}' was deleted: please look at your list before you try again.",
    ),
}


def told(deed: Deed, subject: str) -> str:
    """What became of a change; `subject` is the description it was about."""
    succeeded, failed, unknown = _PAST[deed.name]
    if deed.success:
        new = str(deed.arguments.get("description", ""))
        return succeeded.format(shortened(subject), shortened(new))
    return (unknown if deed.unknown else failed).format(shortened(subject))


def listed(show: Show, tasks: Sequence[Task]) -> str:
    """The list, or the answer to what was asked about it."""
    if show.about is not None:
        return _answer(show.about, tasks)
    chosen = [task for task in tasks if show.status is None or task.completed == (show.status == "completed")]
    kind = f"{show.status} " if show.status else ""
    if not chosen:
        if show.status:
            return f"You have no {kind}tasks."
        return "Your list is empty: you have no tasks yet."
    head = f"You have {len(chosen)} {kind}task{'' if len(chosen) == 1 else 's'}:"
    lines = [f"{number}. [{'x' if task.completed else ' '}] {task.shown}" for number, task in enumerate(chosen[:MAX_SHOWN], 1)]
    more = [f"... and {len(chosen) - MAX_SHOWN} more."] if len(chosen) > MAX_SHOWN else []
    return "\n".join([head, *lines, *more])


def _answer(about: str, tasks: Sequence[Task]) -> str:
    found = find(about, tasks)
    matches = found.sure or found.possible
    if not matches:
        return f"No, I don't see '{shortened(about)}' on your list."
    if len(matches) == 1:
        task = matches[0]
        state = "marked as done" if task.completed else "still to do"
        if found.sure:
            return f"Yes, '{task.shown}' is on your list, and {state}."
        return f"Something like that is on your list: '{task.shown}', {state}."
    lines = [f"{number}. [{'x' if task.completed else ' '}] {task.shown}" for number, task in enumerate(matches[:MAX_SHOWN], 1)]
    return "\n".join([f"{'Yes, ' if found.sure else ''}I see {len(matches)} tasks like that:", *lines])
