"""Calls that no model requested: judged, confirmed, settled, recorded and replayed like any other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graph_agent.errors import ServiceError, ServiceErrorCode, ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import DecisionContext, DecisionType, IntentType, OutcomeCategory
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, DecisionRecord
from graph_agent.replays.replayer import replay
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import TableServer, asks, done, engine_of, failed

ADD = FunctionCall("add_task", {"description": "call mom"})
DELETE = FunctionCall("delete_task", {"task_id": "t1"})
LIST = FunctionCall("list_tasks", {})
PREVIEWS = {"delete_task": done({"description": "call mom"})}


async def replayed(engine: LLMAgentEngine, finished: FinishedTurn) -> bool:
    """True if the record replays as it is read from the log."""
    record = DecisionRecord.model_validate_json(canonical_json(finished.record.to_json()))
    return (await replay(record, await engine.audit.texts(list(record.header.digests.values())))).identical


def fates(record: DecisionRecord) -> Sequence[CallDisposition]:
    return [made.disposition for made in record.invocations]


async def test_a_call_is_a_decision_with_a_record_that_replays() -> None:
    server = TableServer({"add_task": done({"preview": "call mom"})})
    engine = engine_of(server=server)

    finished = await engine.call("ann", [ADD])

    assert server.sent == [("add_task", {"description": "call mom"}, "ann", f"{finished.decision.decision_id}:1")]
    decision, record = finished.decision, finished.record
    assert (decision.decision_type, decision.outcome_category) == (DecisionType.INVOKE_TOOL, OutcomeCategory.TASK_COMPLETED)
    assert (decision.response_text, decision.effects) == ("Done: Add task 'call mom'.", ["Add task 'call mom'"])
    assert decision.intent is not None
    assert decision.intent.intent_type is IntentType.CREATE_TASK
    assert record.states == ["BUILD_REQUEST", "EXECUTE_TOOLS", "BUILD_DECISION"]
    assert (record.header.model, record.iterations) == ("none", 0)
    assert record.header.context.message == 'call "add_task" {"description":"call mom"}'
    assert await engine.audit.load(record.header.decision_id) == record
    assert await replayed(engine, finished)


async def test_the_calls_of_a_decision_are_judged_as_one_batch() -> None:
    server = TableServer()
    engine = engine_of(server=server)
    finished = await engine.call("ann", [LIST, ADD, ADD, FunctionCall("drop_table"), FunctionCall("add_task", {}), LIST])
    assert fates(finished.record) == ["executed", "executed", "repeated", "refused", "refused", "refused"]
    assert [name for name, *_ in server.sent] == ["list_tasks", "add_task"]
    assert [notice.partition(":")[0] for notice in finished.decision.notices] == ["Not done"] * 3
    assert await replayed(engine, finished)


async def test_calls_from_one_that_needs_confirmation_on_are_asked_about_and_a_yes_runs_exactly_them() -> None:
    server = TableServer(previews=PREVIEWS)
    engine = engine_of(server=server)

    asked = await engine.call("ann", [DELETE, ADD])
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert asked.decision.reply == (
        "2 actions, in this order:\n1. Delete task 'call mom'\n2. Add task 'call mom'\n"
        "Should I go ahead with all of them? Please answer yes or no."
    )
    assert (fates(asked.record), server.sent) == (["awaiting", "awaiting"], [])

    pending = asked.decision.pending_action
    assert pending is not None
    answered = await engine.answer(asked, yes=True)
    assert answered.decision.decision_type is DecisionType.EXECUTE_PENDING
    assert server.sent == [
        ("delete_task", {"task_id": "t1"}, "ann", pending.id),
        ("add_task", {"description": "call mom"}, "ann", f"{pending.id}:2"),
    ]
    assert await replayed(engine, asked)
    assert await replayed(engine, answered)
    again = await engine.answer(asked, yes=True)
    assert (again.decision.outcome_category, len(server.sent)) == (OutcomeCategory.USER_INPUT, 2)


async def test_a_call_replays_whatever_the_order_of_its_arguments() -> None:
    call = FunctionCall("update_task", {"task_id": "t1", "description": "call dad"})
    update = [one for one in TASK_TOOLS if one.name == "update_task"]
    constitution = "You.\n\n## Available Tools\n- update_task: Update task (requires confirmation)\n"
    engine = LLMAgentEngine(ScriptedAdapter([]), TableServer(served=tuple(update)), constitution)
    asked = await engine.call("ann", [call])
    assert await replayed(engine, asked)
    assert await replayed(engine, await engine.answer(asked, yes=True))


async def test_calls_that_are_limited_per_message_ask_unless_the_user_has_typed_them() -> None:
    add = [one for one in TASK_TOOLS if one.name == "add_task"]
    constitution = "You.\n\n## Available Tools\n- add_task: Add task (without confirmation) (at most 1 per message)\n"
    server = TableServer(served=tuple(add))
    engine = LLMAgentEngine(ScriptedAdapter([]), server, constitution)
    asked = await engine.call("ann", [ADD])
    assert asked.decision.reply.startswith("A rule asks for your yes: at most 1 per message (constitution).")
    assert server.sent == []
    answered = await engine.answer(asked, yes=True)
    typed = await engine.call("ann", [ADD, FunctionCall("add_task", {"description": "call dad"})], typed=True)
    assert fates(typed.record) == ["executed", "refused"]
    assert len(server.sent) == 2
    for one in (asked, answered, typed):
        assert await replayed(engine, one)


async def test_an_unknown_outcome_is_settled_by_the_ledger() -> None:
    unknown = failed(ToolErrorCode.TIMEOUT_ERROR)
    server = TableServer({"add_task": unknown}, settlements=[done({"preview": "call mom"})])
    engine = engine_of(server=server)
    finished = await engine.call("ann", [ADD])
    assert server.settled == [f"{finished.decision.decision_id}:1"]
    assert finished.decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    assert await replayed(engine, finished)


@pytest.mark.parametrize(
    ("call", "kind", "outcome"),
    [
        (FunctionCall("drop_table"), DecisionType.INVOKE_TOOL, OutcomeCategory.TOOL_INVOCATION),
        (FunctionCall("list_tasks", {"user_id": "bob"}), DecisionType.RESPOND_ONLY, OutcomeCategory.MISSING_PERMISSION),
    ],
)
async def test_a_refused_call_is_recorded(call: FunctionCall, kind: DecisionType, outcome: OutcomeCategory) -> None:
    server = TableServer()
    engine = engine_of(server=server)
    finished = await engine.call("ann", [call])
    assert (finished.decision.decision_type, finished.decision.outcome_category) == (kind, outcome)
    assert (finished.decision.reply, server.sent) == ("Nothing was changed.", [])
    assert await replayed(engine, finished)


async def test_calls_that_cannot_be_recorded_are_refused_before_a_decision() -> None:
    for broken in ("\ud800", float("nan"), object()):
        with pytest.raises(ServiceError) as refused:
            await engine_of().call("ann", [FunctionCall("add_task", {"description": broken})])
        assert refused.value.code is ServiceErrorCode.VALIDATION_ERROR


async def test_a_long_call_has_a_shortened_message_and_the_whole_arguments() -> None:
    finished = await engine_of().call("ann", [FunctionCall("add_task", {"description": "x" * 5_000})])
    context = finished.record.header.context
    assert (len(context.message), context.message[-1]) == (4_000, "…")
    assert context.called[0].arguments == {"description": "x" * 5_000}


def test_calls_are_no_answer_to_a_question() -> None:
    with pytest.raises(ValueError, match="cannot answer a confirmation"):
        asks(called=[ADD], answers={"pending_action": "p1", "yes": True})


def test_a_context_without_calls_has_the_same_json_as_before() -> None:
    assert "called" not in asks().to_json()
    context = DecisionContext.for_calls("ann", [ADD], "c1")
    assert DecisionContext.model_validate_json(context.model_dump_json()) == context
