"""The rules at the start of docs/conditions.md, as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from graph_agent.models.facts import Facts
from graph_agent.models.record import CallDisposition
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.past_call import PastCall
from tests.judging import rule_of_verdict
from tests.policy.cedar_shop import GIVE_BACK, SHOP, facts, judge, policy_of

PAGE = (Path(__file__).parents[2] / "docs" / "conditions.md").read_text(encoding="utf-8")
PRINTED = re.findall(r"```cedar\n(.*?)```", PAGE, re.DOTALL)
FACTS = "".join(re.findall(r"```markdown\n## Facts\n(.*?)```", PAGE, re.DOTALL))
RUNS, ASKS, REFUSED = CallDisposition.EXECUTED, CallDisposition.AWAITING, CallDisposition.REFUSED
REFUND, PRICE, STOCK, MAIL = "refund", "set_price", "restock", "send_mail"
CANCEL, BACK = "cancel_order", "give_back"


def refund(amount: int) -> dict[str, Any]:
    return {"order": "o", "amount": amount}


def used_today(amount: int) -> Facts:
    return facts(used={"day": {"tools": {REFUND: {"calls": 1, "sums": {"amount": amount}}}}})


def known(**values: Any) -> dict[str, Any]:
    return {"results": CallFacts(values)}


CASES: list[list[tuple[str, dict[str, Any], dict[str, Any], CallDisposition, str]]] = [
    [
        (REFUND, refund(100), {}, RUNS, ""),
        (REFUND, refund(101), {}, ASKS, "refunds over 100 need a yes"),
        ("report", {"title": "x", "days": 1}, {}, RUNS, ""),
    ],
    [
        (REFUND, refund(500), {}, RUNS, ""),
        (REFUND, refund(200), {"past": [PastCall(1, REFUND, refund(300))]}, RUNS, ""),
        (REFUND, refund(201), {"past": [PastCall(1, REFUND, refund(300))]}, REFUSED, "at most 500 for one message"),
        (REFUND, refund(200), {"facts": used_today(1800)}, RUNS, ""),
        (REFUND, refund(201), {"facts": used_today(1800)}, REFUSED, "at most 2000 a day"),
    ],
    [
        (PRICE, {"sku": "a", "price": 1}, {}, REFUSED, "prices are for managers"),
        (PRICE, {"sku": "a", "price": 1}, {"roles": ("support",)}, REFUSED, "prices are for managers"),
        (PRICE, {"sku": "a", "price": 1000}, {"roles": ("manager",)}, RUNS, ""),
        (PRICE, {"sku": "a", "price": 1000.01}, {"roles": ("manager",)}, REFUSED, "no price above 1000"),
    ],
    [
        (STOCK, {"sku": "a", "count": 1}, {"facts": facts(hour=8)}, RUNS, ""),
        (STOCK, {"sku": "a", "count": 1}, {"facts": facts(hour=18)}, REFUSED, "no changes between 18 and 8 o'clock"),
        ("stock", {"sku": "a"}, {"facts": facts(hour=23)}, RUNS, ""),
    ],
    [
        (PRICE, {"sku": "a", "price": 1}, {}, REFUSED, "stock and prices are for managers"),
        (STOCK, {"sku": "a", "count": 1}, {}, REFUSED, "stock and prices are for managers"),
        (STOCK, {"sku": "a", "count": 1}, {"roles": ("manager",)}, RUNS, ""),
        (REFUND, refund(1), {}, RUNS, ""),
    ],
    [
        (MAIL, {"to": ["a@example.com"], "text": "x"}, {}, RUNS, ""),
        (MAIL, {"to": ["a@example.com", "b@evil.org"], "text": "x"}, {}, ASKS, "mail outside needs a yes"),
        (MAIL, {"to": ["a@evil.org,b@example.com"], "text": "x"}, {}, ASKS, "mail outside needs a yes"),
    ],
    [
        (CANCEL, {"order": "A1"}, known(order={"status": "pending"}), ASKS, ""),
        (
            CANCEL,
            {"order": "A1"},
            known(order={"status": "shipped"}),
            REFUSED,
            "only a pending order can be cancelled (order: status = 'shipped')",
        ),
        (CANCEL, {"order": "A1"}, known(), REFUSED, "only a pending order can be cancelled (order: not found)"),
    ],
    [
        (BACK, {"order": "A1", "card": "c-1", "amount": 5}, known(charged="c-1"), RUNS, ""),
        (
            BACK,
            {"order": "A1", "card": "c-2", "amount": 5},
            known(charged="c-1"),
            REFUSED,
            "money goes back to the card that was charged (charged = 'c-1')",
        ),
    ],
    [
        (REFUND, refund(1), {}, REFUSED, "refunds only after the order was found"),
        (REFUND, refund(1), {"facts": facts(attempted=["find_order"])}, REFUSED, "refunds only after the order was found"),
        (REFUND, refund(1), {"facts": facts(succeeded=["find_order"])}, RUNS, ""),
        (MAIL, {"to": ["a@example.com"], "text": "x"}, {}, RUNS, ""),
        (
            MAIL,
            {"to": ["a@example.com"], "text": "x"},
            {"facts": facts(attempted=["read_private"])},
            REFUSED,
            "nothing leaves after a private read",
        ),
        (
            MAIL,
            {"to": ["a@example.com"], "text": "x"},
            {"past": [PastCall(1, "read_private", {"customer": "c"}, may_have_run=False)]},
            REFUSED,
            "nothing leaves after a private read",
        ),
    ],
]


@pytest.mark.parametrize(("rules", "cases"), list(zip(PRINTED[:9], CASES, strict=True)))
def test_a_printed_rule_answers_its_question(rules: str, cases: list[Any]) -> None:
    policy = policy_of([*SHOP, GIVE_BACK], FACTS + rules)
    for tool, arguments, situation, verdict, reason in cases:
        judged = judge(policy, tool, arguments, **{"facts": facts(), **situation})
        assert (judged.disposition, rule_of_verdict(judged)) == (verdict, reason), (tool, arguments)
