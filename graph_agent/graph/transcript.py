"""The conversation as the model reads it: each call has exactly one response, in the order of the calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from graph_agent.policy.turn_call import TurnCall
from graph_agent.reply.forms import ALL_FORMS, PROPOSE_PLAN
from graph_agent.words.readable import readable_data

_NOT_NOW = {"success": False, "error": "not now: the other calls were run first; use this alone to end your turn"}

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


def with_round(prompt: Prompt, response: LLMResponse, calls: tuple[TurnCall, ...], policy: CompiledPolicy) -> Prompt:
    """Return `prompt` with the calls of `response` and a function response to each.

    `calls` are the tool calls of this round, without reply forms.
    """
    requested = response.function_calls or []
    tool_calls = iter(calls)
    messages = [by_model(response)]
    for call in requested:
        form = call.name in ALL_FORMS
        messages.append(
            answer_to(call, _not_now(call, policy), Origin.CODE) if form else _read_result(next(tool_calls), policy, call)
        )
    return prompt.extended(*messages)


def _not_now(form: FunctionCall, policy: CompiledPolicy) -> dict[str, Any]:
    """Return the answer to a form that did not end the turn."""
    why = plan_problem(form.arguments, policy) if form.name == PROPOSE_PLAN else None
    return _NOT_NOW if why is None else {"success": False, "error": f"the plan was not shown to the user: {why}"}


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
