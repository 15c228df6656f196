"""The conversation as the model reads it: each call has exactly one response, in the order of the calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graph_agent.graph.state import Turn
from graph_agent.models.decision import EarlierCall, PendingAction
from graph_agent.models.llm import FunctionCall, LLMResponse
from graph_agent.models.origin import Origin
from graph_agent.models.prompt import Prompt, PromptMessage, answer_to, by_model, confirmed_calls
from graph_agent.models.result_size import fit_result
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.plan_check import plan_problem
from graph_agent.policy.reasons import Reason, ReasonCode
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.forms import ALL_FORMS, PROPOSE_PLAN
from graph_agent.words.readable import readable_data
from graph_agent.words.reasons import for_model

_CALLS_FIRST = "not now: the other calls come first; use this alone to end your turn"
_ALONE = "not now: use this alone to end your turn"

MAX_NOTES_CHARS = 2_000
"""Limit for the notes about the content of one result."""


def result_json(result: ToolResult, unread: Collection[str] | None = None) -> dict[str, Any]:
    """Return a tool result as the model reads it. `unread` are the fields that its server says only programs read."""
    response: dict[str, Any] = {"success": result.success}
    if result.data is not None:
        response["data"] = result.data if unread is None else readable_data(result.data, unread)
    if result.error is not None:
        response["error"] = result.error
    if result.error_code is not None:
        response["error_code"] = str(result.error_code)
    if notes := _content_notes(result):
        response["content"] = notes
    if result.unknown:
        response["outcome"] = "unknown: it may or may not have been done; say so"
    return fit_result(response)


def _content_notes(result: ToolResult) -> list[str]:
    """Return the links of a result, and what else it has that the model cannot read here; within `MAX_NOTES_CHARS`."""
    notes = [note for item in result.content if (note := item.note) is not None]
    shown: list[str] = []
    for note in notes:
        if sum(map(len, shown)) + len(note) > MAX_NOTES_CHARS:
            return [*shown, f"and {len(notes) - len(shown)} more"]
        shown.append(note)
    return shown


def with_round(prompt: Prompt, response: LLMResponse, turn: Turn, snapshot: PolicySnapshot) -> Prompt:
    """Return `prompt` with the calls of `response`, the one of this round, and a function response to each."""
    requested = response.function_calls or []
    tool_calls = iter(this_round(turn))
    messages = [by_model(response)]
    for call in requested:
        if call.name in ALL_FORMS:
            body = {"success": False, "error": _why_unused(call, requested, turn, snapshot)}
            messages.append(answer_to(call, body, Origin.CODE))
        else:
            messages.append(_read_result(next(tool_calls), snapshot.policy, call))
    return prompt.extended(*messages)


def _why_unused(form: FunctionCall, requested: Sequence[FunctionCall], turn: Turn, snapshot: PolicySnapshot) -> str:
    """Return the reason why a form did not end the turn, for the model. `requested` are all calls of its response."""
    is_plan = form.name == PROPOSE_PLAN
    if is_plan and not snapshot.offers_plans:
        return for_model(Reason(ReasonCode.NOT_LISTED))
    if turn.pending is not None and turn.pending.plan is not None:
        return for_model(Reason(ReasonCode.AWAITS_USER))
    why = _why_not_shown(form.arguments, turn, snapshot.policy) if is_plan else None
    if why is None and any(call.name not in ALL_FORMS for call in requested):
        return _CALLS_FIRST
    if why is None and any(call.name != form.name for call in requested):
        return _ALONE
    # A reply form alone ends the turn.
    return f"the plan was not shown to the user: {why or 'the rules let none of its calls run'}"


def _why_not_shown(plan: Mapping[str, Any], turn: Turn, policy: CompiledPolicy) -> str | None:
    """Return the reason why the user is not asked about a plan, wherever it stands in a response; None if there is none."""
    if (why := plan_problem(plan, policy)) is not None:
        return why
    if turn.has_unwanted_plan:
        return "the user has not agreed to a plan, and gets no second one for this message"
    return "a dry run asks the user nothing" if turn.context.dry_run else None


def with_confirmed_calls(prompt: Prompt, confirmed: PendingAction, calls: Sequence[TurnCall], policy: CompiledPolicy) -> Prompt:
    """Return `prompt` with the calls that the user has confirmed, after the changes that were made before the question."""
    earlier = [(FunctionCall(name=one.tool_name, arguments=one.arguments), _earlier(one)) for one in confirmed.done_before]
    requested = confirmed_calls([*(call for call, _ in earlier), *(call.call for call in calls)])
    answers = [answer_to(call, body, Origin.CODE) for call, body in earlier]
    return prompt.extended(requested, *answers, *(_read_result(call, policy, call.call) for call in calls))


def _earlier(call: EarlierCall) -> dict[str, Any]:
    if call.unknown:
        return {"success": False, "outcome": "unknown: it may or may not have been done, before the user was asked; say so"}
    return {"success": True, "note": "done already, before the user was asked"}


def _read_result(call: TurnCall, policy: CompiledPolicy, requested: FunctionCall) -> PromptMessage:
    rule = policy.rules.get(call.call.name)
    body = result_json(call.result, None if rule is None else rule.traits.unread)
    return answer_to(requested, body, call.origin(policy))


def this_round(turn: Turn) -> tuple[TurnCall, ...]:
    """Return the calls of the current round."""
    return tuple(call for call in turn.calls if call.iteration == turn.iterations + 1)
