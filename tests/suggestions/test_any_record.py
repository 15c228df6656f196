"""Whatever was recorded: a suggested file passes the check, and stops no more calls of its own period than it says."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from graph_agent.bootstrap.policies import explained_conditions
from graph_agent.reply.text import visible
from tests.policy.cedar_shop import ShopTool, policy_of, schema
from tests.suggestions.test_suggest import WARNINGS, suggestion

_TOOLS = ("send-mail", "db.query", "x" * 60, "refund", "Create_Order")
_ARGUMENTS = (
    *("to-who", "amount", "a.b", 'q"x', "line\nbreak", "é", "ünï code", "日本", "if", "has", "principal", "x" * 150, "y" * 150),
    *("a b", "a  b", "a\tb", "zero", "1st", "$ref", "source", "count", "__entity"),
)
_TEXT: dict[str, Any] = {"type": "string"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_DEEP = {"type": "object", "properties": {"deep": {"type": "number"}}, "additionalProperties": False}
_OBJECT = {"type": "object", "properties": {"a": _WHOLE, "b": _TEXT, "n-x": _DEEP}, "additionalProperties": False}
_TYPES: tuple[dict[str, Any], ...] = (
    _WHOLE,
    {"type": "number"},
    _TEXT,
    {"type": "boolean"},
    {"type": ["integer", "string"]},
    {"type": ["string", "null"]},
    {"type": "array", "items": _TEXT},
    {"type": "array", "items": _WHOLE},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "enum": ["a", 'b"c', "é\n"]},
    {"type": "integer", "enum": [1, 2]},
    {"type": "integer", "minimum": 0, "maximum": 10},
    {"type": "object"},
    {},
    _OBJECT,
)
_TEXTS = (
    *(
        "a",
        "b",
        "日本",
        "zero\u200bwidth",
        "tab\t",
        "new\nline",
        'q"uote',
        "back\\slash",
        "*",
        "e\u0301",
        "\U0001f600",
        "",
        "[1]",
    ),
    *("https://example.com/a", "ann@example.com", "${x}", "// c", "12345678"),
)


def _value(random: Random, kind: dict[str, Any]) -> Any:
    match kind:
        case {"enum": options}:
            return random.choice(options)
        case {"type": "integer"}:
            return random.choice((1, 2, 3, -5, 10**6, 10**20, 0, random.randrange(1000)))
        case {"type": "number"}:
            return random.choice((0.5, 1.25, -3.0, 1e6, 1e300, 1e-9, random.random(), random.randrange(1000) / 7, 5))
        case {"type": "boolean"}:
            return random.random() < 0.9
        case {"type": "array", "items": items}:
            return [_value(random, items) for _ in range(random.randrange(4))]
        case {"type": "object"}:
            parts = kind.get("properties", {}).items()
            return {name: _value(random, part) for name, part in parts if random.random() < 0.7}
        case {"type": ["integer", "string"]}:
            return random.choice(("a", 5, "5"))
        case {"type": ["string", "null"]}:
            return random.choice(("a", "b", None))
        case {"format": "date"}:
            return random.choice(("2026-01-01", "2026-02-30"))
        case {"format": "date-time"}:
            return "2026-01-01T00:00:00Z"
    return random.choice(_TEXTS)


def _record(random: Random, tools: list[ShopTool], number: int, count: int) -> dict[str, Any]:
    tool = random.choice(tools)
    properties = tool.parameters["properties"]
    arguments = {name: _value(random, kind) for name, kind in properties.items() if random.random() < 0.8}
    at = f"2026-09-{1 + number * 28 // count:02}T{random.randrange(24):02}:00:00Z"
    context: dict[str, Any] = {"user_id": f"u{random.randrange(9)}", "conversation_id": f"c{number // 3}"}
    context |= {"roles": random.choice((["support"], [])), "message": random.choice(("a b 5", "hello"))}
    if random.random() < 0.2:
        context["called"] = [{"name": tool.name, "arguments": arguments}]
    call = {"tool_name": tool.name, "parameters": arguments, "disposition": "executed", "result": arguments, "invoked_at": at}
    made = {**call, "sequence": 1, "success": random.random() < 0.9, "error_code": None}
    header = {"decision_id": f"d{number:05}", "context": context, "started_at": at}
    return {"header": header, "invocations": [made]}


def _tools(random: Random) -> list[ShopTool]:
    tools = []
    for number, name in enumerate(random.sample(_TOOLS, 3)):
        chosen = {argument: random.choice(_TYPES) for argument in random.sample(_ARGUMENTS, 7)}
        tools.append(ShopTool(name, schema(*random.sample(list(chosen), 2), **chosen), reads=number == 0))
    return tools


@pytest.mark.parametrize("count", [0, 400])
@pytest.mark.parametrize("seed", range(4))
async def test_a_file_from_any_record_passes_the_check_and_stops_no_more_than_its_comments_say(seed: int, count: int) -> None:
    random = Random(f"{seed} {count}")
    tools = _tools(random)
    records = [_record(random, tools, number, count) for number in range(count)]
    for shadow in (False, True):
        found = await suggestion(records, tools, shadow=shadow)
        # The command prints it so: nothing in it is hidden, so that what is printed is what was judged.
        assert visible(found.text) == found.text
        lines = list(explained_conditions(policy_of(tools, found.text)))
        assert not [line for line in lines if any(one in line for one in WARNINGS)]
        assert bool(found.rules) is bool(count)
        assert not re.search(r"u\d\b|12345678|ann@", found.text)
    calls = Counter(one["invocations"][0]["tool_name"] for one in records)
    for rule in found.rules:
        says = re.search(r"(\d+\.\d)% (?!of )", rule.evidence)
        if says is not None:
            stopped = 1 - float(says[1]) / 100
            assert found.effect.by_rule[rule.name] <= calls[rule.tool] * (stopped + 0.0006), rule.evidence
    # What conditions cannot read is refused, and no rule reads an argument with much of it.
    assert found.effect.refused <= 0.05 * 7 * sum(calls.values())


async def test_ordinary_calls_of_a_client_without_messages_are_not_asked_about() -> None:
    tool = ShopTool("pay", schema("amount", amount=_WHOLE))
    records = []
    for number in range(300):
        at, call = (
            f"2026-09-{1 + number % 28:02}T{8 + number % 9:02}:00:00Z",
            {"tool_name": "pay", "parameters": {"amount": 20 + number % 9}},
        )
        context: dict[str, Any] = {"user_id": f"u{number % 9}", "conversation_id": f"c{number}", "message": "pay", "roles": []}
        if number % 2:
            context["called"] = [{"name": "pay", "arguments": call["parameters"]}]
        made = {
            **call,
            "sequence": 1,
            "disposition": "executed",
            "success": True,
            "error_code": None,
            "invoked_at": at,
            "result": {},
        }
        records.append(
            {"header": {"decision_id": f"d{number:05}", "context": context, "started_at": at}, "invocations": [made]}
        )
    found = await suggestion(records, [tool])
    assert next(rule.name for rule in found.rules) == "pay: amount at most 33"
    assert (found.effect.asked, found.effect.refused) == (0, 0)


async def test_an_argument_that_conditions_can_often_not_read_gets_no_rule() -> None:
    tool = ShopTool("visit", schema("latitude", "rooms", latitude={"type": "number"}, rooms=_WHOLE))
    records = []
    for number in range(300):
        at, place = (
            f"2026-09-{1 + number % 28:02}T{8 + number % 9:02}:00:00Z",
            {"latitude": 52.52 + number / 7e5, "rooms": 1 + number % 4},
        )
        context = {"user_id": f"u{number % 9}", "conversation_id": f"c{number}", "message": "go", "roles": []}
        made = {"tool_name": "visit", "parameters": place, "sequence": 1, "disposition": "executed", "success": True}
        header = {"decision_id": f"d{number:05}", "context": context, "started_at": at}
        records.append({"header": header, "invocations": [{**made, "invoked_at": at, "error_code": None, "result": {}}]})
    found = await suggestion(records, [tool])
    assert "latitude" not in found.text
    assert "visit: rooms at most" in found.text
    assert found.effect.refused == 0
