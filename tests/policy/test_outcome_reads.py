"""The line of a change names a read that can tell its outcome, or is refused."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.errors import ConstitutionError, ToolGrantError
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution, DoneIf
from graph_agent.policy.outcome_reads import values_in

TEXT = {"type": "string"}
PAY = {"type": "object", "properties": {"amount": {"type": "integer"}, "reference": TEXT}, "required": ["amount"]}
FIND = {"type": "object", "properties": {"reference": TEXT, "page": {"type": "integer"}}, "required": ["reference"]}
UNTRUSTED = ToolTraits(untrusted=True, destructive=None)


READ = "(done if paid $.a)"
FACTS = """## Facts
- paid: find(reference = arguments.reference)
"""


def policy(
    done_if: str, traits: ToolTraits = UNTRUSTED, *, line: str = "(reads)", facts: str = FACTS, **servers: str
) -> CompiledPolicy:
    text = f"{facts}## Available Tools\n- pay: Pay (without confirmation) {done_if}\n- find: Find {line}\n"
    tools = [ToolDeclaration(name=name, description="", parameters=one) for name, one in (("pay", PAY), ("find", FIND))]
    return compile_policy(Constitution.parse(text), tools, {"pay": traits, "find": UNTRUSTED}, servers=servers)


@pytest.mark.parametrize("named", ["paid $.payments[?@.amount == 5]", "all $[?@.amount == 5]", "five"])
def test_a_line_names_the_fact_that_finds_the_change(named: str) -> None:
    facts = "## Facts\n- paid: find(reference = arguments.reference, page = arguments.amount)\n"
    facts += "- all: paid $.payments\n- five: paid $.payments[?@.amount == 5]\n"
    [grant] = Constitution.parse(f"{facts}## Available Tools\n- pay: Pay (done if {named}) (complete)\n").grants
    filled = (("reference", "reference"), ("page", "amount"))
    assert grant.done_if == DoneIf(named.split(" ")[0], "find", filled, "$.payments[?@.amount == 5]", complete_after=30)
    assert grant.summary == "Pay"


@pytest.mark.parametrize(
    "line",
    [
        "- pay: Pay (done if find $.payments[*])",
        "- pay: Pay (done if find(reference = arguments.reference) $.payments[*])",
        "- pay: Pay (done if paid)",
        "- pay: Pay (done if paid payments)",
        "- pay: Pay (complete)",
        "- pay: Pay (reads) (done if paid $.payments[*])",
        "- pay: Pay (done if paid $.d) (done if paid $.e)",
    ],
)
def test_a_line_with_another_form_is_refused(line: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(f"{FACTS}## Available Tools\n{line}\n")


@pytest.mark.parametrize(
    ("done_if", "more", "why"),
    [
        (READ, {"facts": "## Facts\n- paid: other(reference = arguments.reference)\n"}, "is not granted"),
        (READ, {"facts": "## Facts\n- paid: find(id = arguments.reference)\n"}, "no parameter 'id'"),
        (READ, {"facts": "## Facts\n- paid: find(page = arguments.amount)\n"}, "'reference' is not filled"),
        (READ, {"facts": "## Facts\n- paid: find(reference = arguments.order)\n"}, "needs 'order', and that is no argument"),
        ("(done if paid $..a)", {}, "`..` finds a field wherever it is"),
        ("(done if paid $.a[)", {}, "cannot be read"),
        ("(done if paid $.a[0]) (complete)", {}, "selects one value"),
        (READ, {"line": "(without confirmation)"}, "may change something"),
        (READ, {"line": "(reads) (requires confirmation)"}, "asks the user first"),
        (READ, {"pay": "bank", "find": "mail"}, "not trusted"),
    ],
)
def test_a_read_that_cannot_tell_the_outcome_is_refused(done_if: str, more: dict[str, str], why: str) -> None:
    with pytest.raises(ToolGrantError, match=why):
        policy(done_if, UNTRUSTED, **more)


def test_a_tool_with_a_ledger_needs_no_read() -> None:
    with pytest.raises(ToolGrantError, match="keeps a ledger"):
        policy(READ, traits=ToolTraits(ledger=True))


def test_another_server_may_tell_the_outcome_if_its_results_are_trusted() -> None:
    assert policy(READ, line="(reads) (trusted results)", pay="bank", find="mail").rules["pay"].grant.done_if is not None


def test_a_path_compares_the_arguments_of_the_call() -> None:
    path = "$.payments[?@.reference == arguments.reference]"
    found = ToolResult(success=True, data={"payments": [{"reference": "a"}, {"reference": "b"}]})
    assert values_in(path, found, {"reference": "b"}) == [{"reference": "b"}]
    assert values_in(path, found, {"reference": "c"}) == []
    assert values_in(path, found, {}) is None
    assert policy(f"(done if paid {path})").rules["pay"].grant.done_if is not None
    with pytest.raises(ToolGrantError, match="needs 'order', and that is no argument of the call"):
        policy("(done if paid $.payments[?@.order == arguments.order])")


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ({"payments": [{"id": 1}]}, [{"id": 1}]),
        ({"payments": []}, []),
        ({}, None),
        ({"payments": None}, None),
        ({"payments": "no list"}, None),
        ([1], None),
        (None, None),
    ],
)
def test_what_a_path_names_has_to_be_there(data: Any, values: list[Any] | None) -> None:
    assert values_in("$.payments[*]", ToolResult(success=True, data=data)) == values
    assert values_in("$.payments[*]", ToolResult(success=False, data=data)) is None
