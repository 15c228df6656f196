"""The embedded model: the plan of a turn. Which tasks are meant, which calls to make, and what to say about each request.

The plan is computed anew in every round, from the same messages; the calls that were made are its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.llm.embedded import dialogue, references
from graph_agent.llm.embedded.dialogue import VERBS, Context, Reply, answer, ask, read_context, resolve, which
from graph_agent.llm.embedded.reading import Reading, items_of, parts_of, read
from graph_agent.llm.embedded.references import KnownTask, bare, exact, find_named
from graph_agent.llm.embedded.templates import begins_with, contains, is_rule, meanings
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMRequest, LLMResponse
from graph_agent.reply.forms import ANSWER, ASK_USER, DECLINE

CALLS_PER_ROUND: Final = 5
MAX_CHANGES: Final = 9
MAX_DESCRIPTION: Final = 1000
TASK_TOOLS: Final = frozenset({"list_tasks", "add_task", "complete_task", "update_task", "delete_task"})
_TOOLS: Final = {"Complete": "complete_task", "Delete": "delete_task", "Update": "update_task"}

Step = list[FunctionCall] | Reply
_Result = FunctionCall | Reading | Reply


def next_step(said: Sequence[str], message: str, responses: Sequence[FunctionResponse], offered: frozenset[str]) -> Step:
    """Return the next calls of the turn, or its reply. `said` are earlier replies, `responses` answer the calls made so far."""
    if not TASK_TOOLS & offered:
        return replace(answer("no_tasks_here"), form=DECLINE)
    context = read_context(said)
    found = read(message, context.facts)
    if isinstance(found, str):
        return dialogue.not_understood(message, found)
    requests = [request for reading in found for request in resolve(reading, context)]
    listed = next((one.response for one in responses if one.name == "list_tasks"), None)
    if listed is not None and listed.get("success") is not True:
        return answer("list_failed")
    tasks, unread = _tasks_in(listed or {}), (listed or {}).get("truncated", "")
    if unread:
        requests = [_not_all(one) for one in requests]
    made = [one.response for one in responses if one.name != "list_tasks"]
    results = _plan(requests, tasks, context)
    calls = [one for one in results if isinstance(one, FunctionCall)][len(made) :]
    if listed is None and any(isinstance(one, Reading) and one.intent in {"Show", "Find", *_TOOLS} for one in requests):
        status = requests[0].metadata.get("status") if len(requests) == 1 and isinstance(requests[0], Reading) else None
        calls = [FunctionCall(name="list_tasks", arguments={"status": status} if status else {})]
    if not offered.issuperset(call.name for call in calls):
        return replace(answer("not_possible"), form=DECLINE)
    return calls[:CALLS_PER_ROUND] or _reply(results, tasks, made, unread)


def _not_all(request: Reading | Reply) -> Reading | Reply:
    """Return the question which tasks are meant, if the request is to change all of a list that was not read to its end."""
    if isinstance(request, Reading) and request.intent in _TOOLS and is_rule("every", request.slots.get("ref", "")):
        return ask("which_to", VERBS[request.intent])
    return request


def _tasks_in(response: dict[str, Any]) -> list[KnownTask]:
    """Return the tasks of a listing, newest first, or the task that a change returned."""
    match response.get("data"):
        case {"tasks": [*items]}:
            return [task for item in items for task in _tasks_in({"data": {"task": item}})]
        case {"task": {"id": str(task_id), "description": str(description), **rest}}:
            return [KnownTask(task_id, description, completed=rest.get("status") == "completed")]
    return []


def _plan(requests: Sequence[Reading | Reply], tasks: Sequence[KnownTask], context: Context) -> list[_Result]:
    """Return the results of all requests, a deletion last. As long as one of them is a question, nothing is changed."""
    planner = _Planner(tasks, context)
    found = [one for request in requests for one in ([request] if isinstance(request, Reply) else planner.results(request))]
    results = [one for place, one in enumerate(found) if one not in found[:place]]
    results.sort(key=lambda one: isinstance(one, FunctionCall) and one.name == "delete_task")
    calls = [one for one in results if isinstance(one, FunctionCall)]
    if len(calls) > MAX_CHANGES:
        return [ask("too_many")]
    if calls and any(isinstance(one, Reply) and one.form == ASK_USER for one in results):
        return [answer("nothing_yet"), *(one for one in results if not isinstance(one, FunctionCall))]
    return results


@dataclass(frozen=True, slots=True)
class _Planner:
    tasks: Sequence[KnownTask]
    context: Context

    def results(self, one: Reading) -> list[_Result]:
        """Return the calls of a request, or what is to be said about it."""
        match one.intent:
            case "Add":
                return self._add(one)
            case "Complete" | "Delete" | "Update":
                return self._change(one)
            case "Show" | "Find":
                return [one]
            case _:
                form = {"decline": DECLINE, "ask": ASK_USER}.get(one.metadata.get("form", ""), ANSWER)
                return [Reply(form, one.metadata["response"], "missing_context" if form == ASK_USER else "")]

    def _add(self, one: Reading) -> list[_Result]:
        slots, metadata = one.slots, one.metadata
        text = slots.get("text") or slots.get("bare") or f"{slots.get('chore', '')} {slots['task']}".strip()
        when = slots.get("day") or f"{slots.get('when_word', '')} {slots.get('when', '')}".strip()
        if "bare" not in slots and (not re.search(r"\w", text) or is_rule("vague", text) or is_rule("time", text)):
            return [ask("what_to_add")]
        if len(text) > MAX_DESCRIPTION:
            return [ask("too_long")]
        if metadata.get("offer") or not (metadata.get("clear") or _is_clear(one, text)):
            return [self._offer(slots, text)]
        items = [text] if metadata.get("one") else parts_of(text) if metadata.get("several") else items_of(text)
        calls = [FunctionCall(name="add_task", arguments={"description": f"{item} {when}".strip()}) for item in items]
        timed = metadata.get("reminder") and (when or contains("time", text))
        return [*calls, answer("no_alarm")] if timed else [*calls]

    def _offer(self, slots: Mapping[str, str], text: str) -> Reply:
        if "container" in slots or "other_list" in slots:
            other = " ".join(["my", *slots.get("other_list", "").split(), slots.get("container", "list")])
            return ask("other_list", other, text, reason="unclear_intent")
        if len(items := items_of(text, bare="bare" in slots)) > 1:
            return ask("offer_items", text, str(len(items)), reason="unclear_intent")
        unlike = "bare" in slots and (is_rule("time", text) or len(text.split()) > 3 or not re.fullmatch(r"[\w' -]+", text))
        if unlike or len(text) > references.SHOWN_LENGTH:
            return dialogue.not_understood(text)
        return ask("offer_or_find" if "bare" in slots else "offer", text, text, reason="unclear_intent")

    def _change(self, one: Reading) -> list[_Result]:
        """Return the changes of the tasks that are meant, or the question that has to be asked."""
        one = self._divided(one) if one.slots.get("new") else one
        found = self._reported(one) if one.metadata.get("report") else self._meant(one)
        if isinstance(found, Reply):
            return [found]
        every = one.intent == "Delete" and is_rule("every", one.slots.get("ref", ""))
        if len(found) > 1 and (every or one.intent == "Update"):
            return [which(found, VERBS[one.intent], "which_first" if every else "which")]
        return [self._changed(one, task) for task in found]

    def _divided(self, one: Reading) -> Reading:
        """Return the update divided at the "to" before which a task ends: "change go to gym to go to pool"."""
        words = f"{one.slots.get('ref', '')} to {one.slots['new']}"
        joints = islice(re.finditer(" to ", words), MAX_CHANGES)
        parts = ((words[: joint.start()], words[joint.end() :]) for joint in joints)
        divided = next(({"ref": ref, "new": new} for ref, new in parts if exact(ref, self.tasks)), one.slots)
        return replace(one, slots=divided)

    def _changed(self, one: Reading, task: KnownTask) -> FunctionCall | Reply:
        if one.intent == "Complete" and task.completed:
            return answer("already_done", task.description)
        if one.intent != "Update":
            return FunctionCall(name=_TOOLS[one.intent], arguments={"task_id": task.id})
        new, ref = one.slots.get("new", ""), one.slots.get("ref", "")
        # "Change the milk task to oat milk" does not say if "buy" is to stay; "change it to 8" would lose the rest.
        by_name = ref and not references.places_of(ref)
        clear = references.has_no_other_word(task, ref) if by_name else references.share_a_word(task.description, new)
        sure = clear or new.split()[:1] == task.description.split()[:1] or ("exact" in one.slots and not one.metadata)
        if not new or not sure or len(new) > MAX_DESCRIPTION or contains("doubt", new):
            return ask("new_words", task.description)
        return FunctionCall(name="update_task", arguments={"task_id": task.id, "description": new})

    def _reported(self, one: Reading) -> list[KnownTask] | Reply:
        """A report completes only a task that says the same: "I called mom" is not about "call mom about the car"."""
        ref = bare(f"{meanings('past')[one.slots['past'].lower()]} {one.slots.get('rest') or one.slots['thing']}")
        found = self._meant(replace(one, slots={"ref": ref}))
        if isinstance(found, list) and len(found) == 1 and not references.has_no_other_word(found[0], ref):
            return ask("match", ref, found[0].description, VERBS["Complete"])
        return found

    def _meant(self, one: Reading) -> list[KnownTask] | Reply:
        """Return the tasks that a reference means, or the question that has to be asked."""
        verb, ref = VERBS[one.intent], one.slots.get("exact") or one.slots["ref"]
        wanted = [task for task in self.tasks if one.intent != "Complete" or not task.completed]
        among = [task for text in one.metadata.get("among", ()) for task in exact(text, self.tasks)]
        if same := exact(ref, wanted) or exact(ref, self.tasks):
            return same[:1]
        if "exact" in one.slots:
            return ask("not_found", ref, verb)
        if is_rule("every", ref):
            chosen = among or wanted
            both = ref.lower().startswith("both") and len(chosen) != 2
            if not chosen:
                return answer("none", "pending") if self.tasks else answer("empty")
            return ask("which_to", verb) if both else chosen
        if is_rule("every_finished", ref):
            return [task for task in self.tasks if task.completed] or answer("none", "completed")
        if places := references.places_of(ref):
            return self._at(places, verb)
        parts = parts_of(ref.removeprefix("both "))
        if len(parts) > 1 and not find_named(ref, self.tasks):
            each = [self._meant(replace(one, slots={"ref": part})) for part in parts[:MAX_CHANGES]]
            question = next((found for found in each if isinstance(found, Reply)), None)
            return question or [task for found in each if isinstance(found, list) for task in found]
        return self._named(bare(ref), among or wanted, verb, reported=bool(one.metadata.get("report")))

    def _named(self, ref: str, wanted: Sequence[KnownTask], verb: str, *, reported: bool) -> list[KnownTask] | Reply:
        found = find_named(ref, wanted) or find_named(ref, self.tasks)
        if len(found) > 1:
            return which(found, verb)
        similar = references.find_similar(ref, found or wanted)
        # "Call" alone names "call mom" by its verb only, so it is asked about.
        if found and (similar or not begins_with("chores", found[0].description)):
            return found
        if len(similar := found or similar) == 1:
            return ask("match", ref, similar[0].description, verb)
        return ask("offer_reported", ref) if reported else ask("not_found", ref, verb)

    def _at(self, places: Sequence[int], verb: str) -> list[KnownTask] | Reply:
        """Return the tasks at these places of the list that the user saw last, or as it would be shown."""
        shown = self.context.listed or [task.description for task in self.tasks]
        found: list[KnownTask] = []
        for place in places:
            if not 0 < abs(place) <= len(shown):
                return ask("no_such_place", str(abs(place)), verb)
            index = range(len(shown))[place - (place > 0)]
            if not (same := exact(shown[index], self.tasks)):
                return ask("not_found", shown[index], verb)
            # Of equal tasks the one at the same place among them is meant.
            found += same[shown[:index].count(shown[index]) :][:1] or same[-1:]
        return found


def _is_clear(one: Reading, text: str) -> bool:
    """True if the text can hardly be anything but a task; in "add X to my Y" and "add 5 to 17" it can."""
    if contains("doubt", text) or begins_with("leftover", text):
        return False
    elsewhere = contains("elsewhere", text) and not begins_with("chores", text)
    counted = re.match(r"\d[\d.,]* (?:and|to|plus) ", text)
    plain = not {"one", "several", "reminder"}.intersection(one.metadata)
    return not (plain and (elsewhere or counted or contains("leftover", text) or begins_with("unclear", text)))


def _reply(results: Sequence[_Result], tasks: Sequence[KnownTask], responses: Sequence[dict[str, Any]], unread: str) -> Reply:
    """Compose the reply in the order of the requests; the first question comes last. `unread` says what the list lacks."""
    waiting = iter(responses)
    before = {task.id: task for task in reversed(tasks)}
    after = list(reversed((before | {task.id: task for response in responses for task in _tasks_in(response)}).values()))
    parts: list[Reply] = []
    for one in results:
        if isinstance(one, FunctionCall):
            parts.append(dialogue.report(one, before.get(one.arguments.get("task_id", "")), next(waiting)))
        elif isinstance(one, Reading):
            verb = meanings("past").get(one.slots.get("past", "").lower(), "")
            about = one.slots.get("ref") or f"{verb} {one.slots.get('rest') or one.slots.get('thing', '')}".strip()
            parts.append(dialogue.listing(after, one.metadata.get("status", ""), bare(about), whole=not unread))
        else:
            parts.append(one)
    if unread and not all(isinstance(one, FunctionCall) for one in results):
        parts.insert(0, answer("unread", unread))
    questions = [part for part in parts if part.form == ASK_USER][:1]
    parts = [part for part in parts if part.form != ASK_USER] + questions
    text = "\n".join(dict.fromkeys(part.text for part in parts))
    if questions:
        return replace(questions[0], text=text)
    form = DECLINE if all(part.form == DECLINE for part in parts) else ANSWER
    return Reply(form, text, reports_change=any(response.get("success") is True for response in responses))


class EmbeddedAdapter(RequestAdapter):
    """An offline, deterministic and stateless model for English.

    It calls only tools that are offered, and replies by the reply forms where they are offered, otherwise in plain text.
    """

    model = "embedded"
    knows = TASK_TOOLS
    """The tools that it can call. It answers nothing where none of them is granted."""

    async def respond(self, request: LLMRequest) -> LLMResponse:
        """Return the next calls of the turn that the messages end in, or its reply. Never raises."""
        messages = request.messages
        offered = frozenset(tool.name for tool in request.tools)
        start = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
        said = [message.content for message in messages[:start] if message.role == "assistant" and message.content]
        asked = next((message.content for message in messages[start:] if message.role == "user"), None) or ""
        responses = [message.function_response for message in messages[start:] if message.function_response]
        step = next_step(said, asked, responses, offered)
        if isinstance(step, list):
            return LLMResponse(function_calls=step, finish_reason="tool_calls")
        if step.form not in offered:
            return LLMResponse(content=step.text, finish_reason="stop")
        arguments: dict[str, Any] = {"question": step.text, "reason": step.reason}
        if step.form != ASK_USER:
            arguments = {"text": step.text} | ({"reports_change": step.reports_change} if step.form == ANSWER else {})
        call = FunctionCall(name=step.form, arguments=arguments)
        return LLMResponse(function_calls=[call], finish_reason="tool_calls")
