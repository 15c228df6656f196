"""The uses of a day, counted while a record is read, are those that the guard counts, and so are the decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from graph_agent.models.facts import PastUse, PastUses
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.cedar.evaluation import CedarConditions
from graph_agent.suggestions.day_uses import DayUses
from graph_agent.suggestions.effect import Judge
from graph_agent.suggestions.seen import SeenCalls
from tests.policy.cedar_shop import PERMIT, SHOP, policy_of
from tests.suggestions.businesses import BUSINESSES, Business, decisions
from tests.suggestions.test_businesses import suggestion

_RULES = """
forbid (principal, action == Action::"refund", resource) when { context.used.day.sum.amount > 2000 };
forbid (principal, action == Action::"pay", resource) when { context.used.hour.sum.amount.greaterThan(decimal("10.0")) };
forbid (principal, action, resource) when { context.used.day.calls > 5 || context.used.hour.writes > 8 };
"""


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns"])
def test_the_uses_of_a_day_are_those_that_the_guard_counts(zone: str) -> None:
    policy = policy_of(SHOP, PERMIT + _RULES)
    conditions = CedarConditions(ConditionsFile(PERMIT + _RULES, time_zone=zone), policy.actions)
    random = Random(zone)
    counted, uses = DayUses(conditions.actions, zone), list[PastUse]()
    # Around the days on which the clocks change.
    for began in (datetime(2026, 4, 4, 12, tzinfo=UTC), datetime(2026, 10, 3, 12, tzinfo=UTC)):
        for _ in range(60):
            at = began + timedelta(minutes=random.randrange(24 * 60))
            tool = random.choice(("refund", "pay", "stock", "gone"))
            amount = random.choice((5, 7, -3, 120)) if tool == "refund" else random.choice((0.25, 9, 3.1417))
            arguments = {"order": "o", "amount": amount}
            counted.add(tool, arguments, at)
            uses.append(conditions.use(tool, arguments, at) if tool in conditions.actions else PastUse(tool, {}, at))
            now = began + timedelta(minutes=random.randrange(24 * 60))
            expected = conditions.facts(now, PastUses(uses)).used
            assert expected is not None
            for name in ("refund", "pay"):
                found = counted.used(name, now)
                for window, use in expected.items():
                    assert found[window].writes == use.writes
                    assert found[window].tools.get(name) == use.tools.get(name)


@pytest.mark.parametrize("business", BUSINESSES, ids=lambda one: one.name)
def test_calls_that_conditions_see_equally_are_decided_as_each_alone(business: Business) -> None:
    policy = policy_of(business.tools, suggestion(business, count=1500), business.roles)
    assert policy.conditions is not None
    one, seen = Judge(policy.conditions), SeenCalls(policy)
    found = set()
    for made in decisions(business, 600, 3):
        for call in seen.of(made.record):
            decided = one.judge(call)
            assert decided == Judge(policy.conditions).judge(call)
            found.add(decided.verdict)
    assert len(found) == 2
