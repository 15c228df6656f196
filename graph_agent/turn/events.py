"""What is told of a turn: the states it enters, the calls it makes, their receipts.

    live      from every step, as soon as its node has done its work
    recorded  from the record of a turn that has ended: the same events in the same order

A turn that is cut off tells live only the beginning of what its record tells. Nothing here says what was said: no prompt, no
argument, no result but the receipts, which are written for the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any

from graph_agent.graph.stepping import Step
from graph_agent.graph.topology import CHECK_ITERATIONS, END, EXECUTE_TOOLS, INVOKE_LLM, START, TOPOLOGY
from graph_agent.models.llm import LLMErrorCode, LLMResponse
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind, ToolInvocation
from graph_agent.models.tools import ToolResult
from graph_agent.policy.receipts import one_line, receipt
from graph_agent.reply.forms import ASK_USER, DECLINE, REPLY_FORMS
from graph_agent.policy.snapshot import Terms

_FORM_TITLES = MappingProxyType({ASK_USER: "Ask the user", DECLINE: "Decline"})
_UNLISTED = "A tool that does not exist"
_TITLES_TOLD = 64
"""A response with more calls than this is refused whole."""

_CUT_OFF = LLMResponse(finish_reason="error", error=LLMErrorCode.TIMEOUT)
"""The answer of a model call that the end of the turn did not wait for; it has no entry."""


class EventKind(StrEnum):
    STATE = "state"
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    RECEIPT = "receipt"
    DECISION = "decision"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One thing that happened, as plain JSON values."""

    kind: EventKind
    data: dict[str, Any]


def opening_event(terms: Terms) -> TurnEvent:
    """Every turn begins in the same state."""
    return _entered(START, 0, terms)


def step_events(step: Step, terms: Terms) -> Iterator[TurnEvent]:
    """What one node did, and the state that is entered next."""
    if step.state == INVOKE_LLM and step.turn.response is not None:
        yield _model_call(step.turn.response, terms)
    for call in step.turn.calls[len(step.before.calls) :]:
        yield _tool_call(call.sequence, call.call.name, call.disposition, call.result, terms)
        if call.receipt:
            yield _receipt(call.sequence, call.receipt)
    entered = TOPOLOGY[step.state][step.outcome]
    if entered != END:
        yield _entered(entered, step.turn.iterations, terms)


def record_events(record: DecisionRecord, terms: Terms) -> Iterator[TurnEvent]:
    """The events of a turn that has ended; `terms` are those that its header names."""
    responses = (LLMResponse.model_validate(entry.result) for entry in record.entries if entry.kind is EntryKind.MODEL)
    invocations = iter(record.invocations)
    response: LLMResponse | None = None
    iterations = 0
    for state in record.states:
        yield _entered(state, iterations, terms)
        if state == INVOKE_LLM:
            response = next(responses, _CUT_OFF)
            yield _model_call(response, terms)
        elif state == EXECUTE_TOOLS:
            for invocation in islice(invocations, _batch_size(response)):
                yield from _invocation(invocation, terms)
        elif state == CHECK_ITERATIONS:
            iterations += 1


def _batch_size(response: LLMResponse | None) -> int:
    """How many calls were judged together: those of the response that are none of the reply forms, or the confirmed one."""
    if response is None:
        return 1
    return sum(call.name not in REPLY_FORMS for call in response.function_calls or [])


def _invocation(invocation: ToolInvocation, terms: Terms) -> Iterator[TurnEvent]:
    result = ToolResult.model_validate(
        {
            "success": invocation.success,
            "data": invocation.result,
            "error": invocation.error_message,
            "error_code": invocation.error_code,
        }
    )
    yield _tool_call(invocation.sequence, invocation.tool_name, invocation.disposition, result, terms)
    rule = terms.policy.rules.get(invocation.tool_name)
    if rule is not None and invocation.disposition is CallDisposition.EXECUTED:
        told = receipt(rule, result)
        if told:
            yield _receipt(invocation.sequence, told)


def _entered(state: str, iterations: int, terms: Terms) -> TurnEvent:
    most = terms.config.max_iterations
    told = {"state": state, "iteration": min(iterations + 1, most), "max_iterations": most}
    return TurnEvent(EventKind.STATE, told)


def _model_call(response: LLMResponse, terms: Terms) -> TurnEvent:
    asked = [_title(call.name, terms) for call in islice(response.function_calls or [], _TITLES_TOLD)]
    told = {"finish_reason": response.finish_reason, "error": response.error, "calls": asked}
    return TurnEvent(EventKind.MODEL_CALL, told)


def _tool_call(sequence: int, name: str, disposition: CallDisposition, result: ToolResult, terms: Terms) -> TurnEvent:
    told = {
        "sequence": sequence,
        "tool_name": name,
        "title": _title(name, terms),
        "disposition": disposition,
        "success": result.success,
        "error_code": result.error_code,
    }
    return TurnEvent(EventKind.TOOL_CALL, told)


def _receipt(sequence: int, text: str) -> TurnEvent:
    return TurnEvent(EventKind.RECEIPT, {"sequence": sequence, "text": text})


def _title(name: str, terms: Terms) -> str:
    """What a call is called before people: never the name, which may be of the model's making."""
    if form := _FORM_TITLES.get(name):
        return form
    rule = terms.policy.rules.get(name)
    return one_line(rule.title) if rule is not None else _UNLISTED
