"""Suggested files: whatever was called, they can be used as they are printed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from graph_agent.bootstrap.policies import explained_conditions
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.suggestions.suggest import Suggested, suggest
from tests.policy.cedar_shop import ShopTool, policy_of, schema

NAMES = ("amount", "if", "a b", 'q"x', "line\nbreak", "x" * 150, "like", "__cedar_x", "é")
TYPES: tuple[dict[str, Any], ...] = (
    {"type": "integer"},
    {"type": "number"},
    {"type": "string"},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "string", "format": "decimal"},
    {"type": "boolean"},
    {"type": ["integer", "string"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "object"}},
    {"type": "object", "properties": {"in": {"type": "integer"}, "to": {"type": "string"}}, "additionalProperties": False},
    {"type": "object"},
)
WARNINGS = ("only as", "compare '", "adds 0", "by `like`", "about no tool", "no call of it can have", "no condition permits")


def value(random: Random, kind: dict[str, Any]) -> Any:
    match kind:
        case {"enum": options}:
            return random.choice(options)
        case {"type": "integer"}:
            return random.choice((1, 2, 3, -5, 10**6, random.randrange(1000)))
        case {"type": "number"}:
            return random.choice((0.5, 1.25, -3.0, 1e6, random.randrange(1000) / 7))
        case {"type": "boolean"}:
            return random.random() < 0.9
        case {"type": "array", "items": {"type": "string"}}:
            return [value(random, {"type": "string"}) for _ in range(random.randrange(4))]
        case {"type": "array"}:
            return [{}] * random.randrange(4)
        case {"type": "object"}:
            return {"in": 1, "to": "x"} if random.random() < 0.5 else {}
    return random.choice(("a", "b", "Ann <ann@example.com>", "https://example.com/a", 'say "hi"\n// x', "12345678", ""))


def recorded(random: Random, tools: list[ShopTool], count: int, *, opens: int = 8) -> list[dict[str, Any]]:
    """Return the records of `count` calls, in the ten hours of each day that begin at `opens`."""
    found = []
    for number in range(count):
        tool = random.choice(tools)
        properties = tool.parameters["properties"]
        arguments = {name: value(random, kind) for name, kind in properties.items() if random.random() < 0.8}
        at = f"2026-09-{1 + number * 28 // count:02}T{(opens + random.randrange(10)) % 24:02}:00:00Z"
        context = {
            "user_id": f"u{random.randrange(9)}",
            "conversation_id": f"c{number // 3}",
            "message": "",
            "roles": ["support"],
        }
        call = {"sequence": 1, "tool_name": tool.name, "parameters": arguments, "disposition": "executed", "success": True}
        header = {"decision_id": f"d{number:05}", "context": context, "started_at": at}
        found.append({"header": header, "invocations": [{**call, "invoked_at": at}]})
    return found


async def suggestion(
    records: list[dict[str, Any]], tools: list[ShopTool], *, roles: tuple[str, ...] = ("support", "manager"), **options: Any
) -> Suggested:
    async def read() -> AsyncIterator[dict[str, Any]]:
        for one in records:
            yield one

    return await suggest(read, policy_of(tools, None, roles), ConditionsFile("", roles=roles), enough=5, **options)


@pytest.mark.parametrize("seed", range(12))
async def test_a_suggested_file_passes_the_check_without_a_warning(seed: int) -> None:
    random = Random(seed)
    tools = []
    for number in range(3):
        chosen = {name: random.choice(TYPES) for name in random.sample(NAMES, 5)}
        required = random.sample(list(chosen), 2)
        tools.append(ShopTool(f"tool_{number}", schema(*required, **chosen), reads=number == 0))
    records = recorded(random, tools, 600)
    for shadow in (False, True):
        found = await suggestion(records, tools, shadow=shadow)
        lines = list(explained_conditions(policy_of(tools, found.text, ("support", "manager"))))
        assert not [line for line in lines if any(one in line for one in WARNINGS)]
        assert found.rules
        assert "ann@" not in found.text.lower()
        assert "12345678" not in found.text
        assert not re.search(r"u\d\b", found.text)


@pytest.mark.parametrize(
    ("opens", "hours", "outside"),
    [
        (8, "from 8 to 18", "context.time.hour < 8 || context.time.hour >= 18"),
        (14, "from 14 to 24", "context.time.hour < 14"),
        (0, "from 0 to 10", "context.time.hour >= 10"),
        (22, "from 22 to 8", "context.time.hour < 22 && context.time.hour >= 8"),
    ],
)
async def test_the_hours_of_a_shift_are_one_span_also_across_midnight(opens: int, hours: str, outside: str) -> None:
    tool = ShopTool("pay", schema("amount", amount={"type": "integer"}))
    found = await suggestion(recorded(Random(1), [tool], 600, opens=opens), [tool])
    assert f'@id("pay: {hours} o\'clock")' in found.text
    assert f"when {{ {outside} }}\n" in found.text


async def test_a_large_limit_is_named_with_all_its_digits() -> None:
    tool = ShopTool("pay", schema("amount", amount={"type": "integer"}))
    records = recorded(Random(1), [tool], 600)
    for number, one in enumerate(records):
        one["invocations"][0]["parameters"] = {"amount": 1_000_000 + 37 * number}
    found = await suggestion(records, [tool])
    (limit,) = re.findall(r"context\.arguments\.amount > (\d+)", found.text)
    assert f'@id("pay: amount at most {limit}")' in found.text
    assert "e+" not in found.text


async def test_a_tool_with_few_calls_or_users_gets_no_rule_and_the_reason_is_printed() -> None:
    tool = ShopTool("pay", schema("amount", amount={"type": "integer"}))
    records = [one for one in recorded(Random(1), [tool], 600) if one["header"]["context"]["user_id"] in ("u1", "u2")]
    found = await suggestion(records, [tool])
    assert found.rules == []
    assert found.lines()[-1] == f"No rule for pay: {len(records)} calls of 2 users: too little for a rule."


async def test_the_effect_in_the_period_is_what_the_printed_rules_decide() -> None:
    tool = ShopTool("pay", schema("amount", amount={"type": "integer"}))
    records = recorded(Random(1), [tool], 600)
    for number, one in enumerate(records):
        one["invocations"][0]["parameters"] = {"amount": 9000 if number % 100 == 99 else 20 + number % 30}
    found = await suggestion(records, [tool])
    assert "pay: amount at most 57" in [rule.name for rule in found.rules]
    assert found.effect.by_rule["pay: amount at most 57"] == 6
    assert (found.effect.calls, found.effect.refused) == (600, 0)
