"""Rules about facts for calls that were written before any rule: all that are wrong are refused before they are sent.

The domain is another one than `OrderDesk`: its flights, split payments and vouchers are what facts must say. Those of
`APART` were looked at only when the rules were finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import Change
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.turn.engine import LLMAgentEngine
from tests.policy.cedar_shop import ShopTool, policy_of
from tests.scripted_turns import TableServer, done, failed, grouped

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number", "minimum": 0}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


PAYMENTS = {"type": "array", "items": schema(method=TEXT, amount=NUMBER)}
FLIGHTS = {"type": "array", "items": schema(flight=TEXT, date=TEXT)}
LINES = {"type": "array", "items": schema(sku=TEXT, quantity=COUNT)}
READS: Mapping[str, str] = {"get_order": "order", "get_customer": "customer", "get_product": "product", "get_flight": "flight"}
TOOLS: Mapping[str, dict[str, Any]] = {
    **{tool: schema(**{name: TEXT}) for tool, name in READS.items() if tool != "get_flight"},
    "get_flight": schema(flight=TEXT, date=TEXT),
    "pay_order": schema(order=TEXT, method=TEXT, amount=NUMBER),
    "split_payment": schema(order=TEXT, payments=PAYMENTS),
    "refund": schema(order=TEXT, method=TEXT, amount=NUMBER),
    "add_item": schema(order=TEXT, product=TEXT, quantity=COUNT, amount=NUMBER),
    "change_items": schema(order=TEXT, product=TEXT, items=TEXTS, new_items=TEXTS, method=TEXT),
    "buy": schema(customer=TEXT, lines=LINES, method=TEXT, amount=NUMBER),
    "book": schema(
        customer=TEXT, flights=FLIGHTS, passengers=TEXTS, bags=COUNT, insurance={"type": "boolean"}, payments=PAYMENTS
    ),
    "cancel": schema(order=TEXT, reason=TEXT),
    "use_voucher": schema(customer=TEXT, order=TEXT, voucher=TEXT),
}
DECLARATIONS: Final = tuple(ToolDeclaration(name=name, description=name, parameters=one) for name, one in TOOLS.items())


def _tables() -> dict[str, dict[str, Any]]:
    """Return what the reads of the desk answer, by the tool and its argument."""

    def order(status: str, total: float, method: str, **items: str) -> dict[str, Any]:
        listed = [{"item": name, "product": product} for name, product in items.items()]
        return {"status": status, "customer": "ann", "total": total, "paid_with": method, "items": listed}

    def variant(item: str, price: float, *, stock: int = 9) -> dict[str, Any]:
        return {"item": item, "price": price, "stock": stock}

    return {
        "get_order": {
            "W1": order("pending", 120.5, "card_1", i1="lamp"),
            "W2": order("delivered", 80, "gift_2", i3="mug", i4="mug"),
            "W3": order("sent", 40, "card_1", i5="mug"),
        },
        "get_customer": {
            "ann": {
                "methods": [
                    {"id": "card_1", "kind": "card"},
                    {"id": "gift_2", "kind": "gift", "balance": 95.25},
                    {"id": "gift_3", "kind": "gift", "balance": 8},
                ],
                "vouchers": [{"id": "v1", "state": "open", "from": 100}, {"id": "v2", "state": "used", "from": 10}],
            }
        },
        "get_product": {
            "lamp": {
                "price": 60.25,
                "stock": 5,
                "variants": [variant("i1", 60.25), variant("i2", 75), variant("i6", 60, stock=0)],
            },
            "mug": {"price": 20, "stock": 100, "variants": [variant("i3", 20), variant("i4", 20), variant("i5", 18.5)]},
        },
        "get_flight": {"F1": {"price": 110, "seats": 4}, "F2": {"price": 95, "seats": 2}},
    }


def _split(**amounts: float) -> list[dict[str, Any]]:
    return [{"method": name, "amount": amount} for name, amount in amounts.items()]


def _lines(**quantities: int) -> list[dict[str, Any]]:
    return [{"sku": name, "quantity": quantity} for name, quantity in quantities.items()]


def _call(tool: str, **given: Any) -> FunctionCall:
    return FunctionCall(name=tool, arguments=given)


def _book(
    payments: list[dict[str, Any]], *flights: str, people: int = 1, bags: int = 0, insurance: bool = False
) -> FunctionCall:
    return _call(
        "book",
        customer="ann",
        flights=[{"flight": one, "date": "2026-05-20"} for one in flights],
        passengers=[f"person {number}" for number in range(people)],
        bags=bags,
        insurance=insurance,
        payments=payments,
    )


WRONG: Final = (
    _call("pay_order", order="W1", method="gift_2", amount=120.5),
    _call("pay_order", order="W1", method="card_9", amount=120.5),
    _call("split_payment", order="W1", payments=_split(card_1=60, gift_2=60)),
    _call("refund", order="W3", method="card_1", amount=40),
    _call("add_item", order="W1", product="mug", quantity=3, amount=50),
    _call("change_items", order="W1", product="lamp", items=["i1"], new_items=["i6"], method="card_1"),
    _call("buy", customer="ann", lines=_lines(lamp=1, mug=2), method="card_1", amount=100),
    _book(_split(card_1=205), "F1", "F2", people=2),
    _call("use_voucher", customer="ann", order="W1", voucher="v2"),
)
"""Wrong calls by which the rules were written."""
APART: Final = (
    _call("pay_order", order="W1", method="gift_3", amount=120.5),
    _call("split_payment", order="W1", payments=_split(card_1=110.5, gift_3=10)),
    _call("split_payment", order="W2", payments=_split(gift_2=80.01)),
    _call("refund", order="W2", method="gift_2", amount=80.5),
    _call("add_item", order="W1", product="lamp", quantity=6, amount=361.5),
    _call("change_items", order="W1", product="lamp", items=["i3"], new_items=["i2"], method="card_1"),
    _call("buy", customer="ann", lines=_lines(mug=5), method="gift_2", amount=100),
    _book(_split(card_1=140), "F1", bags=1),
    _book(_split(card_1=285), "F2", people=3),
    _call("use_voucher", customer="ann", order="W2", voucher="v1"),
)
"""Further wrong calls."""
RIGHT: Final = (
    _call("pay_order", order="W1", method="card_1", amount=120.5),
    _call("split_payment", order="W1", payments=_split(card_1=30.25, gift_2=90.25)),
    _call("refund", order="W2", method="gift_2", amount=80),
    _call("add_item", order="W1", product="lamp", quantity=2, amount=120.5),
    _call("change_items", order="W1", product="lamp", items=["i1"], new_items=["i2"], method="card_1"),
    _call("buy", customer="ann", lines=_lines(lamp=1, mug=2), method="card_1", amount=100.25),
    _book(_split(card_1=410), "F1", "F2", people=2),
    _book(_split(card_1=160, gift_2=30), "F1", bags=1, insurance=True),
    _call("use_voucher", customer="ann", order="W1", voucher="v1"),
)
"""Calls that are right."""

FACTS = """
- order: get_order(order = arguments.order)
- buyer: get_customer(customer = order.customer)
- customer: get_customer(customer = arguments.customer)
- product: get_product(product = arguments.product)
- method: one buyer $.methods[?@.id == arguments.method].id
- balance: one buyer $.methods[?@.id == arguments.method && @.kind == 'gift'].balance
- own_method: one customer $.methods[?@.id == arguments.method].id
- own_balance: one customer $.methods[?@.id == arguments.method && @.kind == 'gift'].balance
- voucher: one customer $.vouchers[?@.id == arguments.voucher && @.state == 'open'].from
- paid: sum arguments $.payments[*].amount
- due: product.price * arguments.quantity
- items: order $.items[*].item
- in_stock: product $.variants[?@.stock > 0].item
- price: sum get_product(product = arguments.lines[*].sku) $.price * arguments.lines[*].quantity
- fares: sum get_flight(flight = arguments.flights[*].flight, date = arguments.flights[*].date) $.price
"""
RULES = """
@id("what the constitution lists") permit (principal, action, resource);

