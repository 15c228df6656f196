"""The plan of a turn: which tasks are meant, which calls to make, and what to say about each request.

The plan is computed anew in every round, from the same messages; the calls that were made are its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from graph_agent.models.llm import FunctionCall
from graph_agent.reply.forms import ANSWER, ASK_USER, DECLINE
from graph_agent.rules_model import replies
from graph_agent.rules_model.conversation import Conversation, Response, tasks_in
from graph_agent.rules_model.dialogue import Context, interpret, place_in, read_context
from graph_agent.rules_model.matching import Task, exact_matches, find
from graph_agent.rules_model.references import is_time, merged, read_reference, starts_with_action
from graph_agent.rules_model.replies import Reply, answer, ask, fixed, listing, of_status, which
from graph_agent.rules_model.requests import Add, Change, Complete, Delete, Offer, Reference, Request, Say, Show, Update
from graph_agent.rules_model.wording import clause_of, shown
from graph_agent.rules_model.words import is_action

CALLS_PER_ROUND: Final = 5
MAX_CHANGES: Final = 9
MAX_DESCRIPTION: Final = 1000
TASK_TOOLS: Final = frozenset({"list_tasks", *replies.CHANGED})

Step = list[FunctionCall] | Reply
_Result = FunctionCall | Show | Reply


def next_step(conversation: Conversation, offered: frozenset[str]) -> Step:
    """Return the next calls of the turn, or its reply."""
    if not TASK_TOOLS & offered:
        return fixed("no_tasks_here")
    context = read_context(conversation.said)
    requests = interpret(clause_of(conversation.message), context)
    listed = conversation.listing
    if listed is None and any(isinstance(request, Show | Change) for request in requests):
        return _round([_lookup(requests)], offered)
    if listed is not None and listed.get("success") is not True:
        return fixed("list_failed")
    tasks = tasks_in(listed or {})
    results = _Planner(tasks, context).results(requests)
    calls = [result for result in results if isinstance(result, FunctionCall)]
    if left := calls[len(conversation.changes) :]:
        return _round(left, offered)
    return _reply(results, tasks, conversation.changes)


def _round(calls: list[FunctionCall], offered: frozenset[str]) -> Step:
    return calls[:CALLS_PER_ROUND] if all(call.name in offered for call in calls) else fixed("unavailable")


def _lookup(requests: Sequence[Request]) -> FunctionCall:
    """A listing of one status is enough where nothing else is asked."""
    match requests:
        case [Show(status=str(status), about=None)]:
            return FunctionCall(name="list_tasks", arguments={"status": status})
    return FunctionCall(name="list_tasks")


def _reply(results: Sequence[_Result], tasks: Sequence[Task], responses: Sequence[Response]) -> Reply:
    """Compose the reply in the order of the requests; the first question comes last."""
    waiting = iter(responses)
    before = {task.id: task for task in reversed(tasks)}
    after = before | {task.id: task for response in responses for task in tasks_in(response)}
    parts: list[Reply] = []
    for result in results:
        match result:
            case FunctionCall(arguments=arguments):
                response, task = next(waiting), before.get(arguments.get("task_id", ""))
                parts.append(replies.report(result, task.description if task else arguments["description"], response))
            case Show():
                parts.append(listing(result, list(reversed(after.values()))))
            case Reply():
                parts.append(result)
    questions = [part for part in parts if part.form == ASK_USER][:1]
    parts = [part for part in parts if part.form != ASK_USER] + questions
    text = "\n".join(dict.fromkeys(part.text for part in parts))
    if questions:
        return replace(questions[0], text=text)
    form = DECLINE if all(part.form == DECLINE for part in parts) else ANSWER
    return Reply(form, text, reports_change=any(part.reports_change for part in parts))


@dataclass(frozen=True, slots=True)
class _Planner:
    tasks: Sequence[Task]
    context: Context

    def results(self, requests: Sequence[Request]) -> list[_Result]:
        """Return the results of the requests in their order; deletions come last."""
        found = [result for request in requests for one in self._each(request) for result in self._results(one)]
        results = [result for place, result in enumerate(found) if result not in found[:place]]
        calls = sorted((one for one in results if isinstance(one, FunctionCall)), key=_deletes)
        others = [one for one in results if not _deletes(one)]
        if len(others) < len(results) and any(isinstance(one, Reply) and one.form == ASK_USER for one in others):
            return [fixed("not_deleted"), *others]
        results = sorted(results, key=_deletes)
        if len(calls) > MAX_CHANGES:
            return [*(one for one in results if one not in calls[MAX_CHANGES:]), answer(replies.TOO_MANY, str(MAX_CHANGES))]
        return results

    def _results(self, request: Request) -> list[_Result]:
        match request:
            case Add():
                return self._add(request)
            case Complete():
                return self._complete(request)
            case Update():
                return [self._update(request)]
            case Delete():
                return self._delete(request)
            case Show():
                return [request]
            case Offer():
                return [replies.offer(request)]
            case Say(kind):
                return [fixed(kind)]

    def _add(self, add: Add) -> list[_Result]:
        if not add.texts:
            return [ask(replies.WHAT_TO_ADD)]
        results = [_with_description("add_task", text) for text in add.texts]
        pending = of_status(self.tasks, "pending")
        results += [answer(replies.ALREADY_ADDED, text) for text in add.texts if exact_matches(text, pending)]
        return [*results, fixed("no_alarm_for_task")] if add.timed else results

    def _complete(self, request: Complete) -> list[_Result]:
        found, done = (
            self._find(request.target, of_status(self.tasks, status), "mark as done", request.instead)
            for status in ("pending", "completed")
        )
        if isinstance(found, Reply) and found.reason == "missing_context" and not isinstance(done, Reply):
            found = done
        if isinstance(found, Reply):
            return [found]
        results: list[_Result] = []
        for task in found:
            call = FunctionCall(name="complete_task", arguments={"task_id": task.id})
            results.append(answer(replies.ALREADY_DONE, task.description) if task.completed else call)
        return results or [listing(Show("pending"), ())]

    def _update(self, update: Update) -> _Result:
        update = next((one for one in (update, *update.others) if exact_matches(one.target.words, self.tasks)), update)
        found = self._find(update.target, self.tasks, "change" if update.new is None else f"change to '{shown(update.new)}'")
        if isinstance(found, Reply):
            return replies.offer(Offer(update.instead)) if update.instead and found.reason == "missing_context" else found
        if len(found) > 1:
            return which(found, "change")
        if update.new is None:
            return ask(replies.NEW_WORDS, found[0].description)
        return _with_description("update_task", _new_words(found[0].description, update), task_id=found[0].id)

    def _delete(self, request: Delete) -> list[_Result]:
        found = self._find(request.target, self.tasks, "delete", request.instead)
        if isinstance(found, Reply):
            return [found]
        if request.target == Reference(every=True) and len(found) > 1:
            return [which(found, "", replies.WHICH_DELETED_FIRST)]
        # The runtime asks about the first one and says that the others come next.
        calls = [FunctionCall(name="delete_task", arguments={"task_id": task.id}) for task in found]
        return [*calls] or [listing(Show(request.target.status), ())]

    def _each(self, request: Request) -> tuple[Request, ...]:
        """ "milk and rent": a request for each part, if one of them names a task and they do not name one together."""
        if not isinstance(request, Complete | Delete):
            return (request,)
        words = request.target.words.removeprefix("both ")
        parts = [part.strip() for part in re.split(r" and |[&,]", words) if part.strip()][:MAX_CHANGES]
        named = [find(part, self.tasks)[0] for part in parts]
        together = bool(exact_matches(words, self.tasks)) or len(set(named)) == 1
        if together or all(len(tasks) != 1 for tasks in named):
            return (request,)
        return tuple(replace(request, target=Reference(words=part), instead=part if request.instead else "") for part in parts)

    def _find(self, target: Reference, tasks: Sequence[Task], verb: str, instead: str = "") -> tuple[Task, ...] | Reply:
        """Return the tasks that are meant, or the question that has to be asked."""
        if target.pronoun and instead and len(named := find(instead, tasks)[0]) == 1:
            return named
        if exact := self.context.mentioned if target.pronoun else target.exact:
            return _open_first(find(exact, tasks)[0]) or ask(replies.NOT_FOUND, exact, verb)
        if target.every:
            kept = self._find(read_reference(clause_of(target.but)), tasks, verb) if target.but else ()
            return kept if isinstance(kept, Reply) else tuple(one for one in of_status(tasks, target.status) if one not in kept)
        if target.places:
            chosen = [self._at(place, tasks) for place in target.places]
            missing = [place for place, found in zip(target.places, chosen, strict=True) if not found]
            return ask(replies.NO_SUCH_PLACE, str(abs(missing[0])), verb) if missing else tuple(dict.fromkeys(sum(chosen, ())))
        if not target.words:
            return which(tasks, verb) if tasks else fixed("which")
        named, possible = find(target.words, tasks)
        named = pending if len(pending := of_status(named, "pending")) == 1 else named
        if len(named) == 1 or (len(named) == 2 and target.words.lower().startswith("both ")):
            return named
        # "Got the milk" reports "almond milk", but it may not report "return the milk".
        thing = bool(instead) and not is_action(possible[0].description.lower().partition(" ")[0]) if possible else False
        if len(possible) == 1 and (target.told or verb == "delete" or thing):
            return possible
        if named or possible:
            return which(named or possible, verb)
        return ask(replies.OFFER_REPORTED, instead) if instead else ask(replies.NOT_FOUND, target.words, verb)

    def _at(self, place: int, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """A number means the list that the user saw last; without one, the list as it would be shown."""
        if self.context.listed:
            return _open_first(exact_matches(place_in(place, self.context.listed) or "", self.tasks))
        counted = (place_in(place, self.tasks), place_in(place, tasks))
        return tuple(task for task in counted if task and task in tasks)[:1]


def _deletes(result: _Result) -> bool:
    return isinstance(result, FunctionCall) and result.name == "delete_task"


def _open_first(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The same description may have been completed before; an open task is meant first."""
    return tuple(sorted(tasks, key=lambda task: task.completed)[:1])


def _with_description(tool: str, description: str, **arguments: str) -> _Result:
    if len(description) > MAX_DESCRIPTION:
        return ask(replies.TOO_LONG)
    return FunctionCall(name=tool, arguments={**arguments, "description": description})


def _new_words(old: str, update: Update) -> str:
    """A time is added to the description; "change milk to oat milk" changes "buy milk" to "buy oat milk"."""
    new, replaced = update.new or "", update.target.words
    clause = clause_of(new)
    if is_time(clause):
        return merged(old, new)
    start = old.casefold().find(replaced.casefold()) if replaced and update.inside else -1
    return new if start <= 0 or starts_with_action(clause) else f"{old[:start]}{new}{old[start + len(replaced) :]}"
