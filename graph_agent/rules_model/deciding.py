"""From what is meant and what was done so far to the next step: calls, a text, a question or a refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from graph_agent.rules_model import questions, replies
from graph_agent.rules_model.conversation import Conversation, Deed
from graph_agent.rules_model.intents import (
    Change,
    Chat,
    Complete,
    Create,
    Dangling,
    Delete,
    DeleteEvery,
    Each,
    Exact,
    Intent,
    Named,
    Offer,
    Position,
    Referent,
    Refuse,
    Show,
    Unclear,
    Unnamed,
)
from graph_agent.rules_model.matching import Task, exactly, find, item_at, shortened
from graph_agent.rules_model.reading import read
from graph_agent.models.llm import FunctionCall

MAX_CALLS = 5
MAX_DESCRIPTION = 1000
Reason = Literal["unclear_intent", "multiple_matches", "missing_context"]


@dataclass(frozen=True, slots=True)
class Calls:
    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Refusal:
    text: str


Step = Calls | Answer | Question | Refusal
Act = Complete | Change | Delete

_TOOL_OF: dict[type[Act], str] = {Complete: "complete_task", Change: "update_task", Delete: "delete_task"}


def next_step(conversation: Conversation, offered: frozenset[str]) -> Step:
    """The next step of the turn; `offered` are the names of the tools that may be called."""
    intents = understood(conversation)
    return _talk(intents[0]) or _Plan(intents, conversation.deeds, offered).step()


def understood(conversation: Conversation) -> tuple[Intent, ...]:
    """What the current message means after what was said before."""
    last = conversation.said[-1] if conversation.said else ""
    intents = questions.answered(last, conversation.message)
    if intents is None:
        intents = read(conversation.message)
    if intents == (Create(None),):
        absent = questions.absent(last)
        if absent and _REFERS.search(conversation.message):
            return (Create(absent),)
    shows = any(isinstance(intent, Show) for intent in intents)
    return tuple(_in_context(intent, conversation.said, shows=shows) for intent in intents)


_REFERS = re.compile(r"\b(?:it|that|this)\b", re.IGNORECASE)


def _in_context(intent: Intent, said: Sequence[str], *, shows: bool) -> Intent:
    """`intent` with its "it" and its "number 2" put as the task that the assistant's texts mean by them."""
    if not isinstance(intent, Complete | Change | Delete) or not said:
        return intent
    meant = intent.target
    if isinstance(meant, Referent):
        name = questions.mentioned(said[-1])
        return questions.with_target(intent, Exact(name)) if name else intent
    if isinstance(meant, Position | Each) and not shows:
        shown = next((shown for shown in map(questions.shown_list, reversed(said)) if shown), ())
        if isinstance(meant, Each):
            return questions.with_target(intent, Each(tuple(_as_shown(place, shown) for place in meant.places)))
        return questions.with_target(intent, _as_shown(meant, shown))
    return intent


def _as_shown(meant: Position | Exact, shown: Sequence[str]) -> Position | Exact:
    """The task that stood at this place of the list the user saw last."""
    there = item_at(meant.number, shown) if isinstance(meant, Position) else None
    return meant if there is None else Exact(there)


def _talk(intent: Intent) -> Step | None:
    """The step for a message that needs no tool."""
    match intent:
        case Chat(kind):
            return Answer(replies.CHAT[kind])
        case Refuse(kind):
            return Refusal(replies.REFUSALS[kind])
        case Unclear(phrase):
            return Question(questions.add_or_find(phrase), "unclear_intent")
        case Offer(phrase, None):
            return Question(questions.offer(phrase), "unclear_intent")
        case Offer(phrase, list_name):
            return Question(f"I keep your task list only, not {list_name}. {questions.offer(phrase)}", "unclear_intent")
        case Dangling(known):
            return Question(replies.WHAT_WITH_IT if known else replies.WHICH_ITEM, "missing_context")
    return None


