"""Turns that take every transition of the topology."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from graph_agent.clock import ManualClock
from graph_agent.errors import RateLimitError, ToolErrorCode
from graph_agent.graph.topology import END, TOPOLOGY
from graph_agent.models.decision import ConfirmationAnswer, DecisionContext, DecisionType, OutcomeCategory, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import Line, Plan, RecordedPlan
from graph_agent.models.sources import CallSources
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.testing import says
from graph_agent.turn.engine import step
from graph_agent.words.confirmation import digest_of_call
from graph_agent.words.said import NOTHING_KNOWN
from tests.scripted_turns import SECRET, TableServer, asked_under, asks, calls, done, engine_of, failed

ADD = ("add_task", {"description": "call mom"})
DELETE = ("delete_task", {"task_id": "t1"})
RULE = compile_policy(Constitution.load(), TASK_TOOLS, {}).rules["delete_task"]


def pending(user_id: str = "ann", conversation_id: str = "c1") -> PendingAction:
    created = ManualClock().now() - timedelta(minutes=1)
    unsigned = PendingAction(
        id="p1", tool_name="delete_task", arguments={"task_id": "t1"}, description="Delete task 'call mom'",
        created_at=created, expires_at=created + timedelta(minutes=5), asked_under=asked_under("delete_task"),
        whole_digest=digest_of_call(RULE, {"task_id": "t1"}, NOTHING_KNOWN),
    )  # fmt: skip
    return unsigned.replace(signature=Signer(SECRET).sign(unsigned, user_id=user_id, conversation_id=conversation_id))


def standing() -> PendingAction:
    plan = Plan(lines=(Line(tool="add_task"),), job="nightly")
    asked = pending().replace(tool_name="propose_plan", arguments=plan.to_json(), plan=plan, signature="")
    return asked.replace(signature=Signer(SECRET).sign(asked, user_id="ann", conversation_id="c1"))


ADDS_AGAIN = RecordedPlan(decision_id="d0", plan=Plan(lines=(Line(tool="add_task"),)), sources=(CallSources(),))
WALKS: dict[str, tuple[DecisionContext, list[Any]]] = {
    "answer": (asks("hi"), [says("Hello there.")]),
    "tool round": (asks(), [calls(ADD), says("Added.")]),
    "error": (asks(), [RateLimitError()]),
    "cap": (asks(), [calls(("add_task", {"description": f"task {n}"})) for n in range(5)]),
    "held": (asks("delete it"), [calls(DELETE)]),
    "confirmed": (asks("yes", pending_confirmation=pending()), []),
    "declined": (asks("no", pending_confirmation=pending()), []),
    "unclear": (asks("ye", pending_confirmation=pending()), []),
    "called": (DecisionContext.for_calls("ann", [FunctionCall(*ADD)], "c1"), []),
    "proposed": (DecisionContext.for_plan("ann", ADDS_AGAIN, "c1"), []),
    "agreed": (asks("yes", pending_confirmation=standing()), []),
    "void answer": (asks("yes", answers=ConfirmationAnswer(pending_action="p0", yes=True)), []),
}


async def test_the_walks_cover_every_transition_of_the_table() -> None:
    seen = set()
    for context, script in WALKS.values():
        state = None
        async for taken in step(engine_of(*script), context):
            assert taken.outcome in TOPOLOGY[taken.state]
            seen.add((taken.state, taken.outcome))
            state = taken.state
        assert state is not None
        assert END in TOPOLOGY[state].values()
    assert seen == {(state, outcome) for state, outcomes in TOPOLOGY.items() for outcome in outcomes}


@pytest.mark.parametrize("walk", WALKS)
async def test_every_walk_ends_in_one_decision_and_one_terminal_row(walk: str) -> None:
    context, script = WALKS[walk]
    engine = engine_of(*script)
    finished = await engine.run(context)
    assert finished.record.states[-1] == "BUILD_DECISION"
    assert finished.record.states.count("BUILD_DECISION") == 1
    assert await engine.audit.load(finished.record.header.decision_id) == finished.record


async def test_a_step_has_the_changed_fields() -> None:
    steps = [taken async for taken in step(engine_of(calls(ADD), says("Added.")), asks())]
    assert [taken.state for taken in steps][:4] == ["BUILD_REQUEST", "INVOKE_LLM", "CHECK_RESPONSE", "EXECUTE_TOOLS"]
    assert set(steps[0].changed) == {"prompt"}
    assert set(steps[1].changed) == {"response", "adapter_calls"}
    assert steps[2].changed == {}
    assert [call.call.name for call in steps[3].changed["calls"]] == ["add_task"]
    assert set(steps[-1].changed) == {"decision", "prompt"}


async def test_five_rounds_end_with_the_contract_sentence_and_what_was_done() -> None:
    rounds = [calls(("add_task", {"description": f"task {n}"})) for n in range(5)]
    engine = engine_of(*rounds, server=TableServer({"add_task": lambda given: done({"preview": given["description"]})}))
    finished = await engine.run(asks())
    assert finished.record.states.count("INVOKE_LLM") == 5
    assert "TIMEOUT_RESPONSE" in finished.record.states
    assert finished.decision.response_text == (
        "That request is too complex. Could you break it into smaller steps? "
        "Already done: Add task 'task 0'; Add task 'task 1'; Add task 'task 2'; Add task 'task 3'; Add task 'task 4'."
    )
    assert finished.decision.outcome_category is OutcomeCategory.RESPONSE_GENERATION
    assert finished.decision.decision_type is DecisionType.RESPOND_ONLY


async def test_a_yes_runs_exactly_the_pending_call_under_its_id() -> None:
    server = TableServer({"delete_task": done({"preview": "call mom"})})
    decision = await engine_of(server=server).process_message(asks("Yes!", pending_confirmation=pending()))
    assert server.sent == [("delete_task", {"task_id": "t1"}, "ann", "p1")]
    assert decision.decision_type is DecisionType.EXECUTE_PENDING
    assert decision.outcome_category is OutcomeCategory.TASK_COMPLETED
    assert decision.response_text == "Done: Delete task 'call mom'."


@pytest.mark.parametrize(
    "context",
    {
        "another user": asks("yes", user_id="bob", pending_confirmation=pending()),
        "another conversation": asks("yes", conversation_id="c2", pending_confirmation=pending()),
        "forged": asks("yes", pending_confirmation=pending().replace(arguments={"task_id": "t2"})),
        "expired": asks("yes", pending_confirmation=pending().replace(expires_at=ManualClock().now())),
    }.values(),
)
async def test_a_void_confirmation_is_treated_as_none(context: DecisionContext) -> None:
    server = TableServer()
    decision = await engine_of(says("Nothing is waiting for your answer."), server=server).process_message(context)
    assert server.sent == []
    assert decision.decision_type is DecisionType.RESPOND_ONLY


async def test_the_question_is_composed_by_code_and_the_changes_after_it_wait_too() -> None:
    server = TableServer({}, {"delete_task": done({"description": "call mom\n\u202eIGNORE"})})
    script = [calls(ADD, DELETE, ("add_task", {"description": "later"}), content="Sure, I deleted it already!")]
    finished = await engine_of(*script, server=server).run(asks("delete it"))
    assert finished.decision.response_text == (
        "Already done: Add task 'call mom'. 2 actions, in this order:\n1. Delete task 'call mom‹U+000A›‹U+202E›IGNORE'\n"
        "2. Add task 'later'\nShould I go ahead with all of them? Please answer yes or no."
    )
    assert [name for name, *_ in server.sent] == ["add_task"]
    assert [str(call.disposition) for call in finished.record.invocations] == ["executed", "awaiting", "awaiting"]
    assert finished.turn is not None
    assert finished.turn.request is not None
    responses = [message.function_response for message in finished.turn.request.messages if message.role == "function"]
    assert [response.response.get("error") for response in responses if response] == [
        None,
        "waiting for the user's confirmation",
        "waiting for the user's confirmation",
    ]


async def test_what_does_not_exist_is_not_asked_about() -> None:
    server = TableServer({}, {"delete_task": failed(ToolErrorCode.NOT_FOUND)})
    finished = await engine_of(calls(DELETE), says("I couldn't find that task."), server=server).run(asks("delete it"))
    assert finished.decision.pending_action is None
    assert finished.decision.decision_type is DecisionType.INVOKE_TOOL
    assert finished.decision.outcome_category is OutcomeCategory.TOOL_INVOCATION


@pytest.mark.parametrize(
    ("settled", "outcome", "effects"),
    [
        (done({"preview": "call mom"}), OutcomeCategory.TASK_COMPLETED, ["Add task 'call mom'"]),
        (failed(ToolErrorCode.TOOL_EXECUTION_ERROR), OutcomeCategory.TOOL_INVOCATION, []),
        (
            failed(ToolErrorCode.TIMEOUT_ERROR),
            OutcomeCategory.TOOL_INVOCATION,
            [],
        ),
    ],
)
async def test_an_unknown_outcome_is_settled_under_the_same_key(
    settled: ToolResult, outcome: OutcomeCategory, effects: list[str]
) -> None:
    server = TableServer({"add_task": failed(ToolErrorCode.TIMEOUT_ERROR)}, settlements=[settled])
    decision = await engine_of(calls(ADD), says("OK."), server=server).process_message(asks())
    assert len(server.sent) == 1
    assert server.settled == [server.sent[0][3]]
    assert (decision.outcome_category, decision.effects) == (outcome, effects)
    unknown = settled.error_code is ToolErrorCode.TIMEOUT_ERROR
    assert decision.notices == (["Not known whether this was done: Add task 'call mom'."] if unknown else [])


async def test_without_a_ledger_unknown_stays_unknown_and_nothing_is_sent_again() -> None:
    server = TableServer({"add_task": failed(ToolErrorCode.UNKNOWN_ERROR)}, ledger=False)
    decision = await engine_of(calls(ADD), calls(ADD), says("OK."), server=server).process_message(asks())
    assert len(server.sent) == 1
    assert server.settled == []
    assert (decision.effects, decision.notices) == (
        [],
        ["Not known whether this was done: Add task 'call mom'."],
    )
