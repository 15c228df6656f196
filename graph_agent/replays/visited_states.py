"""The states of a closed turn in full: the request to the model and its response, and each call with its verdict and outcome.

A record has only the digests of requests. The requests are rebuilt by walking the turn again over its record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from graph_agent.errors import GraphAgentError
from graph_agent.graph.state import Turn
from graph_agent.graph.step import Step
from graph_agent.graph.topology import INVOKE_LLM
from graph_agent.models.base import Frozen
from graph_agent.models.canonical import digest
from graph_agent.models.llm import LLMMessage, LLMRequest, LLMResponse, ToolChoice
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind, RecordEntry
from graph_agent.models.sources import NO_CALLS, EarlierCalls
from graph_agent.models.tools import ToolResult
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.policy.turn_call import TurnCall
from graph_agent.replays.argument_sources import ArgumentSources, sources_in_words
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import sent_entries

_log = logging.getLogger(__name__)

_SYSTEM_CHARACTERS = 300
"""The part of the system prompt that is shown. It is mostly the constitution, which has its own route."""


class LedgerOutcome(StrEnum):
    """The effect of a call that was sent, or of the call that it repeats, as its server reports it under the operation key."""

    DONE_ONCE = "done_once"
    NOT_DONE = "not_done"
    """The call failed for certain: it had no effect."""
    REPEATED = "repeated"
    """The call was not sent again: it got the result of an identical earlier one."""
    SETTLED = "settled"
    """The outcome was unknown at first; the server reported it later, in the turn or after it."""
    UNKNOWN = "unknown"
    NO_LEDGER = "no_ledger"
    """The server keeps no ledger for this tool, and does not take the operation key as an argument."""
    NOT_NEEDED = "not_needed"
    """The call is a read."""


class ModelRequest(Frozen):
    """A request to the model, with the names of the tools instead of their declarations, and a shortened system prompt."""

    system_instruction: str
    """The first characters of the system prompt."""
    system_digest: str
    messages: list[LLMMessage]
    tools: list[str]
    tool_choice: ToolChoice
    temperature: float
    max_tokens: int

    @classmethod
    def of(cls, request: LLMRequest) -> ModelRequest:
        system = request.system_instruction or ""
        shown = {
            "system_instruction": system[:_SYSTEM_CHARACTERS],
            "system_digest": digest(system),
            # The provider's own form of a message is only for its adapter.
            "messages": [message.replace(provider_parts=None) for message in request.messages],
            "tools": [tool.name for tool in request.tools],
        }
        return cls.model_validate({**dict(request), **shown})


class JudgedCall(Frozen):
    """A call with the guard's verdict and its outcome."""

    sequence: int
    tool_name: str
    arguments: dict[str, Any]
    verdict: CallDisposition | Literal["permitted"]
    """"permitted" for a call that was sent, and otherwise its disposition."""
    gate: str | None
    """The gate that stopped the call; None for one that has passed all of them."""
    reason: str | None
    """Why the call was not made, or the error of one that was."""
    error_code: str | None
    success: bool
    result: Any
    ledger: LedgerOutcome | None
    """None for a call that was not sent and repeats none."""
    duration_ms: int | None
    """None for a call that was not sent."""
    sources: ArgumentSources
    """Source of each argument's value, in words; a switch and a choice of the schema have no source."""


class VisitedState(Frozen):
    """One visit of a state. `request` and `response` belong to the call of the model, `calls` to the execution of tools."""

    state: str
    outcome: str
    duration_ms: int | None
    """The time that the calls of the state took; None if it made none."""
    request: ModelRequest | None = None
    response: LLMResponse | None = None
    calls: list[JudgedCall] = Field(default_factory=list)


