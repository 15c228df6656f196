"""Cases of decisions whose conditions read facts: the case knows each fact that the record knows, and guesses none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.record import DecisionRecord
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.testing import says
from graph_agent.tools.played import PlayedTools
from graph_agent.validation.case_writer import dump_fixtures, fixture_from_records, recorded_tools
from graph_agent.validation.fixtures import Fixture, load_fixtures
from graph_agent.validation.runner import EngineRunner
from graph_agent.validation.service import ValidationService
from tests.desk import CONSTITUTION, ORDER, cancel, conversation, exchange, forbid, policy
from tests.fact_lines import split
from tests.scripted_turns import calls, done

_READ = "get_order(order_id = arguments.order_id)"
_OF_CANCEL = 'principal, action == Action::"cancel_order", resource'
RESULT: dict[str, Any] = {
    "status": "pending",
    "customer_id": "u1",
    "note": None,
    "payments": [{"method": "card", "paid": True}, {"method": "gift", "paid": False}, {"method": "card", "paid": True}],
}


def needs(declared: str, condition: str) -> str:
    return policy(f"{ORDER} {declared}", forbid("the rule", "cancel_order", condition))


FACTS = [
    (f"- methods: {_READ} $.payments[*].method\n", 'context.result has methods && context.result.methods.contains("gift")'),
    ("- methods: order $.payments[*].method\n", 'context.result has methods && context.result.methods.contains("gift")'),
    ("- paid: order $.payments[?@.paid == true].method\n", 'context.result has paid && !context.result.paid.contains("gift")'),
    ("- second: order $.payments[1].method\n", 'context.result has second && context.result.second == "gift"'),
    ("- number: count order $.payments[?@.paid == true]\n", "context.result has number && context.result.number == 2"),
    ("- all: order $.payments\n- first: all $[0].method\n", 'context.result has first && context.result.first == "card"'),
    ("- state: order $.status\n", 'context.result has state && context.result.state == "pending"'),
    (
        "- methods: order $.payments[*].method\n- paid: order $.payments[?@.paid == true].method\n",
        "context.result has methods && context.result has paid && context.result has order && "
        'context.result.methods.contains("gift") && !context.result.paid.contains("gift") && '
        'context.result.order.status == "pending" && !(context.result.order has note)',
    ),
]


async def recorded(rules: str, *script: Any, result: Any = RESULT) -> tuple[DecisionRecord, Fixture]:
    """Return the record of a turn, and its case as it is read from a file."""
    run = conversation(rules, *script)
    answer = result if isinstance(result, ToolResult) else done(result)
    run.desk.answers = {"get_order": lambda _: answer, "cancel_order": lambda _: done()}
    record = (await run.say()).record
    texts = (await run.engine.prepare()).texts
    return record, fixture_from_records([record], tools=recorded_tools([record], texts), texts=texts)


async def failures(fixture: Fixture, rules: str, *script: Any) -> list[str]:
    facts, rules = split(rules)
    constitution, conditions = f"{CONSTITUTION}\n{facts}", ConditionsFile(rules)
    runner = EngineRunner(ScriptedAdapter([*script]), PlayedTools([]), constitution, conditions=conditions)
    report = await ValidationService(runner).run_validation([fixture])
    return list(report.results[0].failures)


@pytest.mark.parametrize(("declared", "condition"), FACTS)
async def test_a_case_decides_by_the_recorded_facts_and_by_the_opposite_rule_otherwise(
    declared: str, condition: str, tmp_path: Path
) -> None:
    script = calls(cancel("W1")), says("Done.")
    rules = needs(declared, condition)
    record, fixture = await recorded(rules, *script)
    assert [str(call.disposition) for call in record.invocations] == ["executed"]
    file = tmp_path / "case.yaml"
    file.write_text(dump_fixtures([fixture]), encoding="utf-8")
    assert load_fixtures(file) == [fixture]
    assert await failures(fixture, rules, *script) == []
    (failed,) = await failures(fixture, needs(declared, f"!({condition})"), *script)
    assert "expected outcome" in failed
    assert "no value" not in failed


@pytest.mark.parametrize("result", [{"status": 5}, ToolResult(success=True, data={"text": "no order"})])
async def test_a_case_of_a_fact_that_was_not_known_refuses_for_the_recorded_reason(result: Any) -> None:
    script = calls(cancel("W1")), says("Sorry.")
    rules = needs(*FACTS[2])
    record, fixture = await recorded(rules, *script, result=result)
    assert [str(call.disposition) for call in record.invocations] == ["refused"]
    assert await failures(fixture, rules, *script) == []
    (read,) = fixture.turns[0].reads
    assert read.failed["$.payments[?@.paid == true].method"] == "it does not have 'payments'"


@pytest.mark.parametrize(
    "other",
    [
        needs("- methods: order $.payments[*].paid\n", 'context.result has methods && context.result.methods.contains("x")'),
        needs("", 'context.result has order && context.result.order.total == "x"'),
        needs("", "context.result has order && !(context.result.order has total)"),
    ],
)
async def test_a_fact_that_was_not_read_fails_the_case_whatever_is_expected(other: str) -> None:
    script = calls(cancel("W1")), says("Sorry.")
    _, fixture = await recorded(needs(*FACTS[1]), *script)
    turn = fixture.turns[0].replace(expected_outcome="")
    found = await failures(fixture.replace(turns=[turn]), other, *script)
    assert any("the case has no value for the fact" in one and "get_order" in one for one in found), found


async def test_the_reads_of_the_runtime_and_the_calls_of_the_model_get_each_their_own_result() -> None:
    script = calls(("get_order", {"order_id": "W1"})), calls(cancel("W1")), says("Done.")
    rules = needs(*FACTS[1])
    _, fixture = await recorded(rules, *script)
    asked, _ = fixture.turns[0].results
    assert (asked.tool, asked.result.data) == ("get_order", RESULT)
    assert [read.values for read in fixture.turns[0].reads] == [{"$": {}, "$.payments[*].method": ["card", "gift", "card"]}]
    assert await failures(fixture, rules, *script) == []


async def test_a_read_that_is_filled_with_the_user_is_made_for_the_user_of_the_case() -> None:
    rules = policy(
        "- own: get_customer(customer_id = principal) $.cards[*]\n",
        forbid("own", "cancel_order", 'context.result has own && context.result.own.contains("c1")'),
    )
    run = conversation(rules, calls(cancel("W1")), says("."))
    run.desk.answers = {"get_customer": lambda _: done({"cards": ["c1"]}), "cancel_order": lambda _: done()}
    record = (await run.say()).record
    texts = (await run.engine.prepare()).texts
    fixture = fixture_from_records([record], tools=recorded_tools([record], texts), texts=texts)
    assert await failures(fixture, rules, calls(cancel("W1")), says(".")) == []


async def test_each_read_of_a_list_has_its_own_values() -> None:
    rules = policy(
        "- available: get_product(product_id = arguments.items[*].product_id) $.available\n",
        forbid("all", "exchange", "context.result has available && !context.result.available.contains(false)"),
    )
    run = conversation(rules, calls(exchange("W1", "p1", "p2")), says("."))
    run.desk.products = {"p1": {"available": True}, "p2": {"available": False}}
    record = (await run.say()).record
    texts = (await run.engine.prepare()).texts
    fixture = fixture_from_records([record], tools=recorded_tools([record], texts), texts=texts)
    assert [read.values for read in fixture.turns[0].reads] == [{"$.available": [True]}, {"$.available": [False]}]
    assert await failures(fixture, rules, calls(exchange("W1", "p1", "p2")), says(".")) == []


async def test_a_case_has_what_was_read_around_a_change_that_can_be_undone() -> None:
    marker = "(undone by return_items(order_id = arguments.order_id, method = order.customer_id) for 1 hour)"
    constitution = CONSTITUTION.replace("Cancel order (without", f"Cancel order {marker} (without")
    rules = needs("", 'context.result has order && context.result.order.status == "pending"')
    run = conversation(rules, calls(cancel("W1")), says("Done."), constitution=constitution)
    record = (await run.say()).record
    assert run.desk.made == ["get_order W1", "cancel_order W1", "get_order W1"]
    texts = (await run.engine.prepare()).texts
    fixture = fixture_from_records([record], tools=recorded_tools([record], texts), texts=texts)
    assert [read.values for read in fixture.turns[0].reads] == [
        {"$.customer_id": "u1", "$": {"status": "pending"}},
        {"$.customer_id": "u1", "$": {"status": "cancelled"}},
    ]
    facts, conditions = split(rules)
    model = ScriptedAdapter([calls(cancel("W1")), says("Done.")])
    runner = EngineRunner(model, PlayedTools([]), f"{constitution}\n{facts}", conditions=ConditionsFile(conditions))
    (played,) = (await ValidationService(runner).run_validation([fixture])).results
    assert list(played.failures) == []