@id("the order is pending")
forbid (principal, action in [Action::"pay_order", Action::"add_item", Action::"change_items", Action::"cancel"], resource)
unless { context.result has order && context.result.order.status == "pending" };

@id("the total of the order")
forbid (principal, action == Action::"pay_order", resource)
unless { context.result has order && context.result.order.total == context.arguments.amount };

@id("a payment method of the customer")
forbid (principal, action == Action::"pay_order", resource) unless { context.result has method };

@id("at most what is left on the gift card")
forbid (principal, action == Action::"pay_order", resource)
when { context.result has balance && context.arguments.amount.greaterThan(context.result.balance) };

@id("the payments add up")
forbid (principal, action == Action::"split_payment", resource)
unless { context.result has order && context.result has paid && context.result.paid == context.result.order.total };

@id("back to what it was paid with, and no more")
forbid (principal, action == Action::"refund", resource)
unless {
  context.result has order && context.result.order.status == "delivered" &&
  context.result.order.paid_with == context.arguments.method &&
  context.arguments.amount.lessThanOrEqual(context.result.order.total)
};

@id("price times quantity, and in stock")
forbid (principal, action == Action::"add_item", resource)
unless {
  context.result has due && context.result.due == context.arguments.amount &&
  context.result has product && context.arguments.quantity <= context.result.product.stock
};

