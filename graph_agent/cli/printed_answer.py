"""The answer to a message, as `graph-agent ask` prints it."""

from __future__ import annotations

import shlex
from collections.abc import Coroutine
from typing import Any

import typer

from graph_agent.audit.findings import failure_cause
from graph_agent.chat.answer import ChatAnswer
from graph_agent.cli.running import Run, print_stderr
from graph_agent.cli.show import json_line, print_answer, print_result
from graph_agent.errors import GraphAgentError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import AgentDecision
from graph_agent.models.record import DecisionRecord, OpenTurn

_FAILURES = ("ERROR:", "REFUSAL:RATE_LIMITED")


def send_and_print(run: Run, sending: Coroutine[Any, Any, ChatAnswer], *, as_json: bool) -> ChatAnswer:
    """Send one message, print its answer, and return it."""
    try:
        answer = run(sending)
    except ServiceError as exc:
        if as_json:
            typer.echo(json_line(_error(exc)))
        raise
    print_reply(answer, as_json=as_json)
    return answer


def print_reply(answer: ChatAnswer, *, as_json: bool) -> None:
    """Print an answer."""
    print_result(_answer(answer), lambda: print_answer(answer.decision), as_json=as_json)


def print_hints(answer: ChatAnswer, whose: list[str], *, named: bool, verbose: bool) -> None:
    """Print how to answer the question of an answer, with the options `whose`, and its conversation if it is `named`."""
    pending = answer.decision.pending_action
    if pending is not None:
        by_id = f"; by id: {shlex.join(['graph-agent', 'questions', 'answer', pending.id, *whose])}" if verbose else ""
        print_stderr(f"to answer: {shlex.join(['graph-agent', 'ask', *whose, '-c'])}{by_id}")
    if named:
        print_stderr(f"conversation: {answer.conversation_id}")


def print_reason(record: OpenTurn | DecisionRecord | None) -> None:
    """Print why a message could not be served."""
    if isinstance(record, DecisionRecord) and (cause := failure_cause(record)) is not None:
        print_stderr(f"the cause: {cause}")
    print_stderr("the reason: graph-agent log show last")


def _answer(answer: ChatAnswer) -> dict[str, Any]:
    """Return the JSON object that `ask --json` prints."""
    reply = {**answer.reply_json(), "states": answer.states}
    return {name: reply[name] for name in ("decision", "states", "conversation_id", "decision_id", "reply")}


def failed(decision: AgentDecision) -> bool:
    """True if the message could not be served. A refusal because it is out of scope counts as served."""
    return (decision.outcome_category or "").startswith(_FAILURES)


def _error(exc: GraphAgentError) -> dict[str, Any]:
    if isinstance(exc, ServiceError):
        found = {"decision_id": exc.decision_id} if exc.decision_id else {}
        return {"error": {"code": exc.code.value, "message": exc.message, **found}}
    return {"error": {"code": ServiceErrorCode.SERVICE_UNAVAILABLE.value, "message": "The request cannot be served right now."}}
