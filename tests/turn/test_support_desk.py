"""Rules about facts against a desk whose tools refuse what is wrong: how many of these calls are not even sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import Change
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import FunctionCall
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.turn.engine import LLMAgentEngine
from tests.policy.cedar_shop import ShopTool, policy_of
from tests.scripted_turns import grouped
from tests.support_desk import APART, READS, RIGHT, TOOLS, WRONG, SupportDesk

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


async def refused(calls: Sequence[FunctionCall]) -> list[FunctionCall]:
    """Return the calls that are refused before their tool is called."""
    found = []
    for call in calls:
        desk = SupportDesk()
        constitution = f"{CONSTITUTION}\n## Facts\n{FACTS}"
        engine = LLMAgentEngine(ScriptedAdapter([]), desk, constitution, **grouped(conditions=ConditionsFile(RULES)))
        await engine.call("ann", [call])
        if not desk.changes:
            found.append(call)
    return found


@pytest.mark.parametrize(("calls", "number"), [(WRONG, 9), (APART, 8), (RIGHT, 0)])
async def test_the_rules_refuse_before_a_tool_does_and_nothing_right(calls: Sequence[FunctionCall], number: int) -> None:
    found = await refused(calls)
    assert len(found) == number, [call for call in calls if call not in found]
