"""The parts of arguments that conditions see only through facts, and those that stay hidden."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.analysis.questions import Answer, prove
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.conditions import ConditionsFile, Situation
from graph_agent.policy.cedar.fact_values import of_arguments
from tests.desk import forbid
from tests.policy.cedar_shop import ShopTool, policy_of, schema

ITEM = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
TOOLS = [ShopTool("order", schema("lines", lines={"type": "array", "items": ITEM}))]
RULES = (
    '@id("base") \n- skus: arguments $.lines[*].sku\n- number: count arguments $.lines[*]\n'
    "permit (principal, action, resource);\n"
    + forbid("no bombs", "order", 'context.result has skus && !context.result.skus.contains("bomb")')
    + forbid("few", "order", "context.result has number && context.result.number < 5")
)
DETAILS = forbid("details", "order", "context.hidden.isEmpty()")


@pytest.mark.parametrize(
    ("lines", "hidden"),
    [
        ([{"sku": "cup"}], False),
        ([{"sku": "cup", "price": 99999, "ship_to": "mallory"}], True),
        ([{"sku": "cup"}, {"sku": "hat", "note": {}}], True),
        ([{"sku": "cup", "note": None}], False),
        ([], False),
    ],
)
def test_a_path_shows_what_it_selects_and_the_rest_of_its_argument_stays_hidden(
    lines: list[dict[str, Any]], hidden: bool
) -> None:
    conditions = policy_of(TOOLS, RULES + DETAILS).conditions
    assert conditions is not None
    known, arguments = CallFacts(), {"lines": lines}
    known.add(of_arguments(conditions.results, conditions.results.of_tool["order"], arguments))
    decided = conditions.judge("order", arguments, Situation("ann", results=known))
    assert decided.reasons == (("details",) if hidden else ())


def test_a_promise_about_hidden_details_is_proved_only_by_a_rule_about_them() -> None:
    promise = ConditionsFile('@id("p") forbid (principal, action, resource) when { !context.hidden.isEmpty() };')
    answers = [prove(policy_of(TOOLS, rules), promise, 60)[0].answer for rules in (RULES, RULES + DETAILS)]
    assert answers == [Answer.FAILS, Answer.PROVED]
