"""Every loosening edit is reported by `policy diff`, or what was not compared is named."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import AnalysisResult, Change
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from tests.analysis.random_edits import RandomEdits, is_newly_possible
from tests.policy.cedar_shop import AMOUNT, COUNT, PERMIT, TEXT, ShopTool, policy_of, schema

SECONDS = 5.0
ASKS = "(requires confirmation)"
OWNER = schema("owner", owner=TEXT, other=TEXT)
BEFORE = "hour before: calls=2, writes=2; day before: calls=2, writes=2"
WRITES = PERMIT + 'forbid (principal, action in Action::"all writes", resource) unless { context.confirmed };'


def tool(parameters: dict[str, Any] = OWNER, marker: str = "", **more: Any) -> ShopTool:
    return ShopTool("act", parameters, marker=marker, **more)


def of_file(*tools: ShopTool, rules: str = PERMIT) -> CompiledPolicy:
    """Return a policy whose rules need not name tools that exist."""
    return policy_of(tools, None).with_conditions(ConditionsFile(rules))


def loosening(old: CompiledPolicy, new: CompiledPolicy) -> list[tuple[Change, str]]:
    """Return what keeps `--no-new` from passing."""
    return [(Change(one.answer), _text(one)) for one in compare(old, new, SECONDS) if one.may_loosen]


def _text(result: AnalysisResult) -> str:
    return result.why or str(result.example or "")


@pytest.mark.parametrize(
    ("before", "after", "rules", "expected"),
    [
        (
            tool(marker="(owner is the signed-in user)"),
            tool(),
            PERMIT,
            [(Change.RUNS, 'act(owner="")')],
        ),
        (
            tool(marker="(owner is the signed-in user)"),
            tool(schema("owner", "other", owner=TEXT, other=TEXT), marker="(other is the signed-in user)"),
            PERMIT,
            [(Change.RUNS, 'act(owner="", other="ann")')],
        ),
        (tool(), tool(marker="(reads)"), WRITES, [(Change.RUNS, 'act(owner="")'), (Change.READS, "")]),
        (tool(), tool(reads=True), PERMIT, [(Change.READS, "")]),
        (tool(), tool(server="mail"), PERMIT, [(Change.MOVED, "'shop' -> 'mail'")]),
        (
            tool(),
            tool(server="mail"),
            PERMIT + 'forbid (principal, action in Action::"server shop", resource);',
            [(Change.RUNS, 'act(owner="")'), (Change.MOVED, "'shop' -> 'mail'")],
        ),
        (
            tool(marker="(at most 2 per message)"),
            tool(marker="(at most 4 per message)"),
            PERMIT,
            [(Change.RUNS, f'act(owner="")  [attempted: act; message before: calls=2, writes=2; {BEFORE}]')],
        ),
        (
            tool(marker="(at most 2 per message)"),
            tool(),
            PERMIT,
            [(Change.RUNS, f'act(owner="")  [attempted: act; message before: calls=2, writes=2; {BEFORE}]')],
        ),
        (
            tool(marker="(requires confirmation)"),
            tool(marker="(without confirmation)"),
            PERMIT,
            [(Change.RUNS, 'act(owner="")')],
        ),
        (tool(marker=ASKS), tool(), PERMIT, [(Change.RUNS, 'act(owner="")')]),
        (tool(), tool(marker="(without confirmation)"), PERMIT, [(Change.UNASKED, "")]),
    ],
)
def test_a_loosened_line_of_the_constitution_is_reported(
    before: ShopTool, after: ShopTool, rules: str, expected: list[tuple[Change, str]]
) -> None:
    assert loosening(of_file(before, rules=rules), of_file(after, rules=rules)) == expected
    assert loosening(of_file(before, rules=rules), of_file(before, rules=rules)) == []


def test_a_newly_granted_tool_is_reported_with_what_it_may_do() -> None:
    found = loosening(of_file(tool()), of_file(tool(), ShopTool("drop", schema(), marker="(requires confirmation)")))
    assert found == [(Change.ASKS, "drop()")]


def one(argument: dict[str, Any], *required: str, **root: Any) -> dict[str, Any]:
    return {**schema(*required, a=argument), **root}


RECORD = {"type": "object", "properties": {"k": TEXT}, "additionalProperties": False}
SEEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (one({**TEXT, "minLength": 3}), one({**TEXT, "minLength": 2}), "act(a="),
    (one({**TEXT, "maxLength": 3}), one(TEXT), "act(a="),
    (one({**COUNT, "maximum": 10}), one({**COUNT, "maximum": 11}), "act(a=11)"),
    (one({**COUNT, "exclusiveMaximum": 10}), one({**COUNT, "exclusiveMaximum": 11}), "act(a=10)"),
    (one({**AMOUNT, "maximum": 10}), one({**AMOUNT, "maximum": 10.5}), "act(a="),
    (one({"type": "array", "items": TEXT, "maxItems": 2}), one({"type": "array", "items": TEXT, "maxItems": 3}), "act(a=["),
    (one({"type": "array", "items": TEXT, "minItems": 2}), one({"type": "array", "items": TEXT}), "act(a=["),
    (one({**TEXT, "enum": ["x"]}), one({**TEXT, "enum": ["x", "y"]}), 'act(a="y")'),
    (one({"const": "x"}), one({"enum": ["x", "y"]}), 'act(a="y")'),
    (one({"type": "integer", "enum": [1]}), one({"type": "integer"}), "act(a=0)"),
    (one(TEXT), schema(a=TEXT, b=TEXT), 'act(b="")'),
    (one(TEXT), schema(a=TEXT, b={"type": "object"}), "act(b={})"),
    (one(TEXT), one(TEXT, additionalProperties=True), 'act(="x")'),
    (one(TEXT, "a"), one(TEXT), "act()"),
    (one({"type": "object"}, "a"), one({"type": "object"}), "act()"),
    (one(RECORD), one({**RECORD, "properties": {"k": TEXT, "i": COUNT}}), 'act(a={"i": 0})'),
]


@pytest.mark.parametrize(("before", "after", "example"), SEEN)
def test_a_schema_that_newly_accepts_a_call_is_reported_with_it(
    before: dict[str, Any], after: dict[str, Any], example: str
) -> None:
    ((change, text),) = loosening(of_file(tool(before)), of_file(tool(after)))
    assert (change, text.startswith(example)) == (Change.RUNS, True), text
    assert loosening(of_file(tool(after)), of_file(tool(before))) == []


def test_an_exclusive_limit_of_a_decimal_is_seen_to_four_places() -> None:
    above, from_zero = ({"type": "number", limit: 0} for limit in ("exclusiveMinimum", "minimum"))
    assert loosening(of_file(tool(one(above))), of_file(tool(one(from_zero)))) == [
        (Change.RUNS, "act(a=0)"),
        (Change.NOT_COMPARED, "its schema may accept more: `exclusiveMinimum` of 'a'"),
    ]


LIST = {"type": "array", "items": {"type": "object", "properties": {"q": COUNT}}}
NOT_SEEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (one({**TEXT, "pattern": "^A"}), one(TEXT), "`pattern` of 'a'"),
    (one({**TEXT, "pattern": "^A"}), one({**TEXT, "pattern": "A"}), "`pattern` of 'a'"),
    (one({**TEXT, "format": "email"}), one(TEXT), "`format` of 'a'"),
    (one({**COUNT, "multipleOf": 5}), one(COUNT), "`multipleOf` of 'a'"),
    (one({"enum": [True]}), one({"type": "boolean"}), "`enum` of 'a'"),
    (one({"enum": [True]}), one({"enum": [True, False]}), "`enum` of 'a'"),
    (one({"type": "array", "items": TEXT, "uniqueItems": True}), one({"type": "array", "items": TEXT}), "`uniqueItems` of 'a'"),
    (
        one({"type": "array", "items": {**TEXT, "maxLength": 1}}),
        one({"type": "array", "items": {**TEXT, "maxLength": 2}}),
        "`maxLength` of 'a[]'",
    ),
    (one(LIST), one({**LIST, "items": {"type": "object", "properties": {"q": COUNT, "w": TEXT}}}), "`properties` of 'a[].w'"),
    (one(LIST), one({**LIST, "items": {"type": "object", "properties": {"q": {"type": "integer"}}}}), "`minimum` of 'a[].q'"),
    (one(RECORD), one({**RECORD, "additionalProperties": True}), "`additionalProperties` of 'a'"),
    (one(RECORD), one({**RECORD, "properties": {"k": TEXT, "h": {"type": "object"}}}), "`properties` of 'a.h'"),
    (one(TEXT, **{"not": {"required": ["a"]}}), one(TEXT), "`not`"),
    (schema(a=TEXT, b=TEXT) | {"dependentRequired": {"a": ["b"]}}, schema(a=TEXT, b=TEXT), "`dependentRequired`"),
    (one(TEXT, maxProperties=0), one(TEXT), "`maxProperties`"),
    (
        one({"$ref": "#/$defs/A"}, **{"$defs": {"A": {**TEXT, "pattern": "^A"}}}),
        one({"$ref": "#/$defs/A"}, **{"$defs": {"A": TEXT}}),
        "`pattern` of 'a'",
    ),
    (
        one({"anyOf": [{**TEXT, "pattern": "^A"}, {"type": "null"}]}),
        one({"anyOf": [TEXT, {"type": "null"}]}),
        "`pattern` of 'a'",
    ),
    (one(TEXT), one({"type": ["string", "null"]}), "`type` of 'a'"),
    (one({**TEXT, "default": "x"}), one({**TEXT, "default": "y"}), "`default` of 'a'"),
]


@pytest.mark.parametrize(("before", "after", "where"), NOT_SEEN)
def test_a_change_of_a_schema_that_the_solver_does_not_see_is_named_as_not_compared(
    before: dict[str, Any], after: dict[str, Any], where: str
) -> None:
    expected = [(Change.NOT_COMPARED, f"its schema may accept more: {where}")]
    assert loosening(of_file(tool(before)), of_file(tool(after))) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (one(TEXT), one({**TEXT, "pattern": "^A", "maxLength": 9, "title": "A", "description": "Text."})),
        (one({"type": "number"}), one({"type": "number", "multipleOf": 0.5})),
        (one({"anyOf": [TEXT, {"type": "null"}]}), one({"type": ["string", "null"]})),
        (one({"$ref": "#/$defs/A"}, **{"$defs": {"A": TEXT}}), one(TEXT)),
        (one(TEXT), {"type": "object", "properties": {"a": TEXT}}),
        (one(TEXT), one(TEXT, **{"not": {"required": ["a"]}})),
        (one(LIST), one({**LIST, "maxItems": 3})),
        (schema(a=TEXT, b=TEXT), one(TEXT)),
    ],
)
def test_a_schema_that_accepts_less_or_the_same_is_no_loosening(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert loosening(of_file(tool(before)), of_file(tool(after))) == []


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (one(COUNT), one(AMOUNT), "the type of 'a' changed"),
        (one({"type": "object"}), one(RECORD), "the type of 'a' changed"),
        (
            one(TEXT, additionalProperties=True),
            schema(a=TEXT, b=TEXT) | {"additionalProperties": True},
            "conditions see 'b'",
        ),
    ],
)
def test_arguments_that_rules_see_in_two_ways_are_not_compared(before: dict[str, Any], after: dict[str, Any], why: str) -> None:
    found = loosening(of_file(tool(before)), of_file(tool(after)))
    assert found[0][0] is Change.NOT_COMPARED
    assert found[0][1].startswith(why)


def test_what_no_rule_can_express_twice_is_not_compared_only_if_it_changed() -> None:
    record = schema("k", k=TEXT)
    two = tool(schema("a", "b", a=record, b=record))
    rules = PERMIT + "forbid (principal, action, resource) when { context.arguments.a != context.arguments.b };"
    assert loosening(of_file(two, rules=rules), of_file(two, rules=rules)) == []
    assert loosening(of_file(two, rules=rules), of_file(two)) == [
        (Change.NOT_COMPARED, "'the condition in line 2 of the conditions file' is not encoded: `==` of records")
    ]


def test_a_read_that_no_longer_counts_as_a_change_is_named_where_changes_are_counted() -> None:
    rules = PERMIT + 'forbid (principal, action == Action::"b", resource) when { context.used.day.writes > 3 };'
    other = ShopTool("b", schema())
    found = loosening(of_file(tool(), other, rules=rules), of_file(tool(reads=True), other, rules=rules))
    assert (Change.NOT_COMPARED, "conditions read the number of changes, and it counts otherwise now") in found


def test_values_that_a_rule_no_longer_refuses_because_it_cannot_read_them_are_named() -> None:
    rule = 'forbid (principal, action, resource) when { context.arguments.a.lessThan(decimal("-1.0")) };'
    old, new = (of_file(tool(one(AMOUNT, "a")), rules=PERMIT + text) for text in (rule, ""))
    why = "conditions no longer read 'a', so values that they cannot read are no longer refused"
    assert loosening(old, new) == [(Change.NOT_COMPARED, why)]


def check_seeds(seeds: range, calls: int = 120) -> int:
    """Return how many of the pairs newly permit a call. Each of them must be reported."""
    looser = 0
    for seed in seeds:
        edits = RandomEdits(seed)
        old, new = edits.pair()
        found = [call for call in edits.calls(calls, old, new) if is_newly_possible(old, new, *call)]
        if found:
            looser += 1
            named = [one for one in compare(old, new, SECONDS) if one.name == "t"]
            assert any(one.may_loosen for one in named), (seed, found[0], named)
    return looser


def test_every_call_that_the_guard_newly_permits_is_reported_or_not_compared() -> None:
    assert check_seeds(range(100)) > 10


@pytest.mark.nightly
def test_every_call_that_the_guard_newly_permits_in_thousands_of_edits_is_reported_or_not_compared() -> None:
    assert check_seeds(range(600, 2600)) > 300
