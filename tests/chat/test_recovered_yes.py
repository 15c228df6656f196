"""A yes whose process dies before its call: another process does what was confirmed, or says truly that it was not done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from graph_agent.chat.answer import ChatAnswer
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AnswerState, ConfirmationAnswer, DecisionType
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import DecisionRecord, RecordStatus
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.fixed import CONFIRMED_NOT_DONE, UNKNOWN_REPLY, failed_call_reply, void_answer_reply
from graph_agent.testing import calls
from tests.chat.environment import Environment
from tests.chat.stopped import LosingDatabase, Stopped
from tests.scripted_turns import TableServer

_AFTER_THE_LEASE = timedelta(seconds=36)
_COMMITS = 12
"""An upper bound of the commits of a confirmed turn."""
_CLAIMED = 1
_BEFORE_THE_CALL = 2
"""The commit with the row of the operation."""
BUDGET = ConditionsFile(
    '@id("all") permit (principal, action, resource);'
    '@id("one a day") forbid (principal, action == Action::"delete_task", resource) when { context.used.day.calls > 1 };'
)
OTHER = Constitution.load(None).text + "\nBe brief.\n"
DELETE = calls("delete_task", task_id="t1")


async def asked_to_delete(environment: Environment, user: str = "ann", **engine: Any) -> ChatAnswer:
    """Return the question about the deletion of one of two tasks."""
    chat = environment.chat(**engine)
    conversation = (await chat.send(user, "add milk")).conversation_id
    await chat.send(user, "add bread", conversation_id=conversation)
    asked = await chat.send(user, "delete the milk task", conversation_id=conversation)
    assert asked.decision.pending_action is not None
    return asked


def yes_to(asked: ChatAnswer) -> ConfirmationAnswer:
    assert asked.decision.pending_action is not None
    return ConfirmationAnswer(pending_action=asked.decision.pending_action.id, yes=True)


async def last_answer(environment: Environment, asked: ChatAnswer, user: str = "ann") -> tuple[str, DecisionRecord]:
    """Return what the user reads at the end of the conversation, and the record of that decision."""
    shown = await environment.chat().conversation(user, asked.conversation_id)
    record = await environment.engine().audit.load(shown.messages[-1].decision_id)
    assert isinstance(record, DecisionRecord)
    return shown.messages[-1].content, record


@pytest.mark.parametrize(
    ("answer", "rules"), [("typed", {}), ("by id", {"conditions": BUDGET})], ids=["typed", "by id, counted"]
)
async def test_the_sweep_of_another_process_does_once_what_was_confirmed_wherever_a_process_stops(
    each_environment: Environment, clock: ManualClock, after: bool, answer: str, rules: dict[str, Any]
) -> None:
    environment = each_environment
    for n in range(1, _COMMITS):
        user = f"user{n}"
        asked = await asked_to_delete(environment, user, **rules)
        left = Stopped(environment, n, after=after, **rules)
        said: dict[str, Any] = {"content": "yes", "conversation_id": asked.conversation_id}
        if answer == "by id":
            said = {"content": "Yes.", "answers": yes_to(asked)}
        if not await left.send(user, **said):
            await left.wake_up()
            break
        clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
        chat = environment.chat(**rules)
        await chat.serve_due()
        if n > _CLAIMED or after:
            reply, record = await last_answer(environment, asked, user)
            assert (reply, record.decision.effects) == ("Done: Delete task 'milk'.", ["Delete task 'milk'"]), f"commit {n}"
            assert record.decision.decision_type is DecisionType.EXECUTE_PENDING
            assert await environment.descriptions(user) == ["bread"]
        await left.wake_up()
        await chat.serve_due()
        assert await environment.descriptions(user) == ["bread"]
    assert _BEFORE_THE_CALL < n < _COMMITS
    assert {state for state, _ in await environment.turns()} == {"done"}


async def test_without_a_ledger_nothing_is_sent_twice_and_the_user_reads_what_is_not_known(
    environment: Environment, clock: ManualClock, after: bool
) -> None:
    for n in range(1, _COMMITS):
        user, server = f"user{n}", TableServer(ledger=False)
        asked = await environment.chat(ScriptedAdapter([DELETE]), tools=server).send(user, "delete it")
        left = Stopped(environment, n, after=after, model=ScriptedAdapter([]), tools=server)
        if not await left.send(user, "yes", conversation_id=asked.conversation_id):
            await left.wake_up()
            break
        clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
        before = len(server.sent)
        await environment.chat(ScriptedAdapter([]), tools=server).serve_due()
        if (n, after) in ((_CLAIMED, True), (_BEFORE_THE_CALL, False)):
            # No operation is committed, so nothing can have been sent.
            assert (before, len(server.sent)) == (0, 1)
            assert (await last_answer(environment, asked, user))[0].startswith("Done: Delete task")
        elif n > _CLAIMED:
            assert len(server.sent) == before
            if n == _BEFORE_THE_CALL:
                assert (await last_answer(environment, asked, user))[0] == UNKNOWN_REPLY
        await left.wake_up()
        assert len(server.sent) <= 1
    assert _BEFORE_THE_CALL < n < _COMMITS


@pytest.mark.parametrize(
    ("key", "after"), [(None, False), (None, True), ("k", True)], ids=["swept before", "swept after", "sent again"]
)
async def test_a_yes_is_not_followed_after_its_question_has_expired_and_the_user_reads_that_it_was_not_done(
    environment: Environment, clock: ManualClock, after: bool, key: str | None
) -> None:
    for n in (_CLAIMED, _BEFORE_THE_CALL):
        user = f"user{n}"
        asked = await asked_to_delete(environment, user)
        left = Stopped(environment, n, after=after)
        assert await left.send(user, "yes", conversation_id=asked.conversation_id, idem_key=key)
        clock.advance(minutes=5)
        chat = environment.chat()
        if n > _CLAIMED or after:
            if key is None:
                await chat.serve_due()
            else:
                await chat.send(user, "yes", conversation_id=asked.conversation_id, idem_key=key)
            reply, record = await last_answer(environment, asked, user)
            committed = n == _BEFORE_THE_CALL and after
            assert reply == (CONFIRMED_NOT_DONE if committed else void_answer_reply(AnswerState.LATE))
            assert "confirmed" in reply
            assert record.decision.effects == []
        await left.wake_up()
        await chat.serve_due()
        assert await environment.descriptions(user) == ["milk", "bread"]


@pytest.mark.parametrize(
    ("key", "other"), [(None, {"constitution": OTHER}), ("k", {"conditions": BUDGET})], ids=["swept", "sent again"]
)
async def test_a_process_with_other_rules_follows_no_yes_of_a_dead_one_and_leaves_it(
    environment: Environment, clock: ManualClock, key: str | None, other: dict[str, Any]
) -> None:
    asked = await asked_to_delete(environment)
    left = Stopped(environment, _CLAIMED, after=True)
    said: dict[str, Any] = {"conversation_id": asked.conversation_id, "idem_key": key}
    assert await left.send("ann", "yes", **said)
    clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
    chat = environment.chat(**other)
    if key is None:
        assert await chat.serve_due() == 1
    else:
        await chat.send("ann", "yes", **said)
    reply, record = await last_answer(environment, asked)
    assert (reply, record.decision.void_answer) == (void_answer_reply(AnswerState.OTHER_RULES), AnswerState.OTHER_RULES)
    assert await environment.descriptions() == ["milk", "bread"]
    await left.wake_up()
    answered = await environment.chat().send("ann", answers=yes_to(asked))
    assert answered.reply == "Done: Delete task 'milk'."
    assert await environment.descriptions() == ["bread"]


async def test_a_process_with_other_rules_sends_nothing_for_a_yes_that_is_used_up_and_says_so(
    environment: Environment, clock: ManualClock
) -> None:
    asked = await asked_to_delete(environment)
    left = Stopped(environment, _BEFORE_THE_CALL, after=True)
    assert await left.send("ann", "yes", conversation_id=asked.conversation_id)
    clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
    assert await environment.chat(constitution=OTHER).serve_due() == 1
    reply, record = await last_answer(environment, asked)
    assert (reply, record.status) == (CONFIRMED_NOT_DONE, RecordStatus.INTERRUPTED)
    await left.wake_up()
    assert await environment.descriptions() == ["milk", "bread"]


async def test_a_confirmed_turn_that_its_user_has_stopped_is_not_continued(
    environment: Environment, clock: ManualClock
) -> None:
    asked = await asked_to_delete(environment)
    left = Stopped(environment, _CLAIMED, after=True)
    assert await left.send("ann", "yes", conversation_id=asked.conversation_id)
    [(decision_id,)] = await environment.database.read(
        lambda connection: list(connection.exec_driver_sql("SELECT id FROM turns WHERE state = 'running'"))
    )
    chat = environment.chat()
    assert await chat.stop(str(decision_id), "ann")
    clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
    assert await chat.serve_due() == 1
    assert (await last_answer(environment, asked))[0] == CONFIRMED_NOT_DONE
    await left.wake_up()
    assert await environment.descriptions() == ["milk", "bread"]


async def test_calls_without_a_model_are_not_made_after_their_caller_has_gone(
    environment: Environment, clock: ManualClock
) -> None:
    """The caller may have requested them again, as another decision with another operation key."""
    left = Stopped(environment, _CLAIMED, after=True)
    assert await left.call("ann", [FunctionCall("add_task", {"description": "milk"})])
    clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
    assert await environment.chat().serve_due() == 1
    assert (await environment.said())[-1] == failed_call_reply(None, unknown=False)
    await left.wake_up()
    assert await environment.descriptions() == []


async def test_a_yes_that_may_have_arrived_is_not_reported_as_refused(environment: Environment, clock: ManualClock) -> None:
    """Without a key the client cannot ask for its end, and the sweep follows it if it was stored."""
    asked = await asked_to_delete(environment)
    database = environment.open_database(LosingDatabase)
    chat = environment.chat(database=database)
    database.losing = 1
    with pytest.raises(ServiceError) as unknown:
        await chat.send("ann", answers=yes_to(asked))
    assert unknown.value.code is ServiceErrorCode.OUTCOME_UNKNOWN
    clock.advance(seconds=_AFTER_THE_LEASE.total_seconds())
    assert await chat.serve_due() == 1
    assert await environment.descriptions() == ["bread"]
    await database.close()


async def test_a_yes_at_a_server_with_other_rules_changes_nothing_and_the_question_still_waits(
    environment: Environment,
) -> None:
    asked = await asked_to_delete(environment)
    refused = await environment.chat(constitution=OTHER).send("ann", "yes", conversation_id=asked.conversation_id)
    assert refused.reply == void_answer_reply(AnswerState.OTHER_RULES)
    assert (refused.decision.void_answer, refused.decision.pending_action) == (AnswerState.OTHER_RULES, None)
    chat = environment.chat()
    assert (await chat.conversation("ann", asked.conversation_id)).pending_action == asked.decision.pending_action
    assert (await chat.send("ann", answers=yes_to(asked))).reply == "Done: Delete task 'milk'."
    assert await environment.descriptions() == ["bread"]


async def test_a_no_and_another_request_need_no_rules(environment: Environment) -> None:
    for said, kind in (("no", DecisionType.CANCEL_PENDING), ("show my tasks", DecisionType.INVOKE_TOOL)):
        user = said.replace(" ", "-")
        asked = await asked_to_delete(environment, user)
        other = environment.chat(constitution=OTHER)
        answered = await other.send(user, said, conversation_id=asked.conversation_id)
        assert answered.decision.decision_type is kind
        assert (await environment.chat().send(user, answers=yes_to(asked))).decision.void_answer is not None
        assert await environment.descriptions(user) == ["milk", "bread"]


async def test_during_a_rollout_a_question_is_answered_where_it_was_asked_and_asked_anew_elsewhere(
    environment: Environment,
) -> None:
    old, new = environment.chat(), environment.chat(constitution=OTHER)
    asked = await asked_to_delete(environment)
    await new.send("ann", "yes", conversation_id=asked.conversation_id)
    again = await new.send("ann", "delete the milk task", conversation_id=asked.conversation_id)
    assert again.decision.pending_action is not None
    # Each refuses what the other one has asked; the old question is replaced by the new one.
    assert (await old.send("ann", answers=yes_to(again))).decision.void_answer is AnswerState.OTHER_RULES
    assert (await old.send("ann", answers=yes_to(asked))).decision.void_answer is AnswerState.SUPERSEDED
    assert (await new.send("ann", answers=yes_to(again))).reply == "Done: Delete task 'milk'."
    assert await environment.descriptions() == ["bread"]
