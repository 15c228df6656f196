"""The most that a plan permits: nothing that runs under it is beyond what its card says, and what never runs is struck."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.mandates import permitted
from graph_agent.analysis.questions import Change
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import AtMost, Bound, Is, Line, PermittedLine, Plan
from graph_agent.policy.cedar.conditions import Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.mandate import Conversation, fits
from graph_agent.policy.permitted_plan import largest_sums, narrowed
from tests.policy.cedar_shop import AMOUNT, COUNT, PERMIT, TEXT, ShopTool, facts, policy_of, schema

SECONDS = 300.0
"""A limit that no machine reaches."""
TOOLS = (
    ShopTool("send_money", schema("recipient", "amount", "subject", recipient=TEXT, amount=COUNT, subject=TEXT)),
    ShopTool("refund", schema("order", "amount", order=TEXT, amount=AMOUNT, express={"type": "boolean"})),
    ShopTool("delete_file", schema("path", path=TEXT)),
    ShopTool("wipe", schema("path", path=TEXT), marker="(requires confirmation)"),
    ShopTool("list_orders", schema(user=TEXT), reads=True),
)
YES = "context.confirmed"
RULES = (
    PERMIT
    + '@id("yes") forbid (principal, action in Action::"all writes", resource) unless { '
    + YES
    + """ };
@id("approval over 500") forbid (principal, action == Action::"send_money", resource)
when { context.arguments.amount > 500 } unless { context.approvals.manager >= 1 };
@id("never to EVIL") forbid (principal, action == Action::"send_money", resource)
when { context.arguments.recipient == "EVIL" };
@id("100 a day") forbid (principal, action == Action::"refund", resource)
when { context.used.day.sum.amount.greaterThan(decimal("99.5")) };
@id("no system files") forbid (principal, action == Action::"delete_file", resource)
when { context.arguments.path like "/etc/*" };
"""
)
POLICY = policy_of(TOOLS, RULES)
BOUNDS: dict[str, Bound] = {"recipient": Is(("ann", "EVIL")), "amount": AtMost(2000), "subject": Is(("rent",))}
MONEY = Line(tool="send_money", arguments=BOUNDS, times=3)


def solved(*lines: Line, policy: CompiledPolicy = POLICY) -> list[PermittedLine]:
    return permitted(Plan(lines=lines), policy, SECONDS)


def test_a_number_is_shown_up_to_what_runs_and_a_value_that_never_runs_is_struck() -> None:
    assert solved(MONEY) == [
        PermittedLine(
            MONEY.replace(arguments={**BOUNDS, "recipient": Is(("ann",)), "amount": AtMost(500)}), {"recipient": ("EVIL",)}
        )
    ]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (Line(tool="send_money", arguments={**BOUNDS, "recipient": Is(("EVIL",))}), "never to EVIL"),
        (Line(tool="send_money", arguments={**BOUNDS, "amount": Is((501, 900))}), "approval over 500"),
        (Line(tool="delete_file", arguments={"path": Is(("/etc/passwd", "/etc/shadow"))}), "no system files"),
        (Line(tool="send_money", arguments={**BOUNDS, "amount": Is((501,)), "recipient": Is(("EVIL",))}), "approval over 500"),
    ],
)
def test_a_line_that_never_runs_is_struck_with_the_rule_that_is_against_it(line: Line, rule: str) -> None:
    found = solved(line, Line(tool="delete_file", arguments={"path": Is(("/tmp/a",))}))
    assert found[0] == PermittedLine(None, rule=rule)
    assert narrowed(Plan(lines=(line,)), found[:1]) is None
    left = narrowed(Plan(lines=(line, line)), found)
    assert left is not None
    assert [one.tool for one in left.lines] == ["delete_file"]


def test_a_decimal_is_bounded_by_the_budget_of_its_day() -> None:
    line = Line(tool="refund", arguments={"order": Is(("W1",)), "amount": AtMost(500)}, times=2)
    (found,) = solved(line)
    assert found.line == line.replace(arguments={"order": Is(("W1",)), "amount": AtMost(99.5)})
    assert largest_sums(Plan(lines=(found.line,)), POLICY) == {("refund", "amount"): Decimal(199)}


def test_the_whole_is_the_sum_over_the_lines_and_each_at_most_its_own_sum() -> None:
    lines = [MONEY, MONEY.replace(arguments={**BOUNDS, "amount": Is((5, 20))}, times=2)]
    assert largest_sums(Plan(lines=tuple(lines)), POLICY) == {("send_money", "amount"): Decimal(6040)}
    summed = MONEY.replace(sum={"amount": Decimal(700)})
    assert largest_sums(Plan(lines=(summed, lines[1])), POLICY) == {("send_money", "amount"): Decimal(740)}


def test_what_is_not_solved_in_time_stays_as_wide_as_it_is() -> None:
    assert permitted(Plan(lines=(MONEY,)), POLICY, 0) == [PermittedLine(MONEY)]
    found = permitted(Plan(lines=(MONEY,) * 7), POLICY, SECONDS)
    assert [one.line == MONEY for one in found] == [False] * 5 + [True] * 2


def test_without_conditions_and_with_one_that_is_not_encoded_a_line_is_as_wide_as_it_is() -> None:
    assert solved(MONEY, policy=policy_of(TOOLS, None)) == [PermittedLine(MONEY)]
    product = "context.arguments.amount * context.arguments.amount > 100"
    rules = f'{PERMIT} forbid (principal, action == Action::"send_money", resource) when {{ {product} }};'
    (found,) = solved(MONEY, policy=policy_of(TOOLS, rules))
    assert found.line is not None


def test_a_tool_that_always_asks_is_within_a_line_of_one_call() -> None:
    line = Line(tool="wipe", arguments={"path": Is(("/tmp/a",))})
    assert solved(line) == [PermittedLine(line)]


NAMES, AMOUNTS = ("ann", "bob", "EVIL"), (0, 5, 50, 499, 500, 501, 3000)


def random_line(random: random.Random) -> Line:
    names = tuple(random.sample(NAMES, random.randint(1, 3)))
    number: Bound = AtMost(random.choice(AMOUNTS)) if random.random() < 0.5 else Is(tuple(random.sample(AMOUNTS, 2)))
    bounds: dict[str, Bound] = {"recipient": Is(names), "amount": number, "subject": Is(("rent",))}
    return Line(tool="send_money", arguments=bounds)


def calls() -> Iterator[FunctionCall]:
    for name in NAMES:
        for amount in AMOUNTS:
            yield FunctionCall("send_money", {"recipient": name, "amount": amount, "subject": "rent"})


def runs(call: FunctionCall) -> bool:
    """True if the guard lets a call run with the user's yes alone."""
    assert POLICY.conditions is not None
    judged = POLICY.conditions.judge(call.name, call.arguments, Situation("ann", (), facts()))
    return judged.needs is None and judged.verdict in (Verdict.RUNS, Verdict.ASKS)


