"""The calls at the border of the suggested rules: found by the solver, and judged by the guard."""

from __future__ import annotations

from graph_agent.analysis.borders import border_example
from tests.policy.cedar_shop import policy_of
from tests.suggestions.businesses import BUSINESSES, decisions
from tests.suggestions.test_suggest import suggestion

_SHOP = BUSINESSES[0]


async def test_each_rule_has_a_call_at_its_border_that_still_runs() -> None:
    found = await suggestion([one.record for one in decisions(_SHOP, 1500, 1)], list(_SHOP.tools), roles=_SHOP.roles)
    shown = {}
    for border in found.borders:
        policy, stricter = (policy_of(_SHOP.tools, text, _SHOP.roles) for text in (border.text, border.stricter))
        example = border_example(policy, stricter, border.tool, 5)
        assert example is not None, border.rule
        shown[border.rule] = example
    limit = next(rule for rule in shown if rule.startswith("refund: amount at most") and "day" not in rule)
    assert shown[limit].arguments["amount"] == int(limit.rpartition(" ")[2])
    sums = next(rule for rule in shown if rule.startswith("refund: amount at most") and rule.endswith("a day"))
    assert f"amount={sums.split()[4]}" in str(shown[sums])
    assert "succeeded: read_order" in str(shown["refund: after read_order"])
    assert "hour=17" in str(shown["refund: from 8 to 18 o'clock"])
    assert len({rule.partition(":")[0] for rule in shown}) == 3


async def test_a_rule_that_another_one_makes_impossible_to_reach_has_no_border() -> None:
    rules = 'permit (principal, action, resource); forbid (principal, action == Action::"refund", resource) when {{ {0} }};'
    policy, stricter = (policy_of(_SHOP.tools, rules.format(one), _SHOP.roles) for one in ("true", "true || true"))
    assert border_example(policy, stricter, "refund", 5) is None
