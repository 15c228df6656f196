"""Turns under conditions: what the user reads, what is recorded, replay, what-if replay and resumption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graph_agent.errors import ConfigurationError
from graph_agent.models.decision import ConfirmationAnswer, DecisionType, OutcomeCategory
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition, EntryKind, RecordStatus
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.replays.report import ReplayReport
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import TableServer, asks, calls, engine_of
from tests.turn.test_engine import crashed

PERMIT = '@id("base") permit (principal, action, resource);\n'
MILK = (
    PERMIT
    + '@id("no milk") forbid (principal, action, resource) when { context.arguments has description && '
    + 'context.arguments.description like "*milk*" };'
)
ASK = (
    PERMIT
    + '@id("adding needs a yes") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };'
)
NIGHT = PERMIT + '@id("not at night") forbid (principal, action, resource) when { context.time.hour < 8 };'
ADD = ("add_task", {"description": "buy milk"})


def engine(rules: str | None, *script: Any, roles: tuple[str, ...] = (), **settings: Any) -> LLMAgentEngine:
    conditions = None if rules is None else ConditionsFile(rules, roles=roles)
    return engine_of(*script, conditions=conditions, **settings)


async def replayed(run: LLMAgentEngine, turn: FinishedTurn, **what_if: Any) -> ReplayReport:
    texts = await run.audit.texts(list(turn.record.header.digests.values()))
    return await replay(turn.record, texts, **what_if)


async def test_the_id_of_the_rule_is_the_reason_that_user_and_model_read() -> None:
    server = TableServer()
    run = engine(MILK, calls(ADD), says("I could not add it."), server=server)
    finished = await run.run(asks())
    assert server.sent == []
    assert finished.decision.notices == ["Not done: add task 'buy milk'. No milk."]
    assert finished.decision.outcome_category is OutcomeCategory.MISSING_PERMISSION
    (call,) = finished.record.invocations
    assert (call.disposition, call.error_message) == (CallDisposition.REFUSED, "not permitted: no milk")
    assert (await replayed(run, finished)).identical


async def test_a_question_says_which_rule_asks_it_and_the_yes_runs_exactly_that_call() -> None:
    server = TableServer()
    run = engine(ASK, calls(ADD), server=server)
    asked = await run.run(asks())
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert asked.decision.reply.startswith("A rule asks for your yes: adding needs a yes. Add task")
    assert server.sent == []
    done = await run.answer(asked, yes=True)
    assert [name for name, *_ in server.sent] == ["add_task"]
    assert (await replayed(run, asked)).identical
    assert (await replayed(run, done)).identical


async def test_the_rules_are_asked_again_after_the_yes() -> None:
    server = TableServer()
    rules = ASK + '@id("a boss only") forbid (principal, action, resource) unless { principal in Role::"boss" };'
    run = engine(rules, calls(ADD), says("That is for bosses."), server=server, roles=("boss",))
    pending = (await run.run(asks(roles=("boss",)))).decision.pending_action
    assert pending is not None
    yes = ConfirmationAnswer(pending_action=pending.id, yes=True)
    refused = await run.run(asks("yes", pending_confirmation=pending, answers=yes))
    assert server.sent == []
    assert refused.decision.decision_type is DecisionType.EXECUTE_PENDING
    assert refused.decision.reply == "That is for bosses."
    assert refused.decision.notices == ["Not done: add task 'buy milk'. A boss only."]


async def test_facts_are_recorded_once_for_a_batch_and_only_if_a_rule_reads_them() -> None:
    server = TableServer()
    for rules, expected in ((NIGHT, 1), (MILK, 0), (None, 0)):
        run = engine(rules, calls(ADD, ("add_task", {"description": "call mom"})), says("Done."), server=server)
        finished = await run.run(asks())
        assert sum(entry.kind is EntryKind.FACTS for entry in finished.record.entries) == expected
        assert (await replayed(run, finished)).identical
        assert (finished.record.header.conditions is None) is (rules is None)


async def test_a_replay_evaluates_the_rules_again_under_the_recorded_time_and_roles() -> None:
    rules = PERMIT + '@id("by day or a boss") forbid (principal, action, resource) when { context.time.hour >= 0 } '
    rules += 'unless { principal in Role::"boss" };'
    for roles, sent in (((), 0), (("boss",), 1)):
        server = TableServer()
        run = engine(rules, calls(ADD), says("Done."), server=server, roles=("boss",))
        finished = await run.run(asks(roles=roles))
        assert len(server.sent) == sent
        report = await replayed(run, finished)
        assert report.identical, report
        # The same record with other roles decides otherwise, so the rules are really evaluated.
        context = finished.record.header.context.replace(roles=() if roles else ("boss",))
        changed = replace(finished, record=finished.record.replace(header=finished.record.header.replace(context=context)))
        assert not (await replayed(run, changed)).identical


async def test_a_what_if_replay_decides_by_other_conditions() -> None:
    run = engine(MILK, calls(ADD), says("I could not add it."))
    finished = await run.run(asks())
    milk_only = ConditionsFile(MILK.replace("milk", "beer"))
    report = await replayed(run, finished, conditions=milk_only)
    assert not report.identical
    assert report.departure is not None
    assert report.departure.startswith('EXECUTE_TOOLS: ["add_task",{"description":"buy milk"}] would be run')
    assert (await replayed(run, finished, conditions=ConditionsFile(MILK))).identical
    counted = PERMIT + "forbid (principal, action, resource) when { context.used.day.calls > 3 };"
    report = await replayed(run, finished, conditions=ConditionsFile(counted))
    assert report.departure == "EXECUTE_TOOLS: the record does not have what the conditions read in `used`"


async def test_a_what_if_replay_under_another_constitution_keeps_the_conditions() -> None:
    run = engine(MILK, calls(ADD), says("I could not add it."))
    finished = await run.run(asks())
    assert (await replayed(run, finished, constitution=run.constitution.text)).identical


@pytest.mark.parametrize(("then", "now", "continues"), [(MILK, MILK, True), (MILK, ASK, False), (None, ASK, False)])
async def test_a_turn_continues_only_under_the_same_conditions(then: str | None, now: str, continues: bool) -> None:
    audit, server = MemoryAuditWriter(), TableServer()
    call = ("add_task", {"description": "call mom"})
    conditions = None if then is None else ConditionsFile(then)
    decision_id = await crashed(audit, calls(call), server=server, conditions=conditions)
    finished = await engine(now, *([says("Added.")] if continues else []), audit=audit, server=server, clock=None).finish(
        decision_id, ask_model=True
    )
    assert finished is not None
    assert (finished.record.status is RecordStatus.COMPLETED) is continues


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (PERMIT + "forbid (principal, action, resource) when { context.used.hour.writes > 3 };", "reads `used`"),
        (
            PERMIT + 'forbid (principal, action, resource) when { context.attempted.contains(Action::"add_task") };',
            "`attempted`",
        ),
        (
            PERMIT + 'permit (principal, action, resource) when { context.succeeded.contains(Action::"add_task") };',
            "`succeeded`",
        ),
        (
            PERMIT + 'forbid (principal, action, resource) when { context.called.contains(Action::"add_task") };',
            "line 2: there is no",
        ),
        (PERMIT + 'forbid (principal, action == Action::"drop", resource);', "line 2: unrecognized action"),
    ],
)
async def test_rules_that_cannot_be_kept_stop_the_start(rules: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await engine(rules).prepare()


async def test_a_call_without_a_model_keeps_its_roles_until_the_answer() -> None:
    support = '@id("only support") forbid (principal, action, resource) unless { principal in Role::"support" };'
    server = TableServer()
    run = engine(ASK + support, roles=("support",), server=server)
    for roles, sent in (((), 0), (("support",), 1)):
        asked = await run.call("ann", [FunctionCall(name=ADD[0], arguments=ADD[1])], roles=roles)
        if asked.decision.pending_action is not None:
            await run.answer(asked, yes=True)
        assert len(server.sent) == sent
