"""Random conditions over facts and random results: the guard and a replay agree, and what is not known never permits a call.

`python -m tests.turn.test_random_facts 1000000` checks more cases. `check` takes further judges, such as a proof.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ContentItem, ContentKind, ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.cedar.fact_values import CallFacts, read_of
from graph_agent.policy.cedar.types import CedarType
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import CallDecision, JudgedCall, judge_batch
from tests.order_desk import CONSTITUTION, DECLARATIONS, OrderDesk, cancel, conversation, forbid, policy
from tests.scripted_turns import calls, done, failed, says

CASES = 10_000
_POLICIES = 400
TURNS = 60
"""The cases that are whole turns, with their replays; the others are judged by the guard alone."""

Judge = Callable[[CompiledPolicy, FunctionCall, CallFacts, JudgedCall], None]

_READ = "get_order(order_id = arguments.order_id)"
DECLARED = {
    "order": _READ,
    "state": f"{_READ} $.status",
    "first": "order $.payments[0].method",
    "methods": "order $.payments[*].method",
    "paid": "order $.payments[?@.paid == true].method",
    "number": "count order $.payments[*]",
    "given": "arguments $.reason",
}
CLAUSES = {
    "order": (
        'context.result.order.status == "pending"',
        'context.result.order.status like "p*"',
        "context.result.order has note && context.result.order.note.urgent",
        'context.result.order.total.lessThan(decimal("10.0"))',
        "context.result.order.count > 2",
        'context.result.order.tags.contains("gift")',
        "!context.result.order.tags.isEmpty()",
        'context.result.order.created < datetime("2026-01-02")',
    ),
    "state": ('context.result.state == "pending"', 'context.result.state != "sent"'),
    "first": ('context.result.first == "card"',),
    "methods": ('context.result.methods.contains("card")', '["card", "gift"].containsAll(context.result.methods)'),
    "paid": ('context.result.paid.contains("card")', "context.result.paid.isEmpty()"),
    "number": ("context.result.number == 1", "context.result.number < 3"),
    "given": ('context.result.given == "late"',),
}


def random_rules(dice: random.Random) -> str:
    """Return a file of conditions about `cancel_order`. Half of its rules are met by an absent fact."""
    rules = []
    for number in range(dice.randint(1, 3)):
        parts = [dice.choice(sorted(CLAUSES)) for _ in range(dice.randint(1, 2))]
        texts = [f"context.result has {name} && {dice.choice(CLAUSES[name])}" for name in parts]
        clause = dice.choice((" && ", " || ")).join(f"({text})" for text in texts)
        if dice.random() < 0.5:
            rules.append(forbid(f"rule {number}", "cancel_order", clause))
        else:
            scope = 'principal, action == Action::"cancel_order", resource'
            rules.append(f'@id("rule {number}") forbid ({scope}) when {{ {clause} }};')
        if dice.random() < 0.2:
            rules.append(f'@id("asks {number}") forbid ({_SCOPE}) when {{ {clause} }} unless {{ context.confirmed }};')
    return policy(" ".join(f'@{name}("{text}")' for name, text in DECLARED.items()), *rules)


_SCOPE = 'principal, action == Action::"cancel_order", resource'


def random_order(dice: random.Random) -> dict[str, Any]:
    """Return a complete order: each condition can be evaluated."""
    order = {
        "status": dice.choice(("pending", "sent", "packed")),
        "total": dice.choice((5, 9.99, 10, 250)),
        "count": dice.randint(0, 4),
        "tags": dice.sample(["gift", "fast", "big"], dice.randint(0, 3)),
        "created": dice.choice(("2026-01-01", "2026-01-01T10:00:00Z", "2026-03-01T10:00:00+02:00")),
        "payments": [
            {"method": dice.choice(("card", "gift", "cash")), "paid": dice.random() < 0.5} for _ in range(dice.randint(1, 3))
        ],
        "other": {"deep": [1, {"x": None}]},
    }
    return order | ({"note": {"urgent": dice.random() < 0.5}} if dice.random() < 0.5 else {})


def spoiled(dice: random.Random, result: ToolResult) -> ToolResult:
    """Return a result of which nothing is known: of every shape that a server can send instead of an order."""
    data = result.data
    assert isinstance(data, dict)
    match dice.randrange(8):
        case 0:
            codes = [code for code in ToolErrorCode if code is not ToolErrorCode.NOT_FOUND]
            return failed(dice.choice(codes))
        case 1:
            return ToolResult(success=False, error="an error of the server")
        case 2:
            return ToolResult(success=True, data=dice.choice([None, [], [data], {}, {"result": data}, {"order": data}]))
        case 3:
            return done({**data, "left_out": {"bytes": 300_000}})
        case 4:
            text = dice.choice(["", "no order", json.dumps([data]), "{", json.dumps(data)[:-1], "null", '{"status": NaN}'])
            return ToolResult(success=True, data={"text": text}, content=[ContentItem(kind=ContentKind.TEXT)])
        case 5:
            # A structured text is no JSON of the server's.
            items = [ContentItem(kind=ContentKind.STRUCTURED), ContentItem(kind=ContentKind.TEXT)]
            return ToolResult(success=True, data={"text": json.dumps(data)}, content=items)
        case 6:
            # Of a list of anything only the number of elements is known.
            wrong: dict[str, Any] = {"payments": dice.choice((None, {}, "card", 5))}
            for name in ("status", "total", "count", "tags", "created"):
                wrong[name] = dice.choice((None, {}, [{}], [None], [[True]]))
            return done({**data, **wrong})
        case _:
            return done({key: value for key, value in data.items() if key in ("other", "note")})


def policy_of(rules: str) -> CompiledPolicy:
    desk = OrderDesk()
    traits = {tool.name: desk.traits(tool.name) for tool in DECLARATIONS}
    found = compile_policy(Constitution.parse(CONSTITUTION), DECLARATIONS, traits).with_conditions(ConditionsFile(rules))
    assert found.conditions is not None
    found.conditions.require_valid()
    return found


def judged(rules: CompiledPolicy, call: FunctionCall, read: FactRead) -> tuple[JudgedCall, CallFacts]:
    """Return what the guard decides about a call of which the runtime has read this."""
    assert rules.conditions is not None
    known = CallFacts()
    declared = rules.conditions.results
    for fact in declared.of_tool[call.name]:
        if read.error is not None and fact.kind == "read":
            known.failed.update(dict.fromkeys(declared.parts_of(fact), read.error))
    known.add(read)
    (found,) = judge_batch([call], policy=rules, user_id="ann", decision_id="d", max_calls_per_turn=5, results=known)
    return found, known


def needs_something(types: Mapping[str, CedarType]) -> bool:
    """True if the conditions name something of the order that every order has."""
    return any(name not in ("given", "order") or any(field.required for field in type_.fields) for name, type_ in types.items())


def check(seeds: Sequence[int], judges: Sequence[Judge] = ()) -> int:
    """Check that a recorded read decides as the read itself did; return how many calls were permitted.

    `judges` are further ways to decide the same call, which raise if they decide otherwise.
    """
    permitted = 0
    compiled = [policy_of(random_rules(random.Random(number))) for number in range(min(_POLICIES, len(seeds)))]
    for seed in seeds:
        dice = random.Random(seed)
        rules = compiled[seed % len(compiled)]
        assert rules.conditions is not None
        whole = done(random_order(dice))
        kind = dice.choice(("whole", "absent", "spoiled"))
        result = {"whole": whole, "absent": failed(ToolErrorCode.NOT_FOUND)}.get(kind) or spoiled(dice, whole)
        call = FunctionCall("cancel_order", {"order_id": "W1"})
        read = read_of(rules.conditions.results, "get_order", {"order_id": "W1"}, result)
        found, known = judged(rules, call, read)
        recorded = FactRead.model_validate_json(json.dumps(read.to_json()))
        again, _ = judged(rules, call, recorded)
        assert (found.decision, found.error) == (again.decision, again.error), seed
        if kind == "spoiled" and needs_something(rules.conditions.results.types):
            assert found.decision is CallDecision.REFUSED, (seed, result, known)
        permitted += found.decision is CallDecision.PERMITTED
        for judge in judges:
            judge(rules, call, known, found)
    return permitted


async def check_turns(seeds: Sequence[int]) -> None:
    """Run whole turns: what the record says decides a replay, which `Conversation` makes of each turn."""
    for seed in seeds:
        dice = random.Random(seed)
        desk, whole = OrderDesk(), done(random_order(dice))
        result = dice.choice((whole, failed(ToolErrorCode.NOT_FOUND), spoiled(dice, whole)))
        desk.answers = {"get_order": lambda _, result=result: result, "cancel_order": lambda _: done()}  # type: ignore[misc]
        rules = random_rules(dice)
        run = conversation(rules, calls(cancel("W1"), cancel("W1", reason="late")), says("."), says("."), desk=desk)
        await run.say()
        if not result.success and result.error_code is not ToolErrorCode.NOT_FOUND and "get_order" in desk.made[0]:
            assert desk.written == [], seed


def test_random_conditions_and_results_decide_alike_in_a_record_and_never_permit_what_is_not_known() -> None:
    permitted = check(range(CASES))
    assert CASES // 20 < permitted < CASES // 2


async def test_random_turns_with_facts_replay_identically() -> None:
    await check_turns(range(TURNS))


if __name__ == "__main__":
    number = int(sys.argv[1])
    print(f"{check(range(number)):,} of {number:,} calls were permitted")
    asyncio.run(check_turns(range(number // 100)))
