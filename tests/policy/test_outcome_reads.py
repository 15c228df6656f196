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


def policy(done_if: str, traits: ToolTraits = UNTRUSTED, *, line: str = "(reads)", **servers: str) -> CompiledPolicy:
    text = f"## Available Tools\n- pay: Pay (without confirmation) {done_if}\n- find: Find {line}\n"
    tools = [ToolDeclaration(name=name, description="", parameters=one) for name, one in (("pay", PAY), ("find", FIND))]
    return compile_policy(Constitution.parse(text), tools, {"pay": traits, "find": UNTRUSTED}, servers=servers)


def test_a_line_names_the_read_its_parameters_and_the_path() -> None:
    line = "- pay: Pay (done if find(reference = reference, page = amount) $.payments[?@.amount == 5]) (complete)"
    [grant] = Constitution.parse(f"## Available Tools\n{line}\n").grants
    filled = (("reference", "reference"), ("page", "amount"))
    assert grant.done_if == DoneIf("find", filled, "$.payments[?@.amount == 5]", complete_after=30)
    assert grant.summary == "Pay"


@pytest.mark.parametrize(
    "line",
    [
        "- pay: Pay (done if find $.payments[*])",
        "- pay: Pay (done if find() $.payments[*])",
        "- pay: Pay (done if find(reference = 'x') $.payments[*])",
        "- pay: Pay (done if find(reference = reference) payments)",
        "- pay: Pay (complete)",
        "- pay: Pay (reads) (done if find(reference = reference) $.payments[*])",
        "- pay: Pay (done if a(b = c) $.d) (done if a(b = c) $.e)",
    ],
)
def test_a_line_with_another_form_is_refused(line: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(f"## Available Tools\n{line}\n")


@pytest.mark.parametrize(
    ("done_if", "more", "why"),
    [
        ("(done if other(reference = reference) $.a)", {}, "is not granted"),
        ("(done if find(id = reference) $.a)", {}, "no parameter 'id'"),
        ("(done if find(page = amount) $.a)", {}, "'reference' is not filled"),
        ("(done if find(reference = order) $.a)", {}, "reads 'order', and that is no argument"),
        ("(done if find(reference = reference) $..a)", {}, "`..` finds a field wherever it is"),
        ("(done if find(reference = reference) $.a[)", {}, "cannot be read"),
        ("(done if find(reference = reference) $.a[0]) (complete)", {}, "selects one value"),
        ("(done if find(reference = reference) $.a)", {"line": "(without confirmation)"}, "may change something"),
        ("(done if find(reference = reference) $.a)", {"line": "(reads) (requires confirmation)"}, "asks the user first"),
        ("(done if find(reference = reference) $.a)", {"pay": "bank", "find": "mail"}, "not trusted"),
    ],
)
def test_a_read_that_cannot_tell_the_outcome_is_refused(done_if: str, more: dict[str, str], why: str) -> None:
    with pytest.raises(ToolGrantError, match=why):
        policy(done_if, UNTRUSTED, **more)


def test_a_tool_with_a_ledger_needs_no_read() -> None:
    with pytest.raises(ToolGrantError, match="keeps a ledger"):
        policy("(done if find(reference = reference) $.a)", traits=ToolTraits(ledger=True))


def test_another_server_may_tell_the_outcome_if_its_results_are_trusted() -> None:
    read = "(done if find(reference = reference) $.a)"
    assert policy(read, line="(reads) (trusted results)", pay="bank", find="mail").rules["pay"].grant.done_if is not None


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
