"""The events of a turn: the states it enters, the calls it makes, and their receipts.

Except for the call that is running and its progress, they are derived from the steps of the graph: of a running turn as each
node ends, of a finished turn by walking it again over its record. Both give the same events in the same order. Events contain
no prompt and no result. Their texts are receipts and rules, which are written for the user, the arguments of calls, and what a
server says about its progress.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any

from graph_agent.graph.step import Step
from graph_agent.graph.topology import END, INVOKE_LLM, START
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import CallDisposition
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.turn_call import TurnCall
from graph_agent.record.operations import state_of
from graph_agent.reply.authored import plain
from graph_agent.reply.forms import ANSWER, ASK_USER, DECLINE
from graph_agent.reply.text import one_line
from graph_agent.tools.progress import ToolProgress
from graph_agent.turn.finished import sent_entries
from graph_agent.turn.handle import RunningCall
from graph_agent.words.reasons import rule_of

_FORM_TITLES = MappingProxyType({ANSWER: "Answer", ASK_USER: "Ask the user", DECLINE: "Decline"})
_UNLISTED = "A tool that does not exist"
_MAX_TITLES = 64
"""A response with more calls than this is refused whole."""


class EventKind(StrEnum):
    STATE = "state"
    """The turn enters a state."""
    MODEL_CALL = "model_call"
    """The model has answered. `calls` has the titles of the requested calls, `arguments` theirs, null for a reply form."""
    CALL = "call"
    """A call to the model or a tool is running, `ms` until now. It is not recorded and has no id."""
    TOOL_CALL = "tool_call"
    """A requested call has been executed or refused, repeats an earlier one, awaits confirmation or was skipped."""
    PROGRESS = "progress"
    """The latest report of the server of a running tool, at most five times a second. It is not recorded and has no id."""
    RECEIPT = "receipt"
    """A line about a committed change, composed by code. `sequence` is that of its call."""
    DECISION = "decision"
    """The answer of `POST /api/chat`; the last event of a turn."""
    ERROR = "error"
    """The envelope of errors, instead of a decision. The same Idempotency-Key goes on with the turn."""


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One event of a turn; `data` holds plain JSON values."""

    kind: EventKind
    data: dict[str, Any]


def opening_event(snapshot: PolicySnapshot) -> TurnEvent:
    """Return the first event of every turn: the state that it starts in."""
    return _entered(START, 0, snapshot)


def step_events(step: Step, snapshot: PolicySnapshot) -> Iterator[TurnEvent]:
    """Yield what one node did, and the state that is entered next."""
    if step.state == INVOKE_LLM and step.turn.response is not None:
        yield _model_call(step, step.turn.response, snapshot)
    for call in step.turn.calls[len(step.before.calls) :]:
        yield _tool_call(step, call, snapshot)
        if call.receipt:
            yield TurnEvent(EventKind.RECEIPT, {"sequence": call.sequence, "text": plain(call.receipt)})
    if step.entered != END:
        yield _entered(step.entered, step.turn.iterations, snapshot, step.ended_us)


def progress_event(progress: ToolProgress) -> TurnEvent:
    """Return the event for a server's report on the call that is running."""
    message = None if progress.message is None else one_line(progress.message)
    return TurnEvent(EventKind.PROGRESS, {"done": progress.done, "total": progress.total, "message": message})


def call_event(call: RunningCall, snapshot: PolicySnapshot) -> TurnEvent:
    """Return the event for the call that is running."""
    title = None if call.tool_name is None else _title(call.tool_name, snapshot)
    return TurnEvent(EventKind.CALL, {"title": title, "mode": call.mode, "ms": call.ms})


def _entered(state: str, iterations: int, snapshot: PolicySnapshot, at_us: int = 0) -> TurnEvent:
    cap = snapshot.config.max_iterations
    data = {"state": state, "iteration": min(iterations + 1, cap), "max_iterations": cap, "at_ms": at_us / 1000}
    return TurnEvent(EventKind.STATE, data)


def _model_call(step: Step, response: LLMResponse, snapshot: PolicySnapshot) -> TurnEvent:
    calls = list(islice(response.function_calls or [], _MAX_TITLES))
    data = {
        "finish_reason": response.finish_reason,
        "error": response.error_code,
        "calls": [_title(call.name, snapshot) for call in calls],
        "arguments": [None if call.name in _FORM_TITLES else call.arguments for call in calls],
        "tokens": None if response.usage is None else response.usage.total_tokens,
        "ms": sum(entry.ms for entry in step.entries),
    }
    return TurnEvent(EventKind.MODEL_CALL, data)


def _tool_call(step: Step, call: TurnCall, snapshot: PolicySnapshot) -> TurnEvent:
    sent = sent_entries(step.entries, step.turn, call)
    rule = snapshot.policy.rules.get(call.call.name)
    is_change = rule is not None and rule.mutating and call.disposition is CallDisposition.EXECUTED
    data = {
        "sequence": call.sequence,
        "tool_name": call.call.name,
        "title": _title(call.call.name, snapshot),
        "arguments": call.arguments,
        "disposition": call.disposition,
        "gate": call.gate or None,
        "rule": rule_of(call) or None,
        "success": call.result.success,
        "error_code": call.result.error_code,
        "operation": state_of(call.result.success, call.result.error_code) if is_change else None,
        "ms": sum(entry.ms for entry in sent) if sent else None,
    }
    return TurnEvent(EventKind.TOOL_CALL, data)


def _title(name: str, snapshot: PolicySnapshot) -> str:
    """Return the title of a call. The name itself is not shown, because the model may have invented it."""
    if form := _FORM_TITLES.get(name):
        return form
    rule = snapshot.policy.rules.get(name)
    return one_line(rule.title) if rule is not None else _UNLISTED