async def visited_states(
    engine: LLMAgentEngine, record: DecisionRecord, settled: Mapping[int, ToolResult], earlier: EarlierCalls = NO_CALLS
) -> list[VisitedState]:
    """Return the states of a closed turn, in order, as far as this version can walk the record.

    `settled` has, by the sequence of a call, the results that were settled after the turn; `earlier` are the calls of the turns
    before it in the conversation.
    """
    if not record.states:
        # The message was refused before the graph was entered.
        return []
    steps: list[Step] = []
    snapshot = None
    try:
        snapshot = await engine.snapshot_of(record.header)
        async for step in engine.steps_of(record, snapshot):
            steps.append(step)  # noqa: PERF401 (the steps before a failure are kept)
    except (GraphAgentError, LookupError, ValueError) as exc:
        _log.warning("decision %s cannot be walked again", record.header.decision_id, exc_info=exc)
    if snapshot is None:
        return []
    sources = sources_in_words(record, steps, snapshot.policy, earlier)
    return list(_visits(record, steps, snapshot, settled, sources))


def _visits(
    record: DecisionRecord,
    steps: list[Step],
    snapshot: PolicySnapshot,
    settled: Mapping[int, ToolResult],
    sources: Mapping[int, ArgumentSources],
) -> Iterator[VisitedState]:
    # An interrupted turn enters the state without asking the model, but asks it never again: its entries come first.
    model_entries = iter(entry for entry in record.entries if entry.kind is EntryKind.MODEL)
    for step in steps:
        if step.state == INVOKE_LLM:
            entry = next(model_entries, None)
            yield _model_visit(step, None if entry is None else entry.ms)
            continue
        made = step.turn.calls[len(step.before.calls) :]
        rules, end = snapshot.policy.rules, steps[-1].turn
        calls = [_judged(record, end, call, rules.get(call.call.name), settled, sources) for call in made]
        times = [call.duration_ms for call in calls if call.duration_ms is not None]
        yield VisitedState(state=step.state, outcome=step.outcome, duration_ms=sum(times) if times else None, calls=calls)


def _model_visit(step: Step, ms: int | None) -> VisitedState:
    request, response = step.before.request, step.turn.response
    if response is not None:
        # The adapter's own text of an error is recorded, and not shown to users.
        response = response.replace(provider_parts=None, error=response.error_code)
    return VisitedState(
        state=step.state,
        outcome=step.outcome,
        duration_ms=ms,
        request=None if request is None else ModelRequest.of(request),
        response=response,
    )


def _judged(
    record: DecisionRecord,
    end: Turn,
    call: TurnCall,
    rule: ToolRule | None,
    settled: Mapping[int, ToolResult],
    sources: Mapping[int, ArgumentSources],
) -> JudgedCall:
    sent = sent_entries(record.entries, end, call)
    result = settled.get(call.sequence, call.result)
    return JudgedCall(
        sequence=call.sequence,
        tool_name=call.call.name,
        arguments=call.arguments,
        verdict="permitted" if call.disposition is CallDisposition.EXECUTED else call.disposition,
        gate=call.gate or None,
        reason=result.error,
        error_code=result.error_code,
        success=result.success,
        result=result.data,
        ledger=_ledger_outcome(call, result, rule, sent, later=call.sequence in settled),
        duration_ms=sum(entry.ms for entry in sent) if sent else None,
        sources=sources.get(call.sequence, {}),
    )


def _ledger_outcome(
    call: TurnCall, result: ToolResult, rule: ToolRule | None, sent: list[RecordEntry], *, later: bool
) -> LedgerOutcome | None:
    if call.disposition is CallDisposition.REPEATED:
        return LedgerOutcome.REPEATED
    if call.disposition is not CallDisposition.EXECUTED or rule is None:
        return None
    if not rule.mutating:
        return LedgerOutcome.NOT_NEEDED
    if not rule.traits.ledger and rule.key is None:
        return LedgerOutcome.NO_LEDGER
    if result.unknown:
        return LedgerOutcome.UNKNOWN
    if later or any(entry.kind is EntryKind.SETTLE for entry in sent):
        return LedgerOutcome.SETTLED
    return LedgerOutcome.DONE_ONCE if result.success else LedgerOutcome.NOT_DONE
