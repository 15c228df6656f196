"""Arguments that may have one of several types: what the tool reads as a number is a number for the rules, or is refused."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from graph_agent.bootstrap.policies import explained_conditions
from graph_agent.errors import ConfigurationError
from graph_agent.models.record import CallDisposition
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.cedar.values import Unconvertible, amount
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.words.reasons import for_model
from tests.policy.cedar_shop import PERMIT, TEXT, ShopTool, facts, judge, policy_of, schema

AMOUNT = TypeAdapter(Decimal).json_schema()
PLAIN = "not permitted: 'amount' must be a plain number, such as 5000"
HERE = "context.arguments."


def forbid(name: str, condition: str) -> str:
    """Return a rule; in its condition `.x` stands for the argument x."""
    written = re.sub(r"(?<![\w)\]])\.(?=[a-z])", HERE, condition)
    return f'@id("{name}") forbid (principal, action, resource) when {{ {written} }};\n'


LARGE = forbid("large", '.amount has decimal && .amount.decimal.greaterThan(decimal("100.0"))')
DAY = forbid("day", 'context.used.day.sum.amount.greaterThan(decimal("100.0"))')
WRITTEN = ("5e3", " 5000 ", "\u0665\u0660\u0660\u0660", "5_000", "+5000", "05000", "5000.", "0x1388", "5,000", "inf", "NaN", "")
"""Texts that a server may read as a large number, and that are no plain numbers."""


def paying(rules: str, **arguments: Any) -> CompiledPolicy:
    """Return a policy for a tool with these arguments, all of them required."""
    return policy_of([ShopTool("pay", schema(*arguments, **arguments))], PERMIT + rules)


def decided(policy: CompiledPolicy, value: Any, name: str = "amount") -> str:
    """Return "runs", or why the call does not."""
    judged = judge(policy, "pay", {name: value}, facts=facts())
    return "runs" if judged.disposition is CallDisposition.EXECUTED else for_model(judged.reason) or judged.disposition


@pytest.mark.parametrize(
    ("declared", "remedy"),
    [
        ({"type": "number"}, r'compare it by `….greaterThan\(decimal\("50.0"\)\)`$'),
        (AMOUNT, r"after `… has decimal &&`, and then `….decimal.greaterThan`$"),
    ],
)
def test_a_number_with_decimals_that_is_compared_as_an_integer_is_an_error_with_its_remedy(
    declared: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        paying(forbid("large", ".amount > 50"), amount=declared)


def test_a_text_in_place_of_a_number_is_the_number_or_is_refused() -> None:
    policy = paying(LARGE, amount=AMOUNT)
    for value in (100, 100.0, "100", "100.00", "-5", "0.5"):
        assert decided(policy, value) == "runs"
    for value in (100.5, "100.5", "5000", "5000.0"):
        assert decided(policy, value) == "not permitted: large"
    for value in (*WRITTEN, "plenty"):
        assert decided(policy, value) == PLAIN
    assert decided(policy, "0.00001") == "not permitted: 'amount' has more than four decimals"


def test_a_text_counts_in_a_budget_as_the_number_that_it_is() -> None:
    policy = paying(DAY, amount=AMOUNT)
    assert decided(policy, "100") == "runs"
    assert decided(policy, "100.5") == decided(policy, 101) == "not permitted: day"
    for value in WRITTEN:
        assert decided(policy, value) == PLAIN
    conditions = policy.conditions
    assert conditions is not None
    now = facts().now
    assert conditions.use("pay", {"amount": "12.5"}, now).amounts == {"amount": "12.5000"}
    # If no condition sums it, its text is not kept, and a condition that sums it from now on takes it for all of the budget.
    unsummed = paying(forbid("calls", "context.used.day.calls > 5"), amount=AMOUNT).conditions
    assert unsummed is not None
    assert unsummed.use("pay", {"amount": "5e3"}, now).amounts == {"amount": "?"}


@pytest.mark.parametrize(
    "amount",
    [
        AMOUNT,
        {"type": ["number", "string"]},
        {"type": ["number", "string", "null"]},
        {"type": ["integer", "number", "string"]},
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
        {"anyOf": [{"$ref": "#/$defs/money"}, {"type": "null"}]},
        {"anyOf": [{"type": "string", "pattern": "e"}, {"enum": ["all"]}, {"type": "integer"}, {"type": "number"}]},
        {"anyOf": [{"type": "number", "maximum": 50}, {"type": "string"}]},
    ],
)
def test_every_form_of_a_number_or_a_text_is_read_alike(amount: Any) -> None:
    parameters = {**schema("amount", amount=amount), "$defs": {"money": AMOUNT}}
    rule = LARGE.replace("{ ", "{ context.arguments has amount && ")
    policy = policy_of([ShopTool("pay", parameters)], PERMIT + rule)
    assert decided(policy, "5e3") == PLAIN
    assert decided(policy, 5000).startswith(("not permitted: large", "the arguments do not fit"))
    assert decided(policy, "5000").startswith(("not permitted: large", "the arguments do not fit"))
    assert decided(policy, 5) == "runs"


def test_a_number_in_an_object_is_read_too() -> None:
    rule = LARGE.replace(HERE, f"{HERE}order.")
    policy = paying(rule, order=schema("amount", amount=AMOUNT))
    assert decided(policy, {"amount": "50"}, "order") == "runs"
    assert decided(policy, {"amount": "500"}, "order") == "not permitted: large"
    assert decided(policy, {"amount": "5e2"}, "order") == "not permitted: 'order.amount' must be a plain number, such as 5000"


def test_a_text_is_not_read_as_a_number_that_no_rule_names() -> None:
    optional = [ShopTool("pay", schema(amount=AMOUNT))]
    assert decided(policy_of(optional, PERMIT + forbid("given", "context.arguments has amount && false")), "5e3") == "runs"
    by_text = paying(forbid("text", '.amount has string && .amount.string == "x"'), amount=AMOUNT)
    assert decided(by_text, "5e3") == "runs"
    assert decided(by_text, "x") == "not permitted: text"
    both = [ShopTool(name, schema("amount", amount=AMOUNT)) for name in ("pay", "refund")]
    other = policy_of(both, PERMIT + LARGE.replace("action,", 'action == Action::"refund",'))
    assert decided(other, "5e3") == "runs"


def test_words_are_accepted_if_a_rule_reads_the_text() -> None:
    policy = paying(LARGE + forbid("all", '.amount has string && .amount.string == "all"'), amount=AMOUNT)
    assert decided(policy, "all") == "not permitted: all"
    assert decided(policy, "some") == "runs"
    for value in (*WRITTEN, "5 apples"):
        assert decided(policy, value) == PLAIN


def test_a_text_in_place_of_a_truth_value_is_one_or_is_refused() -> None:
    policy = paying(forbid("forced", ".force has bool && .force.bool"), force={"type": ["boolean", "string"]})
    assert decided(policy, True, "force") == decided(policy, "true", "force") == "not permitted: forced"
    assert decided(policy, False, "force") == decided(policy, "false", "force") == "runs"
    for value in ("True", "yes", "1", " true", "on", "", "maybe"):
        assert decided(policy, value, "force") == "not permitted: 'force' must be true or false"


def test_the_text_of_a_list_is_no_item() -> None:
    problem = "not permitted: 'tags' must be a list and not the text of one"
    tags = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
    for condition in ("context.length.tags > 2", '.tags.contains("secret")'):
        policy = paying(forbid("tags", condition), tags=tags)
        assert decided(policy, "fine", "tags") == "runs"
        assert decided(policy, ["secret", "b", "c"], "tags") == "not permitted: tags"
        assert decided(policy, ' ["secret", "b", "c"]', "tags") == problem
    numbers = {"anyOf": [TEXT, {"type": "array", "items": {"type": "number"}}]}
    five = paying(forbid("five", '.tags has set && .tags.set.contains(decimal("5.0"))'), tags=numbers)
    assert decided(five, "[5]", "tags") == problem


@given(st.one_of(st.text(max_size=12), st.text("0123456789.eE+-_, \u0660\u0665infa", max_size=8), st.decimals().map(str)))
def test_a_text_that_counts_as_a_number_is_the_one_that_a_server_reads(text: str) -> None:
    """Servers with pydantic, in its lax mode."""
    for type_, kind in ((Decimal, Kind.DECIMAL), (float, Kind.DECIMAL), (int, Kind.LONG)):
        try:
            number = amount(kind, text, "amount")
        except Unconvertible:
            continue
        try:
            read = TypeAdapter(type_).validate_python(text)
        except ValidationError:
            continue
        assert Decimal(str(read)) == (Decimal(number) / 10_000 if kind is Kind.DECIMAL else number) or abs(number) > 2**53


def test_check_names_each_argument_of_which_a_rule_sees_only_a_part() -> None:
    order = schema("id", id={"type": ["string", "integer"]})
    arguments = {"amount": AMOUNT, "force": {"type": ["boolean", "string"]}, "iban": TEXT, "order": order}
    rules = LARGE + DAY + forbid("one", '.order.id has string && .order.id.string == "1"')
    rules += forbid("both", ".force has bool && .force.bool || .force has string")
    lines = list(explained_conditions(paying(rules, **arguments)))
    text = ": a text counts as the number that it is, or is refused"
    assert [line for line in lines if "only as" in line] == [
        f"  'large' reads 'amount' only as decimal, and not as string{text}",
        f"  'day' reads 'amount' only as decimal, and not as string{text}",
        "  'one' reads 'order.id' only as string, and not as long",
    ]


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ({"format": "decimal"}, True),
        ({"pattern": r"^\d+(\.\d+)?$"}, True),
        ({}, False),
        ({"pattern": "^[A-Z]{3}$"}, False),
    ],
)
def test_check_names_a_number_that_its_schema_declares_as_a_text(text: dict[str, Any], is_named: bool) -> None:
    rule = forbid("five", '.amount == "5"')
    lines = list(explained_conditions(paying(rule, amount={"type": "string", **text})))
    assert any("conditions compare 'amount' as text" in line for line in lines) is is_named
    assert not any("compare" in line for line in explained_conditions(paying("", amount={"type": "string", **text})))
