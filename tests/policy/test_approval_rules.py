"""Conditions that count the approvals of other people: the four judgements, the guard, and the statements of `policy check`."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.bootstrap.policies import explained_conditions
from graph_agent.errors import ConfigurationError
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.policy.cedar.conditions import ConditionsFile, NeededApproval, Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from tests.judging import judge_batch
from tests.policy.cedar_shop import COUNT, PERMIT, TEXT, ShopTool, facts, policy_of, schema
from tests.scripted_turns import engine_of

ROLES = ("finance", "manager")
PARAMETERS = schema("order", "amount", order=TEXT, amount=COUNT)
TOOLS = (
    *(ShopTool(name, PARAMETERS) for name in ("refund", "payout", "discount", "note")),
    ShopTool("close", PARAMETERS, marker="(requires confirmation)"),
    ShopTool("find", PARAMETERS, reads=True),
)
RULES = (
    PERMIT
    + """
@id("refunds over 100 need a yes") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 100 } unless { context.confirmed };
@id("refunds over 500 need a manager") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 500 } unless { context.approvals.manager >= 1 };
@id("refunds over 5000 need finance too") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 5000 } unless { context.approvals.manager >= 1 && context.approvals.finance >= 1 };
@id("never over 100000") forbid (principal, action == Action::"refund", resource)
when { context.arguments.amount > 100000 };
@id("payouts need two people") forbid (principal, action == Action::"payout", resource)
unless { context.approvals.manager + context.approvals.finance >= 2 };
@id("a manager may decide alone") forbid (principal, action == Action::"discount", resource)
unless { context.approvals.manager >= 1 || (context.confirmed && principal in Role::"manager") };
@id("closing needs a manager") forbid (principal, action == Action::"close", resource)
unless { context.approvals.manager >= 1 };
"""
)
SHOP = policy_of(TOOLS, RULES, ROLES)
MANAGER, FINANCE = {"manager": 1}, {"finance": 1}


def call(tool: str, amount: int = 1) -> FunctionCall:
    return FunctionCall(name=tool, arguments={"order": "A1", "amount": amount})


def yes_to(one: FunctionCall) -> PendingAction:
    named = {"id": "p", "tool_name": one.name, "arguments": one.arguments, "description": "x"}
    return PendingAction.model_validate({**named, "created_at": facts().now})


def judged(*calls: FunctionCall, policy: CompiledPolicy = SHOP, **more: Any) -> list[CallDisposition]:
    given = {"policy": policy, "user_id": "ann", "decision_id": "d", "max_calls_per_turn": 20, **more}
    return [one.disposition for one in judge_batch(calls, **given)]


RUNS, ASKS, WAITS = CallDisposition.EXECUTED, CallDisposition.AWAITING, CallDisposition.WAITS
SKIPPED, REFUSED = CallDisposition.SKIPPED, CallDisposition.REFUSED


@pytest.mark.parametrize(
    ("one", "approvals", "roles", "first", "after_yes"),
    [
        (call("note"), {}, (), RUNS, RUNS),
        (call("refund", 50), {}, (), RUNS, RUNS),
        (call("refund", 200), {}, (), ASKS, RUNS),
        (call("refund", 600), {}, (), ASKS, WAITS),
        (call("refund", 600), MANAGER, (), ASKS, RUNS),
        (call("refund", 6000), {}, (), ASKS, WAITS),
        (call("refund", 6000), {"manager": 2}, (), ASKS, WAITS),
        (call("refund", 6000), MANAGER | FINANCE, (), ASKS, RUNS),
        (call("refund", 200_000), {}, (), REFUSED, REFUSED),
        (call("refund", 200_000), {"manager": 9, "finance": 9}, (), REFUSED, REFUSED),
        (call("payout"), {}, (), WAITS, WAITS),
        (call("payout"), MANAGER, (), WAITS, WAITS),
        (call("payout"), {"manager": 2}, (), RUNS, RUNS),
        (call("payout"), MANAGER | FINANCE, (), RUNS, RUNS),
        (call("discount"), {}, (), WAITS, WAITS),
        (call("discount"), {}, ("manager",), ASKS, RUNS),
        (call("discount"), MANAGER, (), RUNS, RUNS),
        (call("close"), {}, (), ASKS, WAITS),
        (call("close"), MANAGER, (), ASKS, RUNS),
    ],
)
def test_a_call_runs_asks_waits_or_is_refused_by_the_first_judgement_that_allows_it(
    one: FunctionCall, approvals: dict[str, int], roles: tuple[str, ...], first: CallDisposition, after_yes: CallDisposition
) -> None:
    given: dict[str, Any] = {"approvals": approvals, "roles": roles}
    assert judged(one, **given) == [first]
    assert judged(one, confirmed=yes_to(one), **given) == [after_yes]


def test_approvals_alone_are_no_yes() -> None:
    one = call("close")
    assert judged(one, confirmed=yes_to(one), approvals=MANAGER, yes=False) == [ASKS]
    assert judged(one, confirmed=yes_to(one), approvals=MANAGER) == [RUNS]


def test_aisvs_9_2_10_a_call_that_waits_for_an_approval_stops_its_batch() -> None:
    assert judged(call("note"), call("payout"), call("note", 2), call("find")) == [RUNS, WAITS, ASKS, SKIPPED]
    assert RUNS not in judged(call("payout"), *(call(name) for name in ("note", "refund", "payout", "find")))


def test_a_call_that_needs_an_approval_is_on_no_card_with_others() -> None:
    assert judged(call("refund", 200), call("payout"), call("refund", 600)) == [ASKS, SKIPPED, SKIPPED]


def test_the_roles_that_are_needed_are_those_of_the_rules_that_deny_the_call() -> None:
    conditions = SHOP.conditions
    assert conditions is not None
    situation = Situation("ann")

    def needed(one: FunctionCall) -> NeededApproval | None:
        return conditions.judge(one.name, one.arguments, situation).needs

    assert needed(call("refund", 50)) is None
    assert needed(call("refund", 600)) == NeededApproval(("manager",), ("refunds over 500 need a manager",))
    both = ("refunds over 500 need a manager", "refunds over 5000 need finance too")
    assert needed(call("refund", 6000)) == NeededApproval(ROLES, both)
    assert needed(call("refund", 200_000)) is None
    assert conditions.approval_roles("refund") == ROLES
    assert conditions.approval_roles("discount") == ("manager",)
    assert conditions.approval_roles("note") == ()


def test_a_permit_that_counts_approvals_waits_for_them() -> None:
    rule = 'permit (principal, action == Action::"note", resource) when { context.approvals.finance >= 1 };'
    policy = policy_of(TOOLS[3:4], rule, ROLES)
    assert judged(call("note"), policy=policy) == [WAITS]
    assert judged(call("note"), policy=policy, approvals=FINANCE) == [RUNS]
    assert policy.conditions is not None
    decided = policy.conditions.judge("note", call("note").arguments, Situation("ann"))
    assert decided.needs == NeededApproval(("finance",), ("no condition permits it",))


def test_a_rule_that_more_approvals_break_can_only_refuse() -> None:
    rule = (
        '@id("exactly one") forbid (principal, action == Action::"note", resource) unless { context.approvals.manager == 1 };'
    )
    policy = policy_of(TOOLS[3:4], PERMIT + rule, ROLES)
    for count in (0, 2):
        assert judged(call("note"), policy=policy, approvals={"manager": count}) == [REFUSED]


@pytest.mark.parametrize(
    "wrong", ["context.approvals.manager * 9223372036854775807 > 1", "context.arguments.amount * 9223372036854775807 > 1"]
)
def test_an_error_in_any_of_the_four_judgements_refuses(wrong: str) -> None:
    rule = f'forbid (principal, action == Action::"note", resource) when {{ {wrong} && context.approvals.manager < 1 }};'
    policy = policy_of(TOOLS[3:4], PERMIT + rule, ROLES)
    assert judged(call("note", 9), policy=policy) == [REFUSED]


def test_sums_of_everybodys_approvals_do_not_overflow() -> None:
    roles = tuple(f"r{number}" for number in range(50))
    total = " + ".join(f"context.approvals.{role} * 1000" for role in roles)
    policy = policy_of(TOOLS[3:4], f"{PERMIT}forbid (principal, action, resource) unless {{ {total} >= 2000 }};", roles)
    assert judged(call("note"), policy=policy) == [WAITS]


@pytest.mark.parametrize(
    ("rule", "roles", "message"),
    [
        ("context.approvals.manager >= 1", (), "line 2: approvals are counted by role, and GRAPH_AGENT_ROLES names none"),
        ("context.approvals.maneger >= 1", ROLES, "GRAPH_AGENT_ROLES has finance, manager"),
        ("context has approver && context.approver == principal", ROLES, "there is no `context.approver`: write"),
        ('context.approver in Role::"manager"', ROLES, "there is no `context.approver`: write"),
    ],
)
def test_a_rule_about_approvals_that_cannot_be_used_is_one_sentence(rule: str, roles: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        policy_of(TOOLS[3:4], f"{PERMIT}forbid (principal, action, resource) unless {{ {rule} }};", roles)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_an_engine_that_keeps_no_requests_refuses_a_policy_that_counts_approvals() -> None:
    for condition in ("context.approvals.manager >= 1", "context.confirmed || context.approvals.manager >= 1"):
        rule = f"{PERMIT}forbid (principal, action, resource) unless {{ {condition} }};"
        engine = engine_of(conditions=ConditionsFile(rule, roles=ROLES))
        with pytest.raises(ConfigurationError, match="installation keeps no requests"):
            await engine.prepare()


def test_policy_check_names_the_roles_of_each_tool() -> None:
    lines = list(explained_conditions(SHOP))
    assert lines[lines.index(next(one for one in lines if one.startswith("refund "))) + 1] == (
        "  approvals count of people with the role finance or manager"
    )
    assert lines.count("  approvals count of people with the role manager") == 2


@pytest.mark.parametrize(
    ("clause", "warned"),
    [
        ("unless { context.approvals.manager >= 1 }", False),
        ("unless { 1 <= context.approvals.manager + context.approvals.finance }", False),
        ("when { context.approvals.manager < 1 }", False),
        ("when { !(context.approvals.manager >= 2) }", False),
        ("unless { context.approvals.manager - context.approvals.finance >= 1 }", True),
        ("unless { context.approvals.manager < 3 }", True),
        ("when { context.approvals.manager > 3 }", True),
        ("when { !(context.approvals.manager < 2) }", True),
        ("unless { context.approvals.manager == 1 }", True),
        ("when { context.confirmed }", False),
        ("unless { context.approvals.manager * 2 + 3 * context.approvals.finance >= 6 }", False),
        ("unless { context.approvals.manager * -2 >= -4 }", True),
        ("when { -1 * context.approvals.manager < -2 }", True),
        ("when { -context.approvals.manager > -1 }", False),
        ("unless { context.approvals.manager * context.approvals.finance >= 1 }", True),
        ("unless { context has approvals && context.approvals has manager && context.approvals.manager >= 1 }", False),
        ("when { (context.approvals.manager >= 1) == false }", False),
        ("unless { false != (context.approvals.manager >= 2) }", False),
        ("when { (context.approvals.manager >= 1) == true }", True),
        ("unless { if context.confirmed then context.approvals.manager >= 1 else context.approvals.finance >= 2 }", False),
        ("unless { if context.confirmed then context.approvals.manager < 1 else true }", True),
        ("unless { (if context.confirmed then context.approvals.manager else 0) >= 1 }", False),
        ("unless { if context.approvals.manager >= 1 then true else context.confirmed }", False),
        ("unless { if context.approvals.manager >= 1 then context.confirmed else true }", True),
        ("unless { [context.approvals.manager].contains(1) }", True),
    ],
)
def test_policy_check_warns_of_a_rule_that_more_approvals_can_break(clause: str, warned: bool) -> None:
    policy = policy_of(TOOLS[3:4], f'{PERMIT}@id("odd") forbid (principal, action, resource) {clause};', ROLES)
    assert any("because more people approved it" in line for line in explained_conditions(policy)) is warned


def test_other_policies_are_evaluated_as_before() -> None:
    policy = policy_of(TOOLS[3:4], PERMIT, ROLES)
    assert policy.conditions is not None
    assert policy.conditions.judge("note", call("note").arguments, Situation("ann")).verdict is Verdict.RUNS
