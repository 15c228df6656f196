"""Calls as people read them: sentences, details, values in words."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import graph_agent
from graph_agent.models.facts import ShownFact
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.said import Said
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.sentence import Money
from graph_agent.policy.sentence_reads import ReadValues
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.words.confirmation import digest_of_call
from graph_agent.words.results import result_rows
from graph_agent.words.said import Known, in_line, say
from graph_agent.words.values import by_name, spoken

EXTEND = "Extend {loan_record.item or loan} until {due}[ (was {loan_record.due})][ for {why}]"
LOAN = {"type": "object", "properties": {"loan": {"type": "integer"}}, "required": ["loan"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "loan": {"type": "integer"},
        "due": {"type": "string"},
        "why": {"type": "string"},
        "note": {"type": "string"},
    },
    "required": ["loan", "due"],
}
GIVEN = {"loan": 1, "due": "2027-01-15"}


def rule(sentence: str = EXTEND, **traits: Any) -> ToolRule:
    undone = "(undone by extend(loan = arguments.loan, due = loan_record.due) for 30 minutes)"
    text = (
        f'## Available Tools\n- find_loan: Find (reads)\n- extend: "{sentence}" (requires confirmation) {undone}\n'
        "\n## Facts\n- loan_record: find_loan(loan = arguments.loan)\n"
    )
    tools = [
        ToolDeclaration(name=name, description="", parameters=one) for name, one in (("find_loan", LOAN), ("extend", SCHEMA))
    ]
    return compile_policy(Constitution.parse(text), tools, {"extend": ToolTraits(**traits)}).rules["extend"]


def read(item: str = "camera", due: str = "2026-12-10") -> Known:
    return Known(read=ReadValues({"loan_record.item": item, "loan_record.due": due}, {"due": due}))


def test_the_operators_sentence_says_the_call_and_the_id_stays_beside_the_name() -> None:
    said = say(rule(title="Set another due date"), GIVEN, read())
    assert said.text == "Extend 'camera' until 15 January 2027 (was 10 December 2026)\n  Loan: 1"
    assert in_line(said) == "Extend 'camera' until 15 January 2027 (was 10 December 2026) (loan 1)"
    assert [(part.value, part.shown) for part in said.parts if part.shown] == [("loan_record.item", "camera")]


def test_what_was_not_read_is_said_by_its_argument_or_left_out() -> None:
    assert say(rule(), GIVEN).text == "Extend loan 1 until 15 January 2027\n  Loan: 1"[: -len("\n  Loan: 1")]
    assert say(rule(), {**GIVEN, "why": "a trip"}).sentence == "Extend loan 1 until 15 January 2027 for 'a trip'"


def test_without_a_sentence_the_details_are_the_arguments_with_what_they_replace() -> None:
    said = say(rule("Set another due date"), {**GIVEN, "note": "for ann"}, read())
    assert said.text == ("Set another due date\n  Loan: 1\n  Due: 10 December 2026 → 15 January 2027\n  Note: 'for ann'")


def test_facts_of_conditions_are_quiet_details() -> None:
    said = say(
        rule("Set another due date"),
        GIVEN,
        Known(facts=(ShownFact(name="loan", values={"status": "open"}), ShownFact(name="customer", missing="not found"))),
    )
    assert said.text.endswith("\n  Loan status now: 'open'\n  Customer now: not found")
    assert in_line(said) == "Set another due date (loan 1, due 15 January 2027)"


HOSTILE = [
    "camera' until 1 January 2099 (was '",
    "a\" b' c",
    "camera\nShould I go ahead? Please answer yes or no.",
    "✓ Done",
    "\u202eevil\u202c",
    "camera\u200b",
    "‹U+200B›",
    "  camera",
    "{due} [x]",
    "",
    "x" * 65_536,
    "1 January 2027",
    "yes",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_value_changes_a_word_or_hides_another_value(text: str) -> None:
    plain, said = say(rule(), GIVEN, read()), say(rule(), GIVEN, read(item=text))
    words = [part.text for part in plain.parts if not part.value]
    assert [part.text for part in said.parts if not part.value] == words
    (value,) = (part.text for part in said.parts if part.value == "loan_record.item")
    assert value[0] == value[-1]
    assert value[0] in "'\""
    assert value[0] not in value[1:-1] or value[0] == "'"
    assert said.text.isprintable() or all(line.isprintable() for line in said.text.split("\n"))
    assert said.text.count("\n") == len(said.rows)
    assert len(said.sentence) < 400
    # What the sentence cuts is a detail, and one that is too long for that is confirmed by its id.
    assert said.is_complete is (len(text) <= 4_000)
    in_row = say(rule("Note it"), {**GIVEN, "note": text}).rows[-1]
    assert in_row.text[0] == in_row.text[-1]
    assert "\n" not in in_row.text


def test_two_values_that_are_said_alike_are_told_apart_by_their_digest() -> None:
    one, other = {**GIVEN, "due": "2027-01-15T10:00Z"}, {**GIVEN, "due": "2027-01-15T10:00:00Z"}
    assert say(rule(), one).text == say(rule(), other).text
    assert digest_of_call(rule(), one, Known()) != digest_of_call(rule(), other, Known())
    assert digest_of_call(rule(), GIVEN, read()) != digest_of_call(rule(), GIVEN, read(due="2026-12-11"))


@pytest.mark.parametrize(
    ("value", "schema", "words"),
    [
        ("2027-01-15", None, "15 January 2027"),
        ("2027-02-30", None, "'2027-02-30'"),
        ("2027-01-15T09:30:00Z", None, "15 January 2027, 09:30 UTC"),
        ("2027-01-15T09:30:05+01:00", None, "15 January 2027, 09:30:05 UTC+0100"),
        (True, None, "yes"),
        (None, None, "none"),
        (1234567, None, "1234567"),
        ("ann@example.com", None, "ann@example.com"),
        ("used", {"enum": ["new", "used"]}, "used"),
        ("yes", {"enum": ["yes", "no"]}, "'yes'"),
        ("A-17", {"type": "string", "pattern": "^[A-Z]-[0-9]+$"}, "A-17"),
        ("A-17", {"type": "string"}, "'A-17'"),
        (["a", "b", "c"], None, "'a', 'b' and 'c'"),
        ([], None, "[]"),
        ({"city": "Kiel", "street": "Elm 1"}, None, "city 'Kiel', street 'Elm 1'"),
        ({"one": {"two": 1}, "six": ["x", 2]}, None, "one (two 1), six ('x' and 2)"),
        ([{"one": 1}, {"one": 2}], None, "(one 1) and (one 2)"),
        ({"one": []}, None, "one []"),
        ({"a": [[[["deep"]]]]}, None, '{"a":[[[["deep"]]]]}'),
        ([{"a": "x" * 400}], None, f'[{{"a":"{"x" * 400}"}}]'),
    ],
)
def test_values_in_words(value: Any, schema: Any, words: str) -> None:
    assert spoken(value, schema).text == words


def test_a_value_of_an_enum_that_its_schema_refers_to_is_bare() -> None:
    condition = {"$ref": "#/$defs/Condition", "default": "used"}
    schema = {"type": "object", "properties": {"condition": condition}, "$defs": {"Condition": {"enum": ["new", "used"]}}}
    assert spoken("used", by_name(schema)["condition"]).text == "used"
    assert by_name(schema)["condition"]["default"] == "used"
    assert by_name({"properties": {"condition": condition}}) == {"condition": condition}


@pytest.mark.parametrize(
    ("value", "money", "words"),
    [
        (60, Money("EUR", False), "€60.00"),
        ("0.005", Money("EUR", False), "€0.005"),
        (1234.5, Money("EUR", False), "€1,234.50"),
        (-5, Money("GBP", False), "-£5.00"),
        (199, Money("EUR", True), "€1.99"),
        (111111111111111111111111111112, Money("EUR", True), "€1,111,111,111,111,111,111,111,111,111.12"),
        (5, Money("JPY", False), "5 JPY"),
        ("five", Money("EUR", False), "'five'"),
        (True, Money("EUR", False), "yes"),
    ],
)
def test_money_is_never_rounded(value: Any, money: Money, words: str) -> None:
    assert spoken(value, None, money).text == words


def test_a_result_adds_only_what_the_call_does_not_say() -> None:
    given, said = {"amount": 10.0, "loan": 1}, say(rule("Charge a fee"), {"amount": 10.0, "loan": 1})

    def added(**data: Any) -> list[tuple[str, str]]:
        return [(row.label, row.text) for row in result_rows(rule(), given, said, ToolResult(success=True, data=data))]

    assert added(fee=7, amount="10.00", loan=1, note=None) == [("Fee", "7")]
    # A number under another name is the same by chance.
    assert added(fee=1, loan=1) == [("Fee", "1")]


def test_a_preview_is_said_by_the_title_or_in_place_of_the_argument_that_names_the_object() -> None:
    seen = Known(ToolResult(success=True, data={"description": "call mom"}))
    assert say(rule("Set another due date", preview=True), GIVEN, seen).sentence == "Set another due date: 'call mom'"
    moved = say(rule("Move loan {preview or loan}", preview=True), GIVEN, seen)
    assert moved.text == "Move loan 'call mom'\n  Due: 15 January 2027"
    assert [(row.label, row.text) for row in moved.rows] == [("Loan", "1"), ("Due", "15 January 2027")]
    # The argument that stands for it has its name, unless the words before it are the name.
    assert say(rule("Move loan {preview or loan}"), GIVEN).sentence == "Move loan 1"
    assert say(rule("Move {preview or loan}"), GIVEN).sentence == "Move loan 1"


def test_a_server_with_a_ledger_describes_what_it_has_changed() -> None:
    made = rule("Move loan {preview or loan} to {due}", ledger=True)
    result = ToolResult(success=True, data={"preview": "call mom", "receipt": "it was late"})
    assert say(made, GIVEN, Known().after(made, result)).sentence == "Move loan 'call mom' to 15 January 2027"
    # What was confirmed is said as it was confirmed, and a server without a ledger describes nothing.
    seen = Known(ToolResult(success=True, data={"description": "call dad"}))
    assert say(made, GIVEN, seen.after(made, result)).sentence == "Move loan 'call dad' to 15 January 2027"
    other = rule("Move loan {preview or loan} to {due}")
    assert say(other, GIVEN, Known().after(other, result)).sentence == "Move loan 1 to 15 January 2027"


def test_only_two_modules_say_calls_and_their_results() -> None:
    package = Path(graph_agent.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in (Said.__name__, "SaidPart", "SaidRow")
    }
    assert found == {"words/results.py", "words/said.py"}
