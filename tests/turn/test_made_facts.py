"""Facts that are made of others: one element that an argument picks, sums, and products."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ConstitutionError
from graph_agent.models.record import EntryKind
from graph_agent.policy.constitution import Constitution
from graph_agent.testing import OrderDesk, says
from tests.desk import Conversation, conversation, exchange, forbid, give_back, policy
from tests.scripted_turns import calls

ORDER = "- order: get_order(order_id = arguments.order_id)\n"
LEFT = ORDER + "- left: one order $.cards[?@.id == arguments.method].left\n"
ENOUGH = forbid(
    "at most what is left",
    "return_items",
    'context.result has left && context.result.left.greaterThanOrEqual(decimal("20.0"))',
)


def desk(**order: Any) -> OrderDesk:
    made = OrderDesk()
    made.orders["W1"] |= order
    return made


async def asked(rules: str, call: tuple[str, dict[str, Any]], **order: Any) -> Conversation:
    run = conversation(rules, calls(call), says("."), desk=desk(**order))
    await run.say()
    return run


CARDS = [
    {"id": "gift_1", "left": 25.5},
    {"id": "gift_2", "left": "3.10"},
    {"id": "twice", "left": 30},
    {"id": "twice", "left": 40},
]


@pytest.mark.parametrize(("card", "is_made"), [("gift_1", True), ("gift_2", False), ("unknown", False), ("twice", False)])
async def test_an_argument_picks_one_element(card: str, is_made: bool) -> None:
    run = await asked(policy(LEFT, ENOUGH), give_back("W1", card), cards=CARDS)
    assert bool(run.desk.changes) is is_made


async def test_each_call_of_a_batch_has_the_element_that_its_own_argument_picks() -> None:
    both = [give_back("W1", "gift_2"), give_back("W1", "gift_1")]
    run = conversation(policy(LEFT, ENOUGH), calls(*both), says("."), desk=desk(cards=CARDS))
    finished = await run.say()
    assert run.desk.made == ["get_order W1", "get_order W1", "return_items W1 gift_1"]
    reads = [entry.result for entry in finished.record.entries if entry.kind is EntryKind.READ]
    assert [(read["compared"], read["values"]["left"]) for read in reads] == [
        ({"method": "gift_2"}, "3.10"),
        ({"method": "gift_1"}, 25.5),
    ]
    stricter = policy(LEFT, ENOUGH.replace("20.0", "26.0"))
    report = await run.replayed(finished, stricter)
    assert [one.tool_name for one in report.refused] == ["return_items"]


async def test_an_element_without_what_the_path_compares_refuses_the_call() -> None:
    run = await asked(policy(LEFT, ENOUGH), give_back("W1", "gift_1"), cards=[{"left": 99}, *CARDS])
    assert run.desk.changes == []
    assert "does not have what the filter of its path compares" in run.turns[0].decision.notices[0]


@pytest.mark.parametrize(
    ("prices", "is_made"),
    [
        ([10, 15.5], True),
        (["10.10", 15.4], True),
        ([10, 15.49], False),
        ([], False),
        ([25.5, "x"], False),
        ([25.5, True], False),
    ],
)
async def test_values_are_added_up_exactly(prices: list[Any], is_made: bool) -> None:
    same = 'context.result.sum_of == context.result.order.total && context.result.order.total.lessThan(decimal("99.0"))'
    known = "context.result has sum_of && context.result has order"
    rule = forbid("the lines are the total", "return_items", f"{known} && {same}")
    declared = ORDER + "- sum_of: sum order $.lines[*].price\n"
    run = await asked(policy(declared, rule), give_back("W1", "card_1"), lines=[{"price": one} for one in prices])
    assert bool(run.desk.changes) is is_made


@pytest.mark.parametrize(("price", "is_made"), [(9.99, True), ("9.99", True), (10, False), ("ten", False), (None, False)])
async def test_a_price_is_multiplied_with_a_number_of_pieces(price: Any, is_made: bool) -> None:
    declared = ORDER + "- pieces: count arguments $.items[*]\n- due: order.price * pieces\n"
    rule = forbid("below 20", "exchange", 'context.result has due && context.result.due.lessThan(decimal("20.0"))')
    run = await asked(policy(declared, rule), exchange("W1", "p1", "p2"), price=price)
    assert bool(run.desk.changes) is is_made


async def test_the_arguments_of_a_call_are_added_up_without_a_read() -> None:
    declared = "- pieces: count arguments $.items[*]\n- squares: pieces * pieces\n"
    rule = forbid("four at most", "exchange", "context.result has squares && context.result.squares <= 4")
    assert (await asked(policy(declared, rule), exchange("W1", "p1", "p2"))).desk.made == ["exchange W1"]
    assert (await asked(policy(declared, rule), exchange("W1", "p1", "p2", "p1"))).desk.made == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("x: last get_order $.cards[?@.id == arguments.method].left", "not read for one call"),
        ("x: one order $.cards[0].left", "picks one value: its path must select several"),
        ("x: sum order $.total", "adds up one value"),
        ("x: one get_order(order_id = arguments.items[*].id) $.cards[*].left", "picks from one read"),
        ("x: order $.cards[?@.id == arguments.method && $.a == 1].left", "compares them with `@`, and not with `$`"),
        ("x: order.total * arguments", "'arguments' is no value"),
        ("x: order.total * missing.y", "declares the fact 'missing'"),
    ],
)
def test_a_fact_that_can_have_no_value_is_an_error_with_its_line(line: str, why: str) -> None:
    with pytest.raises(ConstitutionError, match="line 5") as refused:
        Constitution.parse(f"## Available Tools\n- a: B\n## Facts\n{ORDER}- {line}\n")
    assert why in str(refused.value)


def test_a_name_in_quotes_is_no_argument() -> None:
    text = f"## Available Tools\n- a: B\n## Facts\n{ORDER}- x: order $.cards[?@.id == 'arguments.method'].left\n"
    assert Constitution.parse(text).facts["x"].compared == frozenset()
