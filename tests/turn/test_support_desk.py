"""Rules about facts against a desk whose tools refuse what is wrong: how many of these calls are not even sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import FunctionCall
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.turn.engine import LLMAgentEngine
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


@pytest.mark.parametrize(("calls", "number"), [(WRONG, 8), (APART, 8), (RIGHT, 0)])
async def test_the_rules_refuse_before_a_tool_does_and_nothing_right(calls: Sequence[FunctionCall], number: int) -> None:
    found = await refused(calls)
    assert len(found) == number, [call for call in calls if call not in found]
