"""The texts that the model says. They contain neither tool names nor ids.

`dialogue` reads the templates back from earlier replies, so each of them fills one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graph_agent.rules_model.conversation import MadeCall
from graph_agent.rules_model.matching import Task, containing, find
from graph_agent.rules_model.requests import Show
from graph_agent.rules_model.wording import shown

MAX_SHOWN: Final = 100

_EXAMPLES: Final = (
    '"add call mom", "show my tasks", "mark call mom as done", "rename call mom to call dad" or "delete call mom"'
)
_ABILITIES: Final = (
    'I can help you with your tasks: add one ("remind me to call mom"), show your list, mark a task as done, change its words, '
    "or delete one after asking you."
)
WHICH_SPECIFIC: Final = "Which specific task are you referring to? Please tell me the name or the number of the task to {}."
ANSWERS: Final = {
    "greeting": "Hello! How can I help you with your tasks today?",
    "how_are_you": "I'm doing well, thank you! How can I help you with your tasks?",
    "capabilities": _ABILITIES,
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
    "no_alarm": "I have no alarm and won't alert you. I keep the task with its time.",
    "others": "I can only see your own tasks, not those of other people.",
    "remind_other": 'I can only remind you: I keep your own tasks. You can say "add" and what you want to do.',
    "other_list": "I keep only one list, your tasks, and no other lists. I can show it or add something to it.",
}
QUESTIONS: Final = {
    "unclear": (f"I didn't understand that. You can say {_EXAMPLES}.", "unclear_intent"),
    "which": (
        "Which specific task are you referring to? Please name it, or tell me its number on your list.",
        "missing_context",
    ),
    "change_every": ("I can't change all tasks at once. Which ones do you mean, by name or number?", "missing_context"),
}
_ONLY_TASKS: Final = (
    "I can only help with task management: adding, showing, completing, changing and deleting tasks on your list."
)
REFUSALS: Final = {
    "out_of_scope": f"I'm sorry, I can't help with that. {_ONLY_TASKS}",
    "no_tasks_here": "I'm sorry, I know only tasks, and no task list is connected here.",
    "delete_every": "I can't delete everything at once. I can delete one task at a time, and I ask before I do.",
    "language": f"I'm sorry, I only understand English. {_ONLY_TASKS}",
}
OFFER: Final = "Would you like me to add '{}' as a task?"
OFFER_OR_FIND: Final = "Would you like to add '{}' as a new task, or are you looking for an existing task about {}?"
OFFER_ITEMS: Final = "Would you like to add '{}' as one task or as {} separate tasks, or are you looking for existing ones?"
OTHER_LIST: Final = "I keep only one list, your tasks, and not '{}'. Would you like me to add '{}' as a task?"
OFFER_REPORTED: Final = "I don't see '{}' on your list. Would you like me to add it as a task?"
WHAT_TO_ADD: Final = "What should I add?"
NEW_WORDS: Final = "What should '{}' say instead?"
WHICH: Final = "Which task should I {}?"
WHICH_DELETED_FIRST: Final = "I delete one task at a time, and I ask before each. Which task should I delete first?"
NOT_FOUND: Final = "I don't see '{}' on your list. Which task should I {}?"
NO_SUCH_PLACE: Final = "There is no task number {} on your list. Which task should I {}?"
ALREADY_DONE: Final = "'{}' is already marked as done."
NOT_ON_LIST: Final = "No, I don't see '{}' on your list."
FOUND: Final = "'{}' is on your list, {}."

TOO_LONG: Final = "That is too long for one task: 1,000 characters at most. How would you put it in short?"
TOO_MANY: Final = "I make at most {} changes for one message. Please ask again for the rest."
NOT_READ: Final = "I didn't understand '{}'."
NO_ALARM: Final = "I keep it as a task with its time, but I have no alarm and won't alert you."
DATES_ARE_TEXT: Final = "(I keep dates as text and cannot sort or filter by them.)"
NOT_DELETED_YET: Final = "I have not deleted '{}' yet."
UNAVAILABLE: Final = "I'm sorry, that isn't possible here."
LIST_FAILED: Final = "I couldn't read your task list just now. Please try again."

CHANGED: Final = {
    "add_task": "Added '{}' to your list.",
    "complete_task": "Marked '{}' as done.",
    "update_task": "Changed '{}' to '{}'.",
    "delete_task": "Deleted '{}'.",
}
_FAILED: Final = {
    "add_task": "add '{}'",
    "complete_task": "mark '{}' as done",
    "update_task": "change '{}'",
    "delete_task": "delete '{}'",
}


def report(call: MadeCall, subject: str) -> str:
    """Return the line about a change of the task with the description `subject`."""
    if call.success:
        return CHANGED[call.name].format(shown(subject), shown(str(call.arguments.get("description", ""))))
    change = _FAILED[call.name].format(shown(subject))
    if call.unknown:
        return f"I don't know if I could {change}. Please look at your list before you try again."
    return f"I couldn't {change}."


def numbered(tasks: Sequence[Task], *, boxes: bool = False) -> str:
    lines = [
        f"{number}. {('[x] ' if task.completed else '[ ] ') if boxes else ''}{task.shown}"
        for number, task in enumerate(tasks[:MAX_SHOWN], 1)
    ]
    return "\n".join([*lines, *([f"... and {len(tasks) - MAX_SHOWN} more."] if len(tasks) > MAX_SHOWN else [])])


def listing(show: Show, tasks: Sequence[Task]) -> str:
    """Return the list, or the answer to what was asked about it."""
    if show.about is not None:
        return _about(show.about, tasks)
    chosen = [task for task in tasks if show.status is None or task.completed == (show.status == "completed")]
    if not chosen:
        return f"You have no {show.status} tasks." if show.status else "Your list is empty: you have no tasks yet."
    kind = f"{show.status} " if show.status else ""
    text = f"You have {len(chosen)} {kind}task{'' if len(chosen) == 1 else 's'}:\n{numbered(chosen, boxes=True)}"
    return f"{text}\n{DATES_ARE_TEXT}" if show.dated else text


def _about(about: str, tasks: Sequence[Task]) -> str:
    named = containing(about, tasks)
    matches = named or find(about, tasks)[1]
    if not matches:
        return NOT_ON_LIST.format(shown(about))
    if len(matches) > 1:
        return f"I see {len(matches)} tasks like that:\n{numbered(matches, boxes=True)}"
    state = "marked as done" if matches[0].completed else "still to do"
    if named:
        return FOUND.format(matches[0].shown, state)
    return f"Something like that is on your list: '{matches[0].shown}', {state}."
