"""What a plan changes: it is a yes that was given before, and nothing else, for the guard and for what is sent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from graph_agent.models.decision import CONFIRMATION_LIFETIME, PendingAction
from graph_agent.models.facts import PastUse, PastUses
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import AtMost, Covered, Is, Line
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.call_in_hand import CallInHand, Evidence, Setting
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import GATES, judge
from graph_agent.policy.mandate import Conversation, fitting_lines
from tests.invariants.plan_mistakes import MISTAKES
from tests.invariants.planned_turns import play
from tests.policy.cedar_shop import COUNT, PERMIT, TEXT, ShopTool, constitution_of, declarations_of, schema
from tests.simulation.planted import compile_changed

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
ROLES = ("boss",)
UNLESS = (
    "",
    "unless { context.confirmed }",
    "unless { context.approvals.boss > 0 }",
    "unless { context.confirmed && context.approvals.boss > 0 }",
)
WHEN = (
    "",
    'when { context.arguments.order == "W1" }',
    "when { context.arguments.amount > 5 }",
    "when { context.used.day.calls > 3 }",
)
MARKERS = ("(in plans)", "(in plans) (requires confirmation)", "", "(requires confirmation)")


def random_policy(random: Random) -> CompiledPolicy:
    tools = [ShopTool("refund", schema(order=TEXT, amount=COUNT), marker=random.choice(MARKERS))]
    rules = [
        f'@id("{n}") forbid (principal, action, resource) {random.choice(WHEN)} {random.choice(UNLESS)};'
        for n in range(random.randrange(3))
    ]
    policy = compile_policy(Constitution.parse(constitution_of(tools)), declarations_of(tools), {"refund": ToolTraits()})
    return policy.with_conditions(ConditionsFile(PERMIT + "\n".join(rules), roles=ROLES))


def random_line(random: Random) -> Line:
    bounds: dict[str, Any] = {
        "order": random.choice([Is(("W1",)), Is(("W1", "W2")), None]),
        "amount": random.choice([AtMost(5), AtMost(20), Is((7,)), None]),
    }
    return Line(tool="refund", arguments={name: bound for name, bound in bounds.items() if bound is not None})


def random_call(random: Random) -> FunctionCall:
    chosen = {"order": random.choice(["W1", "W2", "W3", None]), "amount": random.choice([1, 5, 7, 30, None])}
    return FunctionCall(name="refund", arguments={name: value for name, value in chosen.items() if value is not None})


def verdict(hand: CallInHand, covered: Covered | None = None, **setting: Any) -> CallDisposition:
    evidence = Evidence(covered=covered)
    return judge(replace(hand, setting=replace(hand.setting, **setting), evidence=evidence)).disposition


def test_a_mandate_lets_run_exactly_what_the_yes_would_let_run() -> None:
    random, seen = Random(1), set[tuple[CallDisposition, CallDisposition, bool]]()
    for _ in range(2_000):
        policy, lines, call = random_policy(random), [random_line(random)], random_call(random)
        grant = policy.rules["refund"].grant
        numbers = fitting_lines(lines, call, None, Conversation(), exact=grant.requires_confirmation)
        covered = Covered("m1", numbers) if numbers and grant.in_plans is not None else None
        assert policy.conditions is not None
        facts = policy.conditions.gathers.facts(NOW, PastUses([PastUse("refund", {}, NOW)] * random.choice([0, 9])))
        hand = CallInHand(call=call, setting=Setting(policy=policy, user_id="ann", facts=facts))
        action = PendingAction(
            id="p1",
            tool_name="refund",
            arguments=call.arguments,
            description="?",
            created_at=NOW,
            expires_at=NOW + CONFIRMATION_LIFETIME,
        )
        without, with_yes, found = verdict(hand), verdict(hand, confirmed=action), verdict(hand, covered)
        # What needs others' approval beside the yes, or after it, is asked about as before.
        expected = (
            with_yes if covered and without is CallDisposition.AWAITING and with_yes is CallDisposition.EXECUTED else without
        )
        assert found is expected
        assert found is not CallDisposition.EXECUTED or CallDisposition.EXECUTED in (without, with_yes)
        seen.add((without, found, covered is not None))
    assert (CallDisposition.AWAITING, CallDisposition.EXECUTED, True) in seen
    assert (CallDisposition.REFUSED, CallDisposition.REFUSED, True) in seen


def test_the_mandate_is_read_after_the_conditions_and_drawn_before_the_effect() -> None:
    names = [gate.name for gate in GATES]
    assert (
        names.index("conditions")
        < names.index("plan")
        < names.index("consent")
        < names.index("permission")
        < names.index("budget")
    )


async def test_no_call_is_sent_that_the_rules_or_the_lines_of_a_plan_do_not_permit() -> None:
    cases = await play(range(60))
    assert [*cases[-1].violations()] == []
    assert sum(one.line is not None for case in cases for one in case.desk.arrived) > 20


_FOUND = {
    "the mandate is looked at before the conditions": ("is refused by", "waits for an approval"),
    "a value is compared by containment": ("does not fit",),
    "a draw is stored after its call was sent": ("was not drawn when it was sent",),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_about_plans_is_found(mistake: str) -> None:
    program = f"""
from tests.invariants.plan_mistakes import MISTAKES
from tests.simulation.planted import plant
plant(MISTAKES[{mistake!r}])
from tests.invariants.planned_turns import first_violation
print(first_violation(range(60)))
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert any(words in printed for words in _FOUND[mistake]), printed


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_about_plans_can_be_planted_in_the_source_as_it_is_now(mistake: str) -> None:
    compile_changed(MISTAKES[mistake])
