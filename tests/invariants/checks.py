"""The checks that every finished turn must pass, whatever the model sent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from graph_agent.clock import ManualClock
from graph_agent.graph.state import Turn, TurnRuntime
from graph_agent.graph.stepping import walk
from graph_agent.graph.topology import END, START, TOPOLOGY
from graph_agent.models.decision import DecisionContext, DecisionType, PendingAction
from graph_agent.models.llm import LLMMessage
from graph_agent.models.record import CallDisposition, DecisionRecord, EntryKind, RecordStatus
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.consent import Consent, read_consent
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.reply.fixed import ONE_AT_A_TIME
from graph_agent.reply.forms import ANSWER, REPLY_FORMS
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from graph_agent.turn.recorder import Recorder
from graph_agent.words.confirmation import digest_of_call
from graph_agent.words.said import NOTHING_KNOWN
from tests.scripted_turns import SECRET, TableServer, asked_under

CANARY = "CANARY-7f3a"
"""The marker in every injected exception and in every task of another user: a reply that contains it has leaked."""

TASK = "00000000-0000-0000-0000-0000000000aa"
WHITELIST = Constitution.load().whitelist
CONFIRMED_TOOL = "delete_task"
"""The one tool of the shipped constitution that needs the user's confirmation."""

_INTERNAL_NAMES = {*WHITELIST, *REPLY_FORMS, "default_api"} - {ANSWER}
"""Names that must not appear in a reply. The form `answer` is left out because it is an ordinary word too."""

_POLICY = compile_policy(Constitution.load(), TASK_TOOLS, {})

SentCall = tuple[str, dict[str, Any], str, str | None]
"""Tool name, arguments, user id and operation key of a call that reached the server."""


def confirmed_action(
    signer: Signer, now: datetime, user_id: str = "ann", task_id: str = TASK, server: TableServer | None = None
) -> PendingAction:
    """Return a signed deletion that waits for the user's confirmation, as an earlier turn would have left it."""
    unsigned = PendingAction.model_validate(
        {
            "id": "p1",
            "tool_name": CONFIRMED_TOOL,
            "arguments": {"task_id": task_id},
            "description": "Delete task",
            "whole_digest": digest_of_call(_POLICY.rules[CONFIRMED_TOOL], {"task_id": task_id}, NOTHING_KNOWN),
            "created_at": now,
            "asked_under": asked_under(CONFIRMED_TOOL, server),
        }
    )
    return unsigned.replace(signature=signer.sign(unsigned, user_id=user_id, conversation_id="c1"))


def check_turn(finished: FinishedTurn, sent: Sequence[SentCall]) -> None:
    """Check the invariants that one finished turn and the calls that reached the server can show."""
    record = finished.record
    assert record.status in (RecordStatus.COMPLETED, RecordStatus.INTERRUPTED)
    _check_path(record)
    _check_sent(record, sent)
    _check_invocations(record)
    check_text(record)
    if finished.turn is not None and finished.turn.request is not None:
        check_transcript(finished.turn.request.messages)


def _check_path(record: DecisionRecord) -> None:
    assert record.states[0] == START
    assert record.states.count("BUILD_DECISION") == 1
    assert END in TOPOLOGY[record.states[-1]].values()
    for state, following in itertools.pairwise(record.states):
        assert following in TOPOLOGY[state].values()
    model_calls = [entry for entry in record.entries if entry.kind is EntryKind.MODEL]
    assert len(model_calls) <= 5
    assert record.iterations <= 5
    assert record.states.count("INVOKE_LLM") <= 5


def _check_sent(record: DecisionRecord, sent: Sequence[SentCall]) -> None:
    context: DecisionContext = record.header.context
    rounds = max(1, record.states.count("EXECUTE_TOOLS"))
    assert len(sent) <= min(10, 5 * rounds)
    keys = [key for *_, key in sent if key is not None]
    assert len(keys) == len(set(keys)), "a mutating call was sent twice under one key"
    for name, arguments, user_id, key in sent:
        assert name in WHITELIST
        assert user_id == context.user_id
        assert "user_id" not in arguments
        assert _POLICY.rules[name].check.first_issue(arguments) is None
        if name == CONFIRMED_TOOL:
            pending = context.pending_confirmation
            assert pending is not None, "a call that needs confirmation was sent without a pending action"
            assert read_consent(context.message, [("Remove tasks", "Delete task")]) is Consent.YES
            shown = [(one.arguments, pending.operation_key(number)) for number, one in enumerate(pending.each, 1)]
            assert (arguments, key) in shown


def _check_invocations(record: DecisionRecord) -> None:
    assert [call.sequence for call in record.invocations] == list(range(1, len(record.invocations) + 1))
    executed = [call for call in record.invocations if call.disposition is CallDisposition.EXECUTED]
    assert all(call.tool_name in WHITELIST for call in executed)
    awaiting = [call for call in record.invocations if call.disposition is CallDisposition.AWAITING]
    # After an unclear answer the same question is asked again, without a new call.
    before, asked = record.header.context.pending_confirmation, record.decision.pending_action
    asked_again = before is not None and asked is not None and asked.id == before.id
    assert (bool(awaiting) or asked_again) == (record.decision.decision_type is DecisionType.REQUEST_CONFIRMATION)
    for text in record.decision.notices:
        assert (
            text.startswith(("Not done: ", "Not known whether this was done: ", "Reported a failure; "))
            or text == ONE_AT_A_TIME
        )
    considered = [call for call in record.invocations if call.disposition is not CallDisposition.SKIPPED]
    assert len(record.decision.tool_calls or []) <= len(considered)


def check_text(record: DecisionRecord) -> None:
    """Check that the texts written for the user contain nothing internal."""
    decision = record.decision
    assert decision.reply.strip()
    texts = [decision.reply, *decision.effects, *decision.notices]
    assert decision.authors is not None
    parts = [decision.authors.reply, *decision.authors.effects, *decision.authors.notices]
    assert ["".join(part.text for part in text) for text in parts] == texts, "a text without an author"
    for text in texts:
        assert CANARY not in text
        assert SECRET.decode() not in text
        assert "Traceback" not in text
        assert "\x1b" not in text
        assert "\x00" not in text
        assert "postgresql://" not in text
    assert not any(name in decision.reply for name in _INTERNAL_NAMES)


def check_transcript(messages: Sequence[LLMMessage]) -> None:
    """Check that every call in the conversation is followed by exactly one response, in order."""
    waiting: list[tuple[str, str | None]] = []
    for message in messages:
        if message.function_response is not None:
            assert waiting, "a response without a call"
            assert (message.function_response.name, message.function_response.id) == waiting.pop(0)
            continue
        assert waiting == [], "a call without its response"
        waiting = [(call.name, call.id) for call in message.function_calls or []]
    assert waiting == [], "a call without its response"


async def check_replay(engine: LLMAgentEngine, record: DecisionRecord) -> None:
    """Check that the record alone, without any port, leads to the same decision by the same path."""
    snapshot: PolicySnapshot = await engine.prepare()
    recorder = Recorder(record.header, snapshot, clock=ManualClock(), replayed=record.entries)
    turn = Turn.of(record.header)
    states = []
    for taken in await walk(engine.graph, turn, TurnRuntime(recorder, snapshot)):
        turn = taken.turn
        states.append(taken.state)
    assert turn.decision == record.decision
    assert states == record.states
    assert recorder.finished
