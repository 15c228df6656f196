"""The lines that permit recorded calls again: the bound of each value by its source, and the caps of lines and times."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.mandate import MAX_LINES, MAX_TIMES
from graph_agent.models.sources import CallSources, FoundSource, ReadCall, Source
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.recorded_plan import NotRepresentableError, Read, RecordedCall, RecordedLines, line_of

ANY = {"note": {}, "amount": {"type": "number"}, "to": {}, "user": {}, "items": {}}
TOOLS = {
    "write": "(in plans) (user is the signed-in user)",
    "log_in": "(in plans, only with a form)",
    "wipe": "(in plans) (requires confirmation)",
    "drop": "",
    "mails": "(reads)",
    "orders": "(reads)",
}
ORDER = {"id": "a long id of an order", "total": 7, "lines": [{"sku": "S1", "note": "one two three"}], "ünit": "of nothing"}
FOUND = [
    ReadCall("mails", {}, ToolResult(success=True, data={"text": "write to ann@shop.example or see https://shop.example/a"})),
    ReadCall("mails", {}, ToolResult(success=True, data={"code": "A1", "same": "a long id of an order"})),
    ReadCall("orders", {}, ToolResult(success=True, data={"orders": [ORDER], "id": "a long id of an order"})),
    ReadCall("orders", {}, ToolResult(success=False, data={"failed": "a text of a failure"})),
]
READ = Read(FOUND, ["write to somebody at shop.example"])


def policy() -> CompiledPolicy:
    lines = "\n".join(f"- {name}: Act {markers}".rstrip() for name, markers in TOOLS.items())
    parameters = {"type": "object", "properties": ANY}
    declarations = [ToolDeclaration(name=name, description="", parameters=parameters) for name in TOOLS]
    traits = {"orders": ToolTraits(output={"type": "object"})}
    return compile_policy(Constitution.parse(f"## Available Tools\n{lines}\n"), declarations, traits)


def call(tool: str = "write", of: dict[str, list[FoundSource]] | None = None, **arguments: Any) -> RecordedCall:
    return RecordedCall(tool, arguments, CallSources(arguments=of or {}))


def found_in(*tools: str | None) -> list[FoundSource]:
    return [FoundSource(source=Source.MODEL if tool is None else Source.UNTRUSTED, tool=tool) for tool in tools]


def bound_of(name: str, value: Any, sources: list[FoundSource], *, standing: bool = False) -> Any:
    made = line_of(call("write", {name: sources}, **{name: value}), policy(), READ, standing=standing)
    return made.to_json()["arguments"][name]


CODE, LINK, MAIL = "A1", "https://shop.example/b", "eve@shop.example"


@pytest.mark.parametrize(
    ("value", "tools", "within", "standing"),
    [
        (CODE, ["mails"], {"from": "mails", "form": "code"}, ...),
        ([CODE, "B2"], ["mails"], {"from": "mails", "form": "code"}, ...),
        (LINK, ["mails"], {"from": "mails", "form": "link"}, ...),
        (MAIL, ["mails"], {"from": "mails", "form": "address"}, ...),
        (7, ["orders"], {"from": "orders", "form": "number", "at_most": 7}, ...),
        ([3, 7.5], ["orders"], {"from": "orders", "form": "number", "at_most": 7.5}, ...),
        # A text without a form: its place, if the tool declares its results; the shortest one.
        ("a long id of an order", ["orders"], {"from": "orders", "at": "$.id"}, ...),
        ("one two three", ["orders"], {"from": "orders", "at": "$.orders[*].lines[*].note"}, ...),
        (["one two three", "of nothing"], ["orders"], {"from": "orders"}, {"is": ["one two three", "of nothing"]}),
        # A name that cannot stand in a path, and a tool that declares nothing.
        ("of nothing", ["orders"], {"from": "orders"}, {"is": ["of nothing"]}),
        ("a long id of an order", ["mails"], {"from": "mails"}, {"is": ["a long id of an order"]}),
        ("eve@other.example", ["mails"], {"is": ["eve@other.example"]}, ...),
        # A part of a text, what stood in a failure, and what stood nowhere.
        ("long id of an", ["orders"], {"from": "orders"}, {"is": ["long id of an"]}),
        ("a text of a failure", ["orders"], {"is": ["a text of a failure"]}, ...),
        ("never read at all", ["orders"], {"is": ["never read at all"]}, ...),
        # Several sources, none, and values that are neither a text nor a number.
        (CODE, ["mails", "orders"], {"is": [CODE]}, ...),
        (CODE, ["mails", None], {"is": [CODE]}, ...),
        (CODE, [], {"is": [CODE]}, ...),
        (True, ["mails"], {"is": [True]}, ...),
        ({"code": CODE}, ["mails"], {"is": ["code", CODE]}, ...),
        ([1, True, 1.0, "1"], ["mails"], {"is": [1, True, 1.0, "1"]}, ...),
    ],
)  # fmt: skip
def test_a_value_is_bounded_by_its_source(value: Any, tools: list[str | None], within: Any, standing: Any) -> None:
    assert bound_of("note", value, found_in(*tools)) == within
    assert bound_of("note", value, found_in(*tools), standing=True) == (within if standing is ... else standing)


def test_who_gets_money_is_the_value_itself_and_the_runtime_sets_the_user() -> None:
    arguments = {"to": CODE, "amount": 7, "user": "ann", "items": None}
    made = line_of(call("write", {"to": found_in("mails"), "amount": found_in("mails")}, **arguments), policy(), READ)
    assert made.to_json()["arguments"] == {
        "to": {"is": [CODE]},
        "amount": {"from": "mails", "form": "number", "at_most": 7},
    }


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (call("drop", note=1), "its tool is in no plan"),
        (call("gone", note=1), "its tool is in no plan"),
        (RecordedCall("write", {"note": 1}, None), "the record does not say where its values came from"),
        (call("wipe", note=[1, 2]), "wipe needs exactly one value for each argument"),
        (call("write", note=[]), "its note cannot stand in a plan"),
        (call("write", note=list(range(21))), "its note cannot stand in a plan"),
        (call("write", note="x" * 5_000), "a plan has at most 4000 characters"),
        (call("write", other=1), "write has no argument other"),
        (call("write", note={"from": "A", "to": "B"}), "its note has several fields, which a plan does not tell apart"),
        (call("write", note=[{"to": [{"iban": "A", "name": "B"}]}]), "its note has several fields"),
    ],
)
def test_a_call_that_no_line_permits_has_a_reason(made: RecordedCall, why: str) -> None:
    with pytest.raises(NotRepresentableError, match=why):
        RecordedLines().add(made, policy(), READ)


def added(*made: RecordedCall) -> tuple[RecordedLines, list[str]]:
    lines, reasons = RecordedLines(), []
    for one in made:
        try:
            lines.add(one, policy(), READ)
        except NotRepresentableError as exc:
            reasons.append(str(exc))
    return lines, reasons


def test_a_line_permits_at_most_twenty_calls() -> None:
    lines, reasons = added(*(call("write", note=1) for _ in range(MAX_TIMES + 2)))
    assert [one.times for one in lines.lines] == [MAX_TIMES]
    assert reasons == ["a line permits at most 20 calls"] * 2


def test_a_plan_has_at_most_eight_lines_and_those_it_has_still_count() -> None:
    lines, reasons = added(*(call("write", note=number) for number in range(MAX_LINES + 1)), call("write", note=0))
    assert [one.times for one in lines.lines] == [2, *[1] * (MAX_LINES - 1)]
    assert reasons == ["a plan has at most 8 lines"]


@pytest.mark.parametrize(("one", "other", "count"), [(1, 1.0, 1), (1, True, 2), ("1", 1, 2), ("a", "a", 1), ([1, 1], 1, 2)])
def test_calls_with_equal_bounds_are_one_line(one: Any, other: Any, count: int) -> None:
    lines, reasons = added(call("write", note=one), call("write", note=other))
    assert (len(lines.lines), reasons) == (count, [])


def test_a_line_of_several_calls_has_the_sources_of_all_of_their_values() -> None:
    first = RecordedCall("write", {"note": "x"}, CallSources(arguments={"note": found_in(None)}))
    second = RecordedCall("write", {"note": "x"}, CallSources(arguments={"note": found_in("mails", "orders")}, after="mails"))
    lines, _ = added(first, second)
    assert lines.sources == [CallSources(arguments={"note": found_in(None, "mails", "orders")}, after="mails")]
