"""The verdicts of rules in the shadow are those that the conditions have with each of them alone in force."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from graph_agent.models.facts import Facts, WindowUse
from graph_agent.models.sources import CallSources, FoundSource, Source
from graph_agent.policy.cedar.conditions import Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.past_call import PastCall
from tests.policy.cedar_shop import COUNT, PERMIT, TEXT, ShopTool, facts, policy_of, schema

ROLES = ("finance", "manager")
PARAMETERS = schema("order", order=TEXT, amount=COUNT, price={"type": "number"}, parts={"type": "array", "items": {}})
TOOLS = (ShopTool("refund", PARAMETERS), ShopTool("note", PARAMETERS), ShopTool("find", PARAMETERS, reads=True))
SCOPES = ("principal, action, resource", 'principal, action == Action::"refund", resource')
TERMS = (
    "context.arguments has amount && context.arguments.amount > 5",
    'context.arguments.order == "A"',
    'context.arguments.order like "*B*"',
    'context.arguments has price && context.arguments.price.greaterThan(decimal("2.0"))',
    "context.arguments has amount && context.arguments.amount * 4611686018427387904 > 9",
    "context.used.message.calls > 1",
    "context.used.message.sum.amount > 6",
    "context.used.day.calls > 2",
    'context.used.day.sum.price.greaterThan(decimal("3.0"))',
    "context.used.hour.writes > 1",
    'context.succeeded.contains(Action::"find")',
    'context.attempted.contains(Action::"note")',
    "context.time.hour < 12",
    "context.tainted",
    'context.sources.contains("user")',
    "!context.hidden.isEmpty()",
    "context.approvals.manager >= 1",
    "context.approvals.finance >= 1",
    'principal in Role::"manager"',
    "context.confirmed",
    "true",
)

SEEN = {"asks", "waits", "refused", "unknown", "none"}


def _rule(dice: random.Random, number: int) -> str:
    when, unless = (" && ".join(dice.sample(TERMS, dice.choice((1, 1, 2)))) for _ in range(2))
    if dice.random() < 0.3:
        unless = dice.choice(("context.confirmed", "context.approvals.manager >= 1"))
    clauses = dice.choice((f"when {{ {when} }}", f"unless {{ {unless} }}", f"when {{ {when} }} unless {{ {unless} }}"))
    return f'@id("r{number}") forbid ({dice.choice(SCOPES)}) {clauses};'


def _call(dice: random.Random) -> tuple[str, dict[str, Any]]:
    arguments: dict[str, Any] = {"order": dice.choice(("A", "B1", "C"))}
    if dice.random() < 0.7:
        # The last one is no number of Cedar.
        arguments["amount"] = dice.choice((0, 2, 6, 9, 2**70))
    if dice.random() < 0.4:
        arguments["price"] = dice.choice((1, 2.5, 1.123456789, 10**20))
    if dice.random() < 0.2:
        arguments["parts"] = [{"sku": 1}]
    return dice.choice(("refund", "note", "find")), arguments


def _situation(dice: random.Random) -> Situation:
    earlier = [
        PastCall(number, *_call(dice), may_have_run=dice.random() < 0.7, succeeded=dice.random() < 0.5)
        for number in range(1, dice.randint(1, 3))
    ]
    used = {
        "day": WindowUse.model_validate({"writes": 2, "tools": {"refund": {"calls": dice.randint(0, 3), "sums": {"price": 9}}}})
    }
    some = {"used": used, "succeeded": dice.choice(([], ["find"])), "attempted": dice.choice(([], ["note"]))}
    known = dict(one for one in some.items() if dice.random() < 0.9)
    missing = dict.fromkeys(some.keys() - known.keys())
    found: Facts | None = None if dice.random() < 0.1 else facts(**{**known, **missing})
    source = FoundSource(source=dice.choice((Source.USER, Source.MODEL)))
    return Situation(
        "ann",
        dice.choice(((), ("manager",))),
        found,
        earlier,
        of_message=dice.random() < 0.8,
        sources=None if dice.random() < 0.2 else CallSources(arguments={"order": [source]}),
        approvals=dice.choice(({}, {"manager": 1}, {"manager": 1, "finance": 2})),
    )


def _with_each(enforced: list[str], shadow: list[str]) -> dict[str, CompiledPolicy]:
    """Return the conditions with each rule of the shadow in force, and without the others."""
    return {rule: policy_of(TOOLS, PERMIT + "\n".join([*enforced, rule]), ROLES) for rule in shadow}


def _expected(alone: dict[str, CompiledPolicy], made: Verdict, lacks: bool, *call: Any) -> list[tuple[str, str]]:
    found = []
    for rule, policy in alone.items() if made is not Verdict.REFUSED else ():
        conditions = policy.conditions
        assert conditions is not None
        name = rule.split('"')[1]
        if not conditions.is_about(next(key for key, one in conditions.names.items() if one == name), call[0]):
            continue
        if lacks and conditions.lacks_facts(call[0], call[2]):
            found.append((name, "unknown"))
        elif (verdict := conditions.judge(*call).verdict).is_stricter_than(made):
            found.append((name, str(verdict)))
    return found


def _compared(seed: int, policies: int, calls: int) -> Counter[str]:
    """Compare random calls under random policies; return how often each verdict was seen."""
    dice, seen = random.Random(seed), Counter[str]()
    for _ in range(policies):
        rules = [_rule(dice, number) for number in range(dice.randint(2, 5))]
        cut = dice.randint(0, len(rules) - 1)
        enforced, shadow = rules[:cut], rules[cut:]
        marked = policy_of(TOOLS, PERMIT + "\n".join([*enforced, *(f"@shadow {one}" for one in shadow)]), ROLES)
        plain = policy_of(TOOLS, PERMIT + "\n".join(enforced), ROLES)
        alone = _with_each(enforced, shadow)
        assert marked.conditions is not None
        assert plain.conditions is not None
        for _ in range(calls):
            call = (*_call(dice), _situation(dice))
            made, judged = plain.conditions.judge(*call), marked.conditions.judge(*call)
            assert judged._replace(shadow=()) == made, (rules, cut, call)
            lacks = marked.conditions.gathers.lacks_facts(call[0], call[2])
            found = [(one.rule, str(one.decision)) for one in judged.shadow]
            assert found == _expected(alone, made.verdict, lacks, *call), (rules, cut, call)
            seen.update([decision for _, decision in found] or ["none"])
    return seen


def test_each_rule_in_the_shadow_has_the_verdict_that_it_would_have_in_force() -> None:
    assert _compared(seed=7, policies=60, calls=12).keys() == SEEN


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_each_rule_in_the_shadow_has_the_verdict_that_it_would_have_in_force_at_length(seed: int) -> None:
    assert _compared(seed, policies=150, calls=25).keys() == SEEN
