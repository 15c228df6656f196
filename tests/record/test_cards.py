"""The log of cards: the keys under which their calls were sent, and the answer that a turn has followed."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from graph_agent.audit.findings import findings
from graph_agent.audit.trace import read_trace
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ToolErrorCode
from graph_agent.models.decision import AfterYes, DecisionType
from graph_agent.models.llm import LLMResponse
from graph_agent.policy.signature import Signer
from graph_agent.record.audit_writer import MemoryConfirmations
from graph_agent.record.settlements import find_unknown_call, settle_key, successful_calls
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.words.said import brief_of
from tests.desk import cancel, card_desk, card_talk, note_on
from tests.frozen_clock import pass_time
from tests.replayed_turns import replayed
from tests.replays.random_turns import CrashingWriter
from tests.scripted_turns import SECRET, asks, calls, failed

NAMES = ("cancel_order", "add_note")
SINCE = ManualClock().now() - timedelta(days=1)
UNKNOWN = failed(ToolErrorCode.TIMEOUT_ERROR, "no answer")


async def test_an_unknown_second_call_of_a_card_is_settled_under_its_own_key(log: Database) -> None:
    desk = card_desk({"2": UNKNOWN}, ledger=False)
    card = calls(cancel("1"), cancel("2"), cancel("3"))
    talk = card_talk(card, after_yes=AfterYes.GO_ON, desk=desk, clock=ManualClock(), audit=DatabaseAuditWriter(log))
    await talk.say("go")
    ended = await talk.say("yes")
    keys = [settle_key(ended.record.header.decision_id, sequence) for sequence in (1, 2, 3)]
    unknown = [await log.read(partial(find_unknown_call, key=key)) for key in keys]
    assert [None if call is None else call.operation_key for call in unknown] == [None, desk.keys[1], None]


QUESTION = calls(("ask_user", {"question": "Anything else?", "reason": "missing_context"}))


@pytest.mark.parametrize(
    ("last", "decided"),
    [
        (QUESTION, DecisionType.ASK_CLARIFICATION),
        (calls(cancel("9")), DecisionType.REQUEST_CONFIRMATION),
        (says("Done."), DecisionType.EXECUTE_PENDING),
    ],
)
async def test_the_log_shows_what_was_confirmed_however_the_turn_went_on(
    log: Database, last: LLMResponse, decided: DecisionType
) -> None:
    settings: dict[str, Any] = {"clock": ManualClock(), "audit": DatabaseAuditWriter(log)}
    script = [calls(cancel("1"), cancel("2")), calls(note_on("5")), last]
    talk = card_talk(*script, after_yes=AfterYes.GO_ON, **settings)
    question = await talk.say("go")
    ended = await talk.say("yes")
    assert ended.decision.decision_type is decided
    assert [call.operation_key async for page in successful_calls(log, NAMES, SINCE) for call in page] == talk.desk.keys

    decision_id = ended.record.header.decision_id
    trace = await log.read(partial(read_trace, decision_id=decision_id))
    assert trace is not None
    assert question.decision.pending_action is not None
    assert trace.decision.title == brief_of(question.decision.pending_action)
    assert any("was given by the user's own answer" in text for text in findings(trace))
    # Both are about one question.
    asked = await log.read(partial(read_trace, decision_id=question.record.header.decision_id))
    assert asked is not None
    assert (asked.decision.title, asked.decision.question) == (trace.decision.title, trace.decision.question)


@pytest.mark.slow
async def test_a_process_killed_anywhere_on_a_card_leaves_each_call_made_at_most_once_and_in_order(
    log: Database,
) -> None:
    """The process dies after each commit of the turn, and another one ends the turn."""
    card, clock, outcomes = [cancel("1"), note_on("2"), cancel("3")], ManualClock(), set()
    for writes in itertools.count():
        shared = {"clock": clock, "confirmations": MemoryConfirmations(), "signer": Signer(SECRET), "ids": RandomIds()}
        desk, after = card_desk(ledger=False), [calls(*card), says("Done.")]
        talk = card_talk(calls(*card), after_yes=AfterYes.GO_ON, desk=desk, audit=DatabaseAuditWriter(log), **shared)
        pending = (await talk.say("go")).decision.pending_action
        context = asks("yes", pending_confirmation=pending)

        writer = CrashingWriter(DatabaseAuditWriter(log), writes)
        dying = card_talk(*after, after_yes=AfterYes.GO_ON, desk=desk, audit=writer, **shared).engine
        with suppress(ServiceError):
            await pass_time(clock, dying.run(context, decision_id=(decision_id := RandomIds().new())))
        healthy = card_talk(*after, after_yes=AfterYes.GO_ON, desk=desk, audit=DatabaseAuditWriter(log), **shared).engine
        ended = await pass_time(clock, healthy.finish(decision_id, ask_model=True))
        assert talk.made == [(name, arguments["order_id"]) for name, arguments in card][: len(talk.made)]
        assert pending is not None
        assert desk.keys == [pending.operation_key(number) for number in range(1, len(talk.made) + 1)]
        if ended is None:
            assert (writes, desk.sent) == (0, [])
            continue
        await replayed(healthy, ended)
        unknown = [one for one in ended.record.invocations if one.tool_result.unknown]
        assert len(unknown) <= 1
        assert not unknown or ended.decision.reply.endswith("Done.") is False
        outcomes.add((len(talk.made), bool(unknown)))
        if not writer.crashed.is_set():
            break
    assert ended is not None
    assert ended.decision.reply.endswith("\n\nDone.")
    assert {made for made, _ in outcomes} == {1, 2, 3}
    assert any(unknown for _, unknown in outcomes)
