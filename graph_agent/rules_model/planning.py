"""The plan of a turn: which tasks are meant, which calls to make, and what to say about each request.

The plan is computed anew in every round, from the same messages; the calls that were made are its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from graph_agent.models.llm import FunctionCall
from graph_agent.rules_model import replies
from graph_agent.rules_model.conversation import Conversation, MadeCall
from graph_agent.rules_model.dialogue import Context, interpret, place_in, read_context
from graph_agent.rules_model.matching import Task, exact_matches, find
from graph_agent.rules_model.references import is_time, merged, read_reference, starts_with_action
from graph_agent.rules_model.requests import Add, Change, Complete, Delete, Offer, Reference, Request, Say, Show, Update
from graph_agent.rules_model.wording import clause_of, shown
from graph_agent.rules_model.words import base_form, is_action

TASK_TOOLS: Final = frozenset({"add_task", "list_tasks", "update_task", "complete_task", "delete_task"})
CALLS_PER_ROUND: Final = 5
MAX_CHANGES: Final = 9
MAX_DESCRIPTION: Final = 1000


@dataclass(frozen=True, slots=True)
class Calls:
    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    reports_change: bool


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refusal:
    text: str


Step = Calls | Answer | Question | Refusal


@dataclass(frozen=True, slots=True)
class _Change:
    """A call and the description of the task that it is about."""

    call: FunctionCall
    subject: str


_Result = _Change | Show | Answer | Question | Refusal


def next_step(conversation: Conversation, offered: frozenset[str]) -> Step:
    """Return the next calls of the turn, or its reply."""
    if not TASK_TOOLS & offered:
        return Refusal(replies.REFUSALS["no_tasks_here"])
    context = read_context(conversation.said)
    requests = interpret(clause_of(conversation.message), context)
    lookup = next((call for call in conversation.calls if call.name == "list_tasks"), None)
    if lookup is None and any(isinstance(request, Show | Change) for request in requests):
        if "list_tasks" not in offered:
            return Refusal(replies.UNAVAILABLE)
        return Calls((FunctionCall(name="list_tasks", arguments=_filter(requests)),))
    if lookup is not None and not lookup.success:
        return Answer(replies.LIST_FAILED, False)
    planner = _Planner(lookup.tasks if lookup else (), context)
    results = planner.results(requests)
    made = [call for call in conversation.calls if call.name != "list_tasks"]
    changes = [result for result in results if isinstance(result, _Change)]
    if any(change.call.name not in offered for change in changes):
        return Refusal(replies.UNAVAILABLE)
    if len(made) < len(changes):
        return Calls(tuple(change.call for change in changes[len(made) : len(made) + CALLS_PER_ROUND]))
    return _reply(results, made, planner.tasks)


def _filter(requests: Sequence[Request]) -> dict[str, str]:
    """A listing of one status is enough where nothing else is asked."""
    match requests:
        case (Show(status, None),) if status:
            return {"status": status}
        case _:
            return {}


def _reply(results: Sequence[_Result], made: Sequence[MadeCall], tasks: Sequence[Task]) -> Step:
    """Compose the reply in the order of the requests; a question comes last."""
    final = _after(tasks, made)
    waiting = list(made)
    lines: list[str] = []
    for result in results:
        match result:
            case _Change(_, subject):
                lines.append(replies.report(waiting.pop(0), subject))
            case Show():
                lines.append(replies.listing(result, final))
            case Answer(text, _) | Refusal(text):
                lines.append(text)
    lines = list(dict.fromkeys(lines))
    question = next((result for result in results if isinstance(result, Question)), None)
    if question is not None:
        return Question("\n".join([*lines, question.text]), question.reason)
    text = "\n".join(lines)
    if all(isinstance(result, Refusal) for result in results):
        return Refusal(text)
    return Answer(text, reports_change=any(call.success for call in made))


def _after(tasks: Sequence[Task], made: Sequence[MadeCall]) -> list[Task]:
    """Return the list with the changes of this turn, newest first as the task server orders it."""
    after = list(tasks)
    for call in made:
        if not call.success:
            continue
        if call.name == "add_task":
            after.insert(0, Task("", str(call.arguments.get("description", "")), False))
        wanted = call.arguments.get("task_id")
        for number, task in enumerate(after):
            if task.id and task.id == wanted and call.name == "complete_task":
                after[number] = replace(task, completed=True)
            elif task.id and task.id == wanted and call.name == "update_task":
                after[number] = replace(task, description=str(call.arguments.get("description", "")))
    return after


@dataclass
class _Planner:
    tasks: Sequence[Task]
    context: Context
    _deletions: list[Task] = field(default_factory=list)

    def results(self, requests: Sequence[Request]) -> list[_Result]:
        """Return the results of the requests in their order; deletions come last."""
        removed = any(isinstance(request, Delete) for request in requests)
        results = [
            result
            for request in requests
            for result in self._results(request)
            if not (removed and isinstance(result, Question) and isinstance(request, Complete) and request.instead)
        ]
        changes = [result for result in results if isinstance(result, _Change)]
        if len(changes) > MAX_CHANGES:
            kept = changes[:MAX_CHANGES]
            results = [result for result in results if not isinstance(result, _Change) or any(result is one for one in kept)]
            results.append(Answer(replies.TOO_MANY.format(MAX_CHANGES), False))
        deletions = list(dict.fromkeys(self._deletions))
        every = any(isinstance(request, Delete) and request.target == Reference(every=True) for request in requests)
        if every and len(deletions) > 1:
            results.append(Question(f"{replies.WHICH_DELETED_FIRST}\n{replies.numbered(deletions)}", "multiple_matches"))
        elif deletions and any(isinstance(result, Question) for result in results):
            results.insert(0, Answer(replies.NOT_DELETED_YET.format(deletions[0].shown), False))
        else:
            # The runtime asks about the first one and says that the others come next.
            results += [_change("delete_task", task.description, task_id=task.id) for task in deletions[:CALLS_PER_ROUND]]
        return results

    def _results(self, request: Request) -> list[_Result]:
        match request:
            case Show():
                return [request]
            case Add(texts, timed):
                return self._add(texts, timed)
            case Complete(target, instead):
                targets = self._each(target)
                several = bool(instead) and len(targets) > 1
                return [result for one in targets for result in self._complete(one, one.words if several else instead)]
            case Update():
                return self._update(request)
            case Delete(target, instead):
                return [result for one in self._each(target) for result in self._delete(one, instead)]
            case Offer():
                return [_offer(request)]
            case Say(kind):
                return [_say(kind)]

    def _add(self, texts: tuple[str, ...], timed: bool) -> list[_Result]:
        if not texts:
            return [Question(replies.WHAT_TO_ADD, "missing_context")]
        if any(len(text) > MAX_DESCRIPTION for text in texts):
            return [Question(replies.TOO_LONG, "missing_context")]
        results: list[_Result] = [_change("add_task", text, description=text) for text in texts]
        return [*results, Answer(replies.NO_ALARM, False)] if timed else results

    def _complete(self, target: Reference, instead: str) -> list[_Result]:
        open_tasks = [task for task in self.tasks if not task.completed]
        if target.pronoun and instead:
            # In "I packed it" the verb shows which task is meant.
            same = [task for task in open_tasks if base_form(_first_word(task.description)) == base_form(_first_word(instead))]
            target = Reference(exact=same[0].description) if len(same) == 1 else target
        if target.every and not open_tasks:
            return [Answer(replies.listing(Show("pending"), self.tasks), False)]
        found = self._find(target, open_tasks, "mark as done", instead)
        if isinstance(found, Question):
            if instead or (target.words and find(target.words, open_tasks)[0]):
                return [found]
            done = self._find(target, [task for task in self.tasks if task.completed], "mark as done", shown(target.words))
            return [found] if isinstance(done, Question) else _already_done(done)
        changes = [_change("complete_task", task.description, task_id=task.id) for task in found if not task.completed]
        return [*changes] or _already_done(found)

    def _update(self, update: Update) -> list[_Result]:
        update = next((one for one in (update, *update.others) if exact_matches(one.target.words, self.tasks)), update)
        target, text = update.target, update.new
        verb = "change" if text is None else f"change to '{shown(text)}'"
        found = self._find(target, self.tasks, verb)
        if isinstance(found, Question):
            return [_offer(Offer(update.instead)) if update.instead and found.reason == "missing_context" else found]
        if len(found) > 1:
            return [_which(found, "change")]
        if text is None:
            return [Question(replies.NEW_WORDS.format(found[0].shown), "missing_context")]
        text = _new_words(found[0].description, target, text, inside=update.inside)
        if len(text) > MAX_DESCRIPTION:
            return [Question(replies.TOO_LONG, "missing_context")]
        return [_change("update_task", found[0].description, task_id=found[0].id, description=text)]

    def _delete(self, target: Reference, instead: str) -> list[_Result]:
        found = self._find(target, self.tasks, "delete", instead)
        if isinstance(found, Question):
            return [found]
        if not found:
            return [Answer(replies.listing(Show(target.status), ()), False)]
        self._deletions += found
        return []

    def _find(self, target: Reference, tasks: Sequence[Task], verb: str, instead: str = "") -> tuple[Task, ...] | Question:
        """Return the tasks that are meant, or the question that has to be asked."""
        if target.pronoun:
            if not self.context.mentioned:
                return _ask("which")
            target = Reference(exact=self.context.mentioned)
        if target.every:
            kept = self._find(read_reference(clause_of(target.but)), tasks, verb) if target.but else ()
            if isinstance(kept, Question):
                return kept
            tasks = [task for task in tasks if task not in kept]
            return tuple(task for task in tasks if target.status in {None, "completed" if task.completed else "pending"})
        if target.exact:
            # The same description may have been completed before; an open task is meant first.
            matches = sorted(exact_matches(target.exact, tasks), key=lambda task: task.completed)
            return tuple(matches[:1]) or find(target.exact, tasks)[0][:1] or _not_found(target.exact, verb)
        if target.places:
            return self._at(target.places, tasks, verb)
        if not target.words:
            return _which(tasks, verb) if tasks else _ask("which")
        named, possible = find(target.words, tasks)
        pending = tuple(task for task in named if not task.completed)
        if len(named) > 1 and len(pending) == 1:
            named = pending
        if len(named) == 1 or (len(named) == 2 and target.words.lower().startswith("both ")):
            return named
        if named:
            return _which(named, verb)
        if instead and (about := find(_object(target.words), tasks)[0]):
            # "I sent Sara the slides" may report "email Sara the slides"; a task without a verb is certainly meant.
            plain = len(about) == 1 and not is_action(_first_word(about[0].description))
            return about[:1] if plain or exact_matches(_object(target.words), tasks) else _which(about, verb)
        if instead:
            return Question(replies.OFFER_REPORTED.format(shown(instead)), "missing_context")
        if len(possible) == 1 and (target.told or verb == "delete"):
            return possible
        return _which(possible, verb) if possible else _not_found(target.words, verb)

    def _at(self, places: Sequence[int], tasks: Sequence[Task], verb: str) -> tuple[Task, ...] | Question:
        """A number means the list that the user saw last; without one, the list as it would be shown."""
        chosen = []
        for place in places:
            if self.context.listed:
                text = place_in(place, self.context.listed)
                matches = exact_matches(text, self.tasks) if text is not None else ()
            else:
                counted = (place_in(place, self.tasks), place_in(place, tasks))
                matches = tuple(task for task in counted if task is not None and task in tasks)[:1]
            if not matches:
                return Question(replies.NO_SUCH_PLACE.format(abs(place), verb), "missing_context")
            chosen.append(next((task for task in matches if not task.completed), matches[0]))
        return tuple(dict.fromkeys(chosen))

    def _each(self, target: Reference) -> tuple[Reference, ...]:
        """ "milk and rent": a reference for each part, if one of them names a task and they do not name one together."""
        words = target.words.removeprefix("both ")
        parts = [part for part in words.replace(" and ", ",").replace("&", ",").split(",") if part.strip()][:MAX_CHANGES]
        named = [find(part, self.tasks)[0] for part in parts]
        together = bool(exact_matches(words, self.tasks)) or len(set(named)) == 1
        if len(parts) < 2 or together or all(len(tasks) != 1 for tasks in named):
            return (target,)
        return tuple(Reference(words=part.strip()) for part in parts)


def _new_words(old: str, target: Reference, new: str, *, inside: bool) -> str:
    """A time is added to the description; "change milk to oat milk" changes "buy milk" to "buy oat milk"."""
    clause = clause_of(new)
    if is_time(clause):
        return merged(old, new)
    start = old.casefold().find(target.words.casefold()) if target.words and inside else -1
    if start <= 0 or starts_with_action(clause):
        return new
    return f"{old[:start]}{new}{old[start + len(target.words) :]}"


def _first_word(text: str) -> str:
    return text.lower().partition(" ")[0]


def _object(report: str) -> str:
    """Return what a report is about: "eggs" for "got the eggs"."""
    return read_reference(clause_of(report.partition(" ")[2])).words


def _change(tool: str, subject: str, **arguments: str) -> _Change:
    return _Change(FunctionCall(name=tool, arguments=arguments), subject)


def _already_done(tasks: Sequence[Task]) -> list[_Result]:
    return [Answer(replies.ALREADY_DONE.format(task.shown), False) for task in tasks]


def _offer(offer: Offer) -> _Result:
    text = shown(offer.text)
    if offer.other_list:
        return Question(replies.OTHER_LIST.format(shown(offer.other_list), text), "unclear_intent")
    if len(offer.items) > 1:
        return Question(replies.OFFER_ITEMS.format(text, len(offer.items)), "unclear_intent")
    template = replies.OFFER_OR_FIND if offer.bare else replies.OFFER
    return Question(template.format(*[text] * template.count("{}")), "unclear_intent")


def _say(kind: str) -> _Result:
    kind, _, detail = kind.partition(":")
    if kind == "which" and detail:
        return Question(replies.WHICH_SPECIFIC.format(detail), "missing_context")
    if kind == "not_read":
        return Answer(replies.NOT_READ.format(detail), False)
    if kind in replies.QUESTIONS:
        return _ask(kind)
    return Refusal(replies.REFUSALS[kind]) if kind in replies.REFUSALS else Answer(replies.ANSWERS[kind], False)


def _ask(kind: str) -> Question:
    return Question(*replies.QUESTIONS[kind])


def _which(tasks: Sequence[Task], verb: str) -> Question:
    return Question(f"{replies.WHICH.format(verb)}\n{replies.numbered(tasks)}", "multiple_matches")


def _not_found(words: str, verb: str) -> Question:
    return Question(replies.NOT_FOUND.format(shown(words), verb), "missing_context")
