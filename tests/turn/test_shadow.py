"""Rules in the shadow: they are judged and recorded, and nothing that the model or the user sees depends on them."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.audit.metrics import ShadowCounts
from graph_agent.audit.queries import LogQueryService
from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import CallDisposition
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.policy.cedar_shop import PERMIT, RULES, SHOP, policy_of
from tests.scripted_turns import TableServer, asks, calls, engine_of, failed

MILK = (
    '@id("no milk") forbid (principal, action, resource) when { context.arguments has description && '
    'context.arguments.description like "*milk*" };'
)
ASK = '@id("adding needs a yes") forbid (principal, action == Action::"add_task", resource) unless { context.confirmed };'
DAY = '@id("one a day") forbid (principal, action == Action::"add_task", resource) when { context.used.day.calls > 1 };'
AFTER = (
    '@id("list first") forbid (principal, action == Action::"add_task", resource) '
    'unless { context.succeeded.contains(Action::"list_tasks") };'
)
SOURCE = '@id("by the user") forbid (principal, action == Action::"add_task", resource) when { context.tainted };'
ADD = ("add_task", {"description": "buy milk"})
BREAD = ("add_task", {"description": "buy bread"})


def engine(rules: str, *script: Any, log: Database | None = None, **settings: Any) -> LLMAgentEngine:
    clock = ManualClock()
    settings["clock"] = clock
    settings["audit"] = MemoryAuditWriter() if log is None else DatabaseAuditWriter(log, clock=clock)
    settings["ids"] = RandomIds()
    return engine_of(*script, conditions=ConditionsFile(PERMIT + rules), **settings)


def shadowed(*rules: str) -> str:
    return "\n".join(f"@shadow {rule}" for rule in rules)


def verdicts(turn: FinishedTurn) -> list[list[tuple[str, str]]]:
    return [[(one.rule, one.decision) for one in call.shadow] for call in turn.record.invocations]


async def is_replayed(run: LLMAgentEngine, turn: FinishedTurn) -> bool:
    return (await replay(turn.record, await run.audit.texts(list(turn.record.header.digests.values())))).identical


async def test_a_rule_in_the_shadow_is_recorded_and_the_call_runs() -> None:
    server = TableServer()
    run = engine(shadowed(MILK, ASK), calls(ADD, BREAD), says("Done."), server=server)
    turn = await run.run(asks())
    assert [name for name, *_ in server.sent] == ["add_task", "add_task"]
    assert turn.decision.notices == []
    assert verdicts(turn) == [[("no milk", "refused"), ("adding needs a yes", "asks")], [("adding needs a yes", "asks")]]
    assert await is_replayed(run, turn)


@pytest.mark.parametrize("rule", [MILK, ASK, DAY, AFTER, SOURCE], ids=["value", "asks", "budget", "order", "source"])
async def test_the_turn_is_the_same_as_without_the_rule_for_the_model_and_the_user(rule: str, log: Database) -> None:
    async def seen(rules: str) -> Any:
        server = TableServer(answers={"add_task": failed(ToolErrorCode.VALIDATION_ERROR, "no")})
        run = engine(rules, calls(BREAD, ADD, BREAD), calls(ADD), says("Done."), server=server, log=log)
        turn = await run.run(asks())
        made = [(call.tool_name, call.parameters, call.disposition, call.error_message) for call in turn.record.invocations]
        sent = [(name, arguments) for name, arguments, *_ in server.sent]
        decision = turn.decision
        return decision.reply, decision.notices, decision.effects, sent, made, turn.record.states

    assert await seen(shadowed(rule)) == await seen("")


async def test_a_budget_in_the_shadow_counts_what_it_does_not_limit(log: Database) -> None:
    run = engine(shadowed(DAY), calls(ADD), says("Done."), calls(BREAD), says("Done."), log=log)
    first, second = await run.run(asks()), await run.run(asks("another"))
    assert verdicts(first) == [[]]
    assert verdicts(second) == [[("one a day", "refused")]]
    assert await is_replayed(run, second)


async def test_the_verdicts_are_in_the_log_and_in_its_metrics(log: Database) -> None:
    run = engine(shadowed(MILK, ASK), calls(ADD, BREAD), says("Done."), log=log)
    turn = await run.run(asks())
    reads = LogQueryService(log)
    trace = await reads.get_decision_trace(turn.record.header.decision_id)
    assert trace.tool_invocations == [one.replace(content=[]) for one in turn.record.invocations]
    metrics = await reads.get_metrics_summary()
    assert metrics.shadow == {
        "adding needs a yes": ShadowCounts(asked=2, refused=0),
        "no milk": ShadowCounts(asked=0, refused=1),
    }
    assert (metrics.tool_calls, metrics.tools["add_task"].calls) == (2, 2)


async def test_a_rule_that_cannot_be_evaluated_refuses_nothing_from_the_shadow() -> None:
    broken = (
        '@id("too large") forbid (principal, action, resource) when { context.used.message.calls * 9000000000000000000 > 9 };'
    )
    run = engine(shadowed(broken), calls(ADD, BREAD), says("Done."))
    turn = await run.run(asks())
    assert [call.disposition for call in turn.record.invocations] == [CallDisposition.EXECUTED] * 2
    assert verdicts(turn)[1] == [("too large", "refused")]


async def test_a_question_is_asked_by_the_enforced_rules_alone_and_names_none_in_the_shadow() -> None:
    run = engine(ASK + shadowed(MILK, ASK.replace("adding needs a yes", "the same")), calls(ADD))
    asked = await run.run(asks())
    assert asked.decision.decision_type is DecisionType.REQUEST_CONFIRMATION
    assert "milk." not in asked.decision.reply.partition("Add task")[0]
    # What is asked anyway is not changed by a rule that would ask.
    assert verdicts(asked) == [[("no milk", "refused")]]
    done = await run.answer(asked, yes=True)
    assert verdicts(done) == [[("no milk", "refused")]]
    assert await is_replayed(run, asked)
    assert await is_replayed(run, done)


def test_only_a_forbid_can_be_in_the_shadow_and_the_annotation_is_never_a_fact() -> None:
    for text in ("@shadow permit (principal, action, resource);", '@shadow("list_tasks() $.a") ' + PERMIT.partition(" ")[2]):
        with pytest.raises(ConfigurationError, match=r"line 1: only a forbid can have @shadow"):
            policy_of(SHOP, text)
    conditions = policy_of(SHOP, PERMIT + "@shadow forbid (principal, action, resource);").conditions
    assert conditions is not None
    assert conditions.results.declared == {}


@pytest.mark.parametrize("value", ["false", "true", "no", "0", " ", "until May", "find_order(order = principal)"])
def test_the_annotation_of_the_shadow_has_no_value(value: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"line 2: @shadow has no value: leave it out, and without @shadow a rule decides"
    ):
        policy_of(SHOP, PERMIT + f'@shadow("{value}") forbid (principal, action, resource);')
    assert policy_of(SHOP, PERMIT + '@shadow("") forbid (principal, action, resource);').conditions is not None


def test_a_rule_in_the_shadow_has_to_fit_the_tools_too() -> None:
    with pytest.raises(ConfigurationError, match="line 2"):
        policy_of(SHOP, PERMIT + "@shadow forbid (principal, action, resource) when { context.arguments.no == 1 };")


def test_an_edit_of_a_rule_in_the_shadow_leaves_the_questions_that_were_asked() -> None:
    def digests(rules: str) -> CompiledPolicy:
        return policy_of(SHOP, rules)

    rule = '@id("no pay") forbid (principal, action == Action::"pay", resource);'
    plain, shadow, enforced = digests(RULES), digests(f"{RULES}\n@shadow {rule}"), digests(RULES + rule)
    assert shadow.differences(plain.digests(["refund"])) == []
    assert enforced.differences(plain.digests(["refund"])) == ["conditions"]