def test_every_call_that_a_random_line_lets_run_is_within_what_is_shown_and_nothing_else_is_added() -> None:
    dice = random.Random(7)
    for _ in range(40):
        line = random_line(dice)
        (found,) = solved(line)
        within = [call for call in calls() if fits(line, call, None, Conversation()) is None]
        shown = [call for call in within if found.line is not None and fits(found.line, call, None, Conversation()) is None]
        assert [call for call in within if runs(call)] == [call for call in shown if runs(call)], line
        for name, values in found.never.items():
            assert not any(runs(call) for call in within if call.arguments[name] in values), (line, name)


def test_nothing_that_the_rules_refuse_becomes_possible_with_a_random_plan() -> None:
    """A plan is a yes to some calls: beside it, the comparison of both policies finds nothing new."""
    dice = random.Random(11)
    for _ in range(12):
        rules = RULES.replace(YES, " || ".join([YES, *(f"({cedar(random_line(dice))})" for _ in range(2))]))
        for found in compare(POLICY, policy_of(TOOLS, rules), SECONDS):
            needed_approval = found.answer is Change.WAITS and found.example and found.example.guard == "asks -> runs"
            assert needed_approval or found.answer in (Change.RUNS, Change.DECIDES_NOTHING), found
            assert found.answer is not Change.RUNS or (found.example and found.example.guard == "asks -> runs"), found


def cedar(line: Line) -> str:
    """Return the bounds of a line as a condition."""
    parts = [f'action == Action::"{line.tool}"']
    for name, bound in line.arguments.items():
        value: Any = f"context.arguments.{name}"
        match bound:
            case Is():
                quoted = ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in bound.values)
                parts.append(f"[{quoted}].contains({value})")
            case AtMost():
                parts.append(f"{value} >= 0 && {value} <= {bound.at_most}")
    return " && ".join(parts)