@id("a variant in stock for an item of the order")
forbid (principal, action == Action::"change_items", resource)
unless {
  context.result has in_stock && context.result.in_stock.containsAll(context.arguments.new_items) &&
  context.result has items && context.result.items.containsAll(context.arguments.items)
};

@id("at most what is left on the own gift card")
forbid (principal, action == Action::"buy", resource)
when { context.result has own_balance && context.arguments.amount.greaterThan(context.result.own_balance) };

@id("a payment method of one's own")
forbid (principal, action == Action::"buy", resource) unless { context.result has own_method };

@id("price times quantity of all lines")
forbid (principal, action == Action::"buy", resource)
unless { context.result has price && context.result.price == context.arguments.amount };

@id("the payments are the fares, the bags and the insurance")
forbid (principal, action == Action::"book", resource)
unless {
  context.result has fares && context.result has paid &&
  context.result.paid == context.result.fares * context.length.passengers + 50 * context.arguments.bags +
    (if context.arguments.insurance then 30 * context.length.passengers else 0)
};

@id("an open voucher for such a total")
forbid (principal, action == Action::"use_voucher", resource)
unless {
  context.result has voucher && context.result has order && context.result.voucher.lessThanOrEqual(context.result.order.total)
};
"""
CONSTITUTION = "You are a desk.\n\n## Available Tools\n" + "".join(
    f"- {tool}: {tool.replace('_', ' ')} {'(reads)' if tool in READS else '(without confirmation)'}\n" for tool in TOOLS
)


@pytest.mark.parametrize(
    ("quantities", "amount", "is_sent"),
    [
        ((1, 2), 100.25, True),
        ((1, 2), 100.26, False),
        ((0, 0), 0, True),
        ((3, 1), 200.75, True),
        ((2, 1), 100.25, False),
    ],
)
async def test_price_and_quantity_are_multiplied_line_by_line(
    quantities: tuple[int, int], amount: float, *, is_sent: bool
) -> None:
    lines = [{"sku": sku, "quantity": number} for sku, number in zip(("lamp", "mug"), quantities, strict=True)]
    call = FunctionCall("buy", {"customer": "ann", "lines": lines, "method": "card_1", "amount": amount})
    assert (await refused([call]) == []) is is_sent


async def test_a_product_that_one_line_lacks_refuses_the_call() -> None:
    lines = [{"sku": "lamp", "quantity": 1}, {"sku": "unknown", "quantity": 0}]
    call = FunctionCall("buy", {"customer": "ann", "lines": lines, "method": "card_1", "amount": 60.25})
    assert await refused([call]) == [call]


def test_diff_does_not_compare_sums_of_other_products() -> None:
    def policy(facts: str) -> CompiledPolicy:
        tools = [ShopTool(name, one, reads=name in READS) for name, one in TOOLS.items()]
        return policy_of(tools, facts + RULES)

    plain = FACTS.replace(" * arguments.lines[*].quantity", "")
    assert compare(policy(FACTS), policy(FACTS), 5) == []
    (found,) = compare(policy(FACTS), policy(plain), 5)
    assert (found.name, found.answer, found.why) == ("buy", Change.NOT_COMPARED, "the fact 'price' is declared otherwise")


def _desk() -> TableServer:
    """Return a desk whose reads answer from the tables, and whose changes succeed."""
    tables = _tables()

    def read(tool: str) -> Callable[[dict[str, Any]], ToolResult]:
        def answer(given: dict[str, Any]) -> ToolResult:
            found = tables[tool].get(given[READS[tool]])
            return failed(ToolErrorCode.NOT_FOUND, "there is no such object") if found is None else done(found)

        return answer

    return TableServer({tool: read(tool) for tool in READS}, ledger=False, served=DECLARATIONS)


async def refused(calls: Sequence[FunctionCall]) -> list[FunctionCall]:
    """Return the calls that are refused before their tool is called."""
    found = []
    for call in calls:
        desk = _desk()
        constitution = f"{CONSTITUTION}\n## Facts\n{FACTS}"
        engine = LLMAgentEngine(ScriptedAdapter([]), desk, constitution, **grouped(conditions=ConditionsFile(RULES)))
        await engine.call("ann", [call])
        if all(tool in READS for tool, *_ in desk.sent):
            found.append(call)
    return found


@pytest.mark.parametrize(("calls", "number"), [(WRONG, 9), (APART, 8), (RIGHT, 0)])
async def test_the_rules_refuse_before_a_tool_does_and_nothing_right(calls: Sequence[FunctionCall], number: int) -> None:
    found = await refused(calls)
    assert len(found) == number, [call for call in calls if call not in found]