@dataclass
class _Resolved:
    """What the acts of a message come to, given the list."""

    calls: list[FunctionCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    question: Question | None = None


@dataclass(frozen=True)
class _Plan:
    intents: tuple[Intent, ...]
    deeds: tuple[Deed, ...]
    offered: frozenset[str]

    def step(self) -> Step:
        if not self._needed() <= self.offered:
            return Refusal(replies.UNAVAILABLE)
        if any(
            isinstance(intent, Create) and intent.description and len(intent.description) > MAX_DESCRIPTION
            for intent in self.intents
        ):
            return Question(replies.TOO_LONG, "missing_context")
        first = self._first_round()
        if first:
            return Calls(tuple(first[:MAX_CALLS]))
        listing = next((deed for deed in self.deeds if deed.name == "list_tasks"), None)
        resolved = _Resolved()
        if listing is not None and listing.success:
            resolved = self._resolved(listing.tasks)
            due = [call for call in resolved.calls if not self._was_called(call)]
            if due or self._stale_show():
                if self._shows_after_acts() and not any(call.name == "delete_task" for call in due):
                    due.append(self._list_call())
                return Calls(tuple(due[:MAX_CALLS]))
        return self._ending(listing, resolved)

    def _needed(self) -> set[str]:
        names = {_TOOL_OF[type(intent)] for intent in self.intents if isinstance(intent, Complete | Change | Delete)}
        if any(isinstance(intent, Create) and intent.description for intent in self.intents):
            names.add("add_task")
        if self._lists():
            names.add("list_tasks")
        return names

    def _lists(self) -> bool:
        return any(
            isinstance(intent, Show | DeleteEvery)
            or (isinstance(intent, Complete | Change | Delete) and not isinstance(intent.target, Referent))
            for intent in self.intents
        )

    def _first_round(self) -> list[FunctionCall]:
        """What depends on no result: additions and the listing, in the order of the message, as far as not called yet."""
        added = sum(deed.name == "add_task" for deed in self.deeds)
        listed = any(deed.name == "list_tasks" for deed in self.deeds)
        calls: list[FunctionCall] = []
        for intent in self.intents:
            if isinstance(intent, Create):
                if intent.description is None:
                    continue
                if added:
                    added -= 1
                else:
                    calls.append(FunctionCall(name="add_task", arguments={"description": intent.description}))
            elif self._lists() and not listed and not isinstance(intent, Refuse | Chat):
                calls.append(self._list_call())
                listed = True
        return calls

    def _list_call(self) -> FunctionCall:
        show = next((intent for intent in self.intents if isinstance(intent, Show)), None)
        only = all(isinstance(intent, Create | Show) for intent in self.intents)
        status = show.status if show and only and show.about is None else None
        return FunctionCall(name="list_tasks", arguments={"status": status} if status else {})

    def _was_called(self, call: FunctionCall) -> bool:
        return any(deed.name == call.name and deed.arguments == call.arguments for deed in self.deeds)

    def _shows_after_acts(self) -> bool:
        acts = [index for index, intent in enumerate(self.intents) if isinstance(intent, Complete | Change | Delete)]
        return bool(acts) and any(isinstance(intent, Show) and index > acts[0] for index, intent in enumerate(self.intents))

    def _stale_show(self) -> bool:
        """Whether the list is to be shown after changes that the last listing does not have."""
        names = [deed.name for deed in self.deeds]
        changed = [index for index, name in enumerate(names) if name in _TOOL_OF.values()]
        return self._shows_after_acts() and bool(changed) and "list_tasks" not in names[changed[-1] :]

    def _resolved(self, tasks: Sequence[Task]) -> _Resolved:
        result = _Resolved()
        new = {deed.task.id for deed in self.deeds if deed.name == "add_task" and deed.task}
        standing = [task for task in tasks if task.id not in new]
        show = next((intent for intent in self.intents if isinstance(intent, Show) and intent.status), None)
        in_order = [task for task in standing if not show or task.completed == (show.status == "completed")]
        deletions: list[Task] = []
        for intent in self.intents:
            if isinstance(intent, DeleteEvery):
                result.question = _which_of_all(Delete(Unnamed()), standing, replies.ONE_AT_A_TIME, first=True)
            elif isinstance(intent, Complete | Change | Delete):
                meant = _meant(intent, standing, in_order)
                if isinstance(meant, Question):
                    result.question = result.question or meant
                elif isinstance(intent, Delete):
                    deletions.extend(task for task in meant if task not in deletions)
                else:
                    self._act(intent, meant, result)
        if len(deletions) == 1:
            result.calls.append(FunctionCall(name="delete_task", arguments={"task_id": deletions[0].id}))
        elif deletions:
            asked = questions.which(Delete(Unnamed()), deletions, first=True)
            result.question = result.question or Question(f"{replies.ONE_AT_A_TIME} {asked}", "multiple_matches")
        return result

    def _act(self, intent: Complete | Change, meant: Sequence[Task], result: _Resolved) -> None:
        for task in meant:
            if isinstance(intent, Change):
                if intent.text is None:
                    result.question = result.question or Question(questions.what_instead(task), "missing_context")
                    continue
                arguments: dict[str, Any] = {"task_id": task.id, "description": intent.text}
            elif task.completed:
                result.notes.append(f"'{task.shown}' is already marked as done.")
                continue
            else:
                arguments = {"task_id": task.id}
            result.calls.append(FunctionCall(name=_TOOL_OF[type(intent)], arguments=arguments))

    def _ending(self, listing: Deed | None, resolved: _Resolved) -> Step:
        names = {task.id: task.description for deed in self.deeds for task in deed.tasks}
        parts = [_told(deed, names) for deed in self.deeds if deed.name != "list_tasks"]
        parts.extend(resolved.notes)
        if listing is not None and not listing.success:
            parts.append(replies.UNCLEAR_LIST if listing.unknown else replies.UNREADABLE_LIST)
        elif listing is not None:
            latest = next(deed for deed in reversed(self.deeds) if deed.name == "list_tasks")
            seen = latest if latest.success else listing
            parts.extend(replies.listed(intent, seen.tasks) for intent in self.intents if isinstance(intent, Show))
        question = resolved.question or self._missing()
        if question is None:
            return Answer("\n".join(parts) or replies.CHAT["dropped"])
        return Question("\n\n".join([*parts, question.text]), question.reason)

    def _missing(self) -> Question | None:
        """What is asked without looking at the list."""
        for intent in self.intents:
            if isinstance(intent, Create) and intent.description is None:
                return Question(questions.WHAT_TO_ADD, "missing_context")
            if isinstance(intent, Complete | Change | Delete) and isinstance(intent.target, Referent):
                return Question(f"I'm not sure which one you mean. {questions.which(intent, ())}", "missing_context")
        return None


def _told(deed: Deed, names: dict[str, str]) -> str:
    if deed.name == "add_task":
        return replies.told(deed, str(deed.arguments.get("description", "")))
    known = names.get(str(deed.arguments.get("task_id", "")))
    return replies.told(deed, known or (deed.task.description if deed.task else "that task"))


def _meant(act: Act, tasks: Sequence[Task], in_order: Sequence[Task]) -> tuple[Task, ...] | Question:
    """The tasks that `act` means, or the question that settles it."""
    meant = act.target
    if isinstance(meant, Each):
        chosen: list[Task] = []
        for place in meant.places:
            one = _meant(questions.with_target(act, place), tasks, in_order)
            if isinstance(one, Question):
                return one
            chosen.extend(one)
        return tuple(dict.fromkeys(chosen))
    if isinstance(meant, Position):
        there = item_at(meant.number, in_order)
        if there is not None:
            return (there,)
        return _which_of_all(
            act, tasks, f"There is no number {meant.number} on your list." if meant.number > 0 else "I can't find that one."
        )
    if isinstance(meant, Unnamed):
        return _which_of_all(act, tasks, "")
    if isinstance(meant, Exact):
        same = exactly(meant.description, tasks)
        if same:
            return (_first_open(act, same),)
        return _which_of_all(act, tasks, _not_found(meant.description))
    if isinstance(meant, Named):
        return _meant_by_words(act, meant.words, tasks)
    return Question(f"I'm not sure which one you mean. {questions.which(act, ())}", "missing_context")


def _meant_by_words(act: Act, words: str, tasks: Sequence[Task]) -> tuple[Task, ...] | Question:
    found = find(words, tasks)
    sure = found.sure
    if isinstance(act, Complete) and len(sure) > 1:
        sure = tuple(task for task in sure if not task.completed) or sure
    if len({task.description for task in sure}) == 1:
        return (_first_open(act, sure),)
    if sure:
        return Question(f"I found {len(sure)} tasks like that. {questions.which(act, sure)}", "multiple_matches")
    several = _each_of(words, act, tasks)
    if several:
        return several
    if found.possible:
        return Question(f"I can't find exactly that. {questions.which(act, found.possible)}", "multiple_matches")
    return _which_of_all(act, tasks, _not_found(words))


def _not_found(words: str) -> str:
    return f"I can't find a task about '{shortened(words)}' on your list."


def _each_of(words: str, act: Act, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks of an enumeration, if each part surely means one: "milk and eggs"."""
    parts = [part.strip() for chunk in words.split(",") for part in chunk.split(" and ") if part.strip()]
    if not 2 <= len(parts) <= MAX_CALLS:
        return ()
    chosen: list[Task] = []
    for part in parts:
        sure = find(part, tasks).sure
        if len(sure) != 1:
            return ()
        chosen.append(_first_open(act, sure))
    return tuple(dict.fromkeys(chosen))


def _first_open(act: Act, tasks: Sequence[Task]) -> Task:
    if isinstance(act, Complete):
        return next((task for task in tasks if not task.completed), tasks[0])
    return tasks[0]


def _which_of_all(act: Act, tasks: Sequence[Task], why: str, *, first: bool = False) -> Question:
    options = [task for task in tasks if not task.completed] if isinstance(act, Complete) else list(tasks)
    parts = [why] if why else []
    if not options:
        parts.append("There are no open tasks on your list right now." if tasks else "Your list is empty right now.")
    parts.append(questions.which(act, options, first=first))
    reason: Reason = "multiple_matches" if len(options) > 1 and isinstance(act.target, Unnamed) else "missing_context"
    return Question(" ".join(parts), reason)
