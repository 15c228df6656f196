"""The plan of a turn: which tasks are meant, which calls to make, and what to say about each request.

The plan is computed anew in every round, from the same messages; the calls that were made are its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from graph_agent.llm.rules_model import replies
from graph_agent.llm.rules_model.dialogue import Context, interpret, place_in, read_context
from graph_agent.llm.rules_model.matching import KnownTask, exact_matches, find
from graph_agent.llm.rules_model.references import is_time, merged, read_reference, starts_with_action
from graph_agent.llm.rules_model.replies import Reply, answer, ask, fixed, listing, of_status, which
from graph_agent.llm.rules_model.requests import Add, Change, Complete, Delete, Offer, Reference, Request, Say, Show, Update
from graph_agent.llm.rules_model.wording import clause_of, shown
from graph_agent.models.llm import FunctionCall, FunctionResponse
from graph_agent.reply.forms import ANSWER, ASK_USER, DECLINE

CALLS_PER_ROUND: Final = 5
MAX_DESCRIPTION: Final = 1000
TASK_TOOLS: Final = frozenset({"list_tasks", *replies.CHANGED})

Step = list[FunctionCall] | Reply
_Result = FunctionCall | Show | Reply


def next_step(said: Sequence[str], message: str, responses: Sequence[FunctionResponse], offered: frozenset[str]) -> Step:
    """Return the next calls of the turn, or its reply. `said` are earlier replies, `responses` answer the calls made so far."""
    if not TASK_TOOLS & offered:
        return fixed("no_tasks_here")
    context = read_context(said)
    requests = interpret(clause_of(message), context)
    listed = next((one.response for one in responses if one.name == "list_tasks"), None)
    if listed is not None and listed.get("success") is not True:
        return fixed("list_failed")
    tasks = _tasks_in(listed or {})
    made = [one.response for one in responses if one.name != "list_tasks"]
    results = _Planner(tasks, context).results(requests)
    calls = [result for result in results if isinstance(result, FunctionCall)][len(made) :]
    if listed is None and any(isinstance(request, Show | Change) for request in requests):
        status = requests[0].status if len(requests) == 1 and isinstance(requests[0], Show) else None
        calls = [FunctionCall(name="list_tasks", arguments={"status": status} if status else {})]
    if not offered.issuperset(call.name for call in calls):
        return fixed("unavailable")
    return calls[:CALLS_PER_ROUND] or _reply(results, tasks, made)


def _tasks_in(response: dict[str, Any]) -> list[KnownTask]:
    """Return the tasks of a listing, newest first, or the task that a change returned."""
    match response.get("data"):
        case {"tasks": [*items]}:
            return [task for item in items for task in _tasks_in({"data": {"task": item}})]
        case {"task": {"id": str(task_id), "description": str(description), **rest}}:
            return [KnownTask(task_id, description, completed=rest.get("status") == "completed")]
    return []


def _reply(results: Sequence[_Result], tasks: Sequence[KnownTask], responses: Sequence[dict[str, Any]]) -> Reply:
    """Compose the reply in the order of the requests; the first question comes last."""
    waiting = iter(responses)
    before = {task.id: task for task in reversed(tasks)}
    after = before | {task.id: task for response in responses for task in _tasks_in(response)}
    parts: list[Reply] = []
    for result in results:
        match result:
            case FunctionCall():
                parts.append(replies.report(result, before.get(result.arguments.get("task_id", "")), next(waiting)))
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
    return Reply(form, text, reports_change=any(response.get("success") is True for response in responses))


@dataclass(frozen=True, slots=True)
class _Planner:
    tasks: Sequence[KnownTask]
    context: Context

    def results(self, requests: Sequence[Request]) -> list[_Result]:
        """Return the results of the requests in their order, without repetitions; deletions come last."""
        # "we sold the boat so delete clean the boat": what explains a deletion may, but need not, report a task.
        explained = any(isinstance(request, Delete) for request in requests)
        found = [
            result
            for request in requests
            for result in self._results(request)
            if not (explained and isinstance(request, Complete) and request.instead and isinstance(result, Reply))
        ]
        results = sorted((result for place, result in enumerate(found) if result not in found[:place]), key=_deletes)
        if any(map(_deletes, results)) and any(isinstance(one, Reply) and one.form == ASK_USER for one in results):
            return [fixed("not_deleted"), *(result for result in results if not _deletes(result))]
        excess = [result for result in results if isinstance(result, FunctionCall)][replies.MAX_CHANGES :]
        return [*(one for one in results if one not in excess), fixed("too_many")] if excess else results

    def _results(self, request: Request) -> list[_Result]:
        match request:
            case Add(texts, timed):
                return self._add(texts, timed)
            case Complete() | Delete() | Update():
                return self._change(request)
            case Show(about=str(about)) if places := read_reference(clause_of(about)).places:
                task = self._at(places[0], self.tasks)
                return [replace(request, about=task.description) if task else request]
            case Show():
                return [request]
            case Offer():
                return [replies.offer(request)]
            case Say(kind):
                return [fixed(kind)]

    def _add(self, texts: Sequence[str], timed: bool) -> list[_Result]:
        if not texts:
            return [ask(replies.WHAT_TO_ADD)]
        pending = of_status(self.tasks, "pending")
        results = [_call("add_task", description=text) for text in texts]
        results += [answer(replies.ALREADY_ADDED, text) for text in texts if exact_matches(text, pending)]
        return [*results, fixed("no_alarm")] if timed else [*results]

    def _change(self, request: Change) -> list[_Result]:
        """Return the changes of the tasks that are meant, and the questions that have to be asked."""
        verb, tasks = _VERBS[type(request)], self.tasks
        if isinstance(request, Complete):
            tasks = of_status(tasks, "pending")
        if isinstance(request, Update):
            request = next((one for one in (request, *request.others) if exact_matches(one.target.words, tasks)), request)
            verb += f" to '{shown(request.new)}'" if request.new else ""
        found = self._find(request, tasks, verb)
        several = [one for one in found if isinstance(one, KnownTask)] if len(found) > 1 else []
        if several and isinstance(request, Update):
            return [which(several, "change")]
        if several and request == Delete(Reference(every=True)):
            return [which(several, "", replies.WHICH_DELETED_FIRST)]
        nothing = listing(Show("pending" if isinstance(request, Complete) else request.target.status), ())
        return [_changed(one, request) if isinstance(one, KnownTask) else one for one in found] or [nothing]

    def _find(self, request: Change, tasks: Sequence[KnownTask], verb: str) -> list[KnownTask | Reply]:
        """Return the tasks that are meant, and the questions that have to be asked."""
        target, instead = request.target, request.instead
        # In "I packed it" the verb shows which task is meant.
        if target.pronoun and instead and len(named := find(instead, tasks)[0]) == 1:
            return [*named]
        unknown = target.told and self.context.together and not any(find(target.words, tasks))
        if exact := self.context.mentioned if target.pronoun or unknown else target.exact:
            same = find(exact, tasks)[0] or find(exact, self.tasks)[0]
            return [same[0] if same else ask(replies.NOT_FOUND, exact, verb)]
        if target.every:
            but = replace(request, target=read_reference(clause_of(target.but)))
            kept = self._find(but, tasks, verb) if target.but else []
            questions = [one for one in kept if isinstance(one, Reply)]
            return [*questions] or [task for task in of_status(tasks, target.status) if task not in kept]
        if target.places:
            return [self._at(place, tasks) or ask(replies.NO_SUCH_PLACE, str(abs(place)), verb) for place in target.places]
        if not target.words:
            return [which(tasks, verb) if tasks else fixed("which")]
        parts = self._parts(target.words)
        if len(parts) > 1:
            each = [replace(request, target=Reference(words=part), instead=part if instead else "") for part in parts]
            return [found for one in each for found in self._find(one, tasks, verb)]
        return self._named(request, tasks, verb)

    def _at(self, place: int, tasks: Sequence[KnownTask]) -> KnownTask | None:
        """A number means the list that the user saw last; without one, the list as it would be shown."""
        if self.context.listed:
            text = place_in(place, self.context.listed) or ""
            return next(iter(exact_matches(text, tasks) or exact_matches(text, self.tasks)), None)
        task = place_in(place, self.tasks)
        return task if task in tasks else place_in(place, tasks) or task

    def _parts(self, words: str) -> list[str]:
        """Return "milk" and "rent" for "milk and rent", if one of them names a task and they do not name one together."""
        parts = re.split(r"\s*(?:\band\b|[&,])\s*", words.removeprefix("both "))
        parts = [part for part in parts if part][: replies.MAX_CHANGES]
        named = [find(part, self.tasks)[0] for part in parts]
        together = bool(exact_matches(words, self.tasks)) or len(set(named)) == 1
        return [words] if together or all(len(tasks) != 1 for tasks in named) else parts

    def _named(self, request: Change, tasks: Sequence[KnownTask], verb: str) -> list[KnownTask | Reply]:
        """Return the tasks that the words of the reference name, or the question that has to be asked."""
        target, instead = request.target, request.instead
        named, possible = find(target.words, tasks)
        named = named or find(target.words, self.tasks)[0]
        if len(named) == 1 or (len(named) == 2 and target.words.lower().startswith("both ")):
            return [*named]
        # "Got the milk" reports "almond milk", but it may not report "return the milk".
        thing = instead and possible and not starts_with_action(clause_of(possible[0].description))
        if len(possible) == 1 and (target.told or thing or isinstance(request, Delete)):
            return [*possible]
        if named or possible:
            return [which(named or possible, verb)]
        return [ask(replies.OFFER_REPORTED, instead) if instead else ask(replies.NOT_FOUND, target.words, verb)]


_VERBS: Final[dict[type[Change], str]] = {Complete: "mark as done", Delete: "delete", Update: "change"}


def _deletes(result: _Result) -> bool:
    return isinstance(result, FunctionCall) and result.name == "delete_task"


def _call(tool: str, **arguments: str) -> FunctionCall | Reply:
    if len(arguments.get("description", "")) > MAX_DESCRIPTION:
        return ask(replies.TOO_LONG)
    return FunctionCall(name=tool, arguments=arguments)


def _changed(task: KnownTask, request: Change) -> FunctionCall | Reply:
    match request:
        case Complete():
            return answer(replies.ALREADY_DONE, task.description) if task.completed else _call("complete_task", task_id=task.id)
        case Update(target, new=str(new)):
            description = _new_words(task.description, target.words if request.inside else "", new)
            return _call("update_task", task_id=task.id, description=description)
        case Update():
            return ask(replies.NEW_WORDS, task.description)
    # The runtime asks about the first one and says that the others come next.
    return _call("delete_task", task_id=task.id)


def _new_words(old: str, replaced: str, new: str) -> str:
    """A time is added to the description; "change milk to oat milk" changes "buy milk" to "buy oat milk"."""
    clause = clause_of(new)
    parameter = f" {new.partition(' ')[0]} " in old and re.search(r" (?:\S*\d|\w)$", new)
    if is_time(clause) or parameter:
        return merged(old, new)
    start = old.casefold().find(replaced.casefold()) if replaced else -1
    return new if start <= 0 or starts_with_action(clause) else f"{old[:start]}{new}{old[start + len(replaced) :]}"
