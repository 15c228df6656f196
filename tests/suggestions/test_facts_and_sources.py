"""Suggested rules about facts, and about arguments in the words of the user."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from graph_agent.models.sources import Source
from graph_agent.policy.cedar.conditions import Verdict
from graph_agent.policy.snapshot import PolicySnapshot
from graph_agent.suggestions.effect import Judge
from graph_agent.suggestions.seen import SeenCalls
from graph_agent.testing import says
from tests.policy.cedar_shop import TEXT, ShopTool, policy_of, schema
from tests.scripted_turns import asks, calls
from tests.source_attacks import READ
from tests.suggestions.test_suggest import suggestion
from tests.turn.test_sources import MESSAGE, PAY, TO_ANNA, engine, entries

ROLES = ("support", "manager")
GET = ShopTool("get_order", schema("order_id", order_id=TEXT), reads=True, marker="(trusted results)")
CANCEL = ShopTool("cancel_order", schema("order_id", "why", order_id=TEXT, why=TEXT))
TOOLS = [GET, CANCEL]
STATUSES = ("pending", "sent", "delivered")


def decision(number: int, status: str | None, *, cancels: bool, said: bool = True, order: str = "") -> dict[str, Any]:
    """Return the record of a decision that reads an order, unless `status` is None, and may cancel it."""
    order, at = order or f"W{number:07}", f"2026-09-{1 + number % 28:02}T{8 + number % 9:02}:00:00Z"
    message = f"please cancel {order}" if said else "please cancel it"
    context = {"user_id": f"u{number % 9}", "conversation_id": f"c{number}", "message": message, "roles": ["support"]}
    made: list[tuple[str, dict[str, Any], Any]] = []
    if status is not None:
        read = {
            "order_id": order,
            "status": status,
            "kind": "order",
            "customer": {"vip": number % 7 == 0, "name": f"Ann {number}"},
        }
        made.append(("get_order", {"order_id": order}, read))
    if cancels:
        made.append(("cancel_order", {"order_id": order, "why": "no longer needed"}, {"done": True}))
    invocations = [
        {
            "sequence": sequence,
            "tool_name": tool,
            "parameters": arguments,
            "disposition": "executed",
            "success": True,
            "invoked_at": at,
            "result": result,
        }
        for sequence, (tool, arguments, result) in enumerate(made, 1)
    ]
    return {"header": {"decision_id": f"d{number:05}", "context": context, "started_at": at}, "invocations": invocations}


def ordinary(count: int, **options: Any) -> list[dict[str, Any]]:
    """Return decisions of which those about pending orders cancel them."""
    random = Random(1)
    statuses = [random.choice(STATUSES) for _ in range(count)]
    return [decision(number, one, cancels=one == "pending", **options) for number, one in enumerate(statuses)]


async def test_a_fact_that_held_before_nearly_all_calls_is_a_rule_with_its_declaration() -> None:
    found = await suggestion(ordinary(600), TOOLS)
    assert "// - order: get_order(order_id = arguments.order_id)\n" in found.text
    assert (
        'when { !(context.result has order && context.result.order has "status" && '
        '["pending"].contains(context.result.order.status)) }'
    ) in found.text
    # What is the same for all orders says nothing about this call, and the name of a customer is never printed.
    assert '"kind"' not in found.text
    assert "Ann" not in found.text


async def test_the_rule_about_a_fact_is_in_the_effect_and_says_where_the_fact_was_not_read() -> None:
    records = ordinary(900) + [decision(1000 + one, "sent", cancels=True) for one in range(3)]
    records += [decision(2000 + one, None, cancels=True) for one in range(4)]
    found = await suggestion(records, TOOLS)
    assert found.effect.by_rule["cancel_order: by get_order: status"] == 3
    assert found.lines()[1].startswith("Before 4 calls no read was recorded")


async def test_a_read_before_a_change_of_its_server_gives_no_fact() -> None:
    records = ordinary(600)
    for one in records:
        # The order is read, its server is changed, and only then the call is made.
        if len(one["invocations"]) == 2:
            one["invocations"].insert(1, {**one["invocations"][1], "tool_name": "touch", "parameters": {}})
    found = await suggestion(records, [*TOOLS, ShopTool("touch", schema())])
    assert "context.result" not in found.text


async def test_reads_that_rules_have_made_are_evidence_too() -> None:
    records = ordinary(600)
    for one in records:
        if len(one["invocations"]) == 2:
            read = one["invocations"].pop(0)
            values = {"own_name": {"status": read["result"]["status"]}}
            made = {"tool": "get_order", "arguments": read["parameters"], "values": values}
            one["entries"] = [{"n": 0, "kind": "read", "result": made}]
    assert '["pending"].contains(context.result.order.status)' in (await suggestion(records, TOOLS)).text


async def test_no_rule_in_the_shadow_names_a_fact_and_the_reason_is_printed() -> None:
    found = await suggestion(ordinary(600), TOOLS, shadow=True)
    assert "context.result" not in found.text
    assert "@shadow" in found.text
    assert any("no rule in the shadow can name one" in line for line in found.lines())


@pytest.mark.parametrize("said", [True, False])
async def test_an_argument_that_stood_in_the_words_of_the_user_is_a_rule(said: bool) -> None:
    found = await suggestion(ordinary(600, said=said), TOOLS, more=True)
    assert ('when { !["user"].containsAll(context.source.order_id) }' in found.text) is said
    assert "context.source.why" not in found.text
    assert found.effect.by_rule["cancel_order: order_id in the words of the user"] == 0


async def test_the_suggested_rules_stop_a_call_whose_order_the_user_did_not_name_or_that_was_sent() -> None:
    policy = policy_of(TOOLS, (await suggestion(ordinary(600), TOOLS, more=True)).text, ROLES)
    assert policy.conditions is not None
    seen, judge = SeenCalls(policy), Judge(policy.conditions).judge
    others = {
        "ordinary": decision(5000, "pending", cancels=True),
        "sent": decision(5001, "sent", cancels=True),
        "not said": decision(5002, "pending", cancels=True, said=False),
    }
    decided = {name: [judge(call).verdict for call in seen.of(one)][-1] for name, one in others.items()}
    assert decided == {"ordinary": Verdict.RUNS, "sent": Verdict.ASKS, "not said": Verdict.ASKS}


@pytest.mark.parametrize("second", [TO_ANNA, PAY], ids=["words of the user", "words of a page"])
async def test_what_is_found_again_to_be_the_users_is_what_the_guard_has_recorded(second: tuple[str, dict[str, Any]]) -> None:
    reads = 'permit (principal, action, resource); forbid (principal, action == Action::"send_money", resource)\n'
    # It reads the sources, and asks about neither call.
    rules = f'{reads}when {{ context.source.to.contains("trusted") }};'
    run = engine(calls(READ), calls(second), says("Done."), rules=rules)
    turn = await run.run(asks(MESSAGE))
    texts = await run.audit.texts(list(turn.record.header.digests.values()))
    policy = PolicySnapshot.from_texts(texts, turn.record.header.digests).policy
    seen = list(SeenCalls(policy).of(turn.record.to_json()))
    recorded = entries(turn)[-1].calls[0]
    assert seen[-1].tool_name == "send_money"
    for name in second[1]:
        assert (seen[-1].sources.labels(name) == [Source.USER]) is (recorded.labels(name) == [Source.USER])
    assert seen[-1].sources.tainted is recorded.tainted is True
