"""A plan that narrows another one permits no call that the other one does not: for generated plans and calls."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import AtMost, Bound, Form, From, Is, Line, OwnText, Plan
from graph_agent.models.sources import CallSources, FoundSource, ReadCall, Source
from graph_agent.models.tools import ToolResult
from graph_agent.policy.mandate import Conversation, fits
from graph_agent.policy.narrowing import narrowed_lines, narrows

VALUES = ["A1", "B2", "plain", 1, 7, True, "x@shop.example"]
TOOLS = ["pay", "ship"]
READ = Conversation(
    since=[
        ReadCall("mails", {}, ToolResult(success=True, data={"code": "A1", "n": 7, "text": "plain", "to": "x@shop.example"})),
        ReadCall("orders", {}, ToolResult(success=True, data={"id": "B2"})),
    ],
    said=["write to somebody at shop.example"],
)
FROM = st.one_of(
    st.sampled_from([From(tool, form) for tool in ("mails", "orders") for form in (None, *Form)]),
    st.integers(0, 9).map(lambda most: From("mails", Form.NUMBER, at_most=most)),
)
BOUNDS: st.SearchStrategy[Bound] = st.one_of(
    st.builds(lambda values: Is(tuple(values)), st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)),
    st.integers(0, 9).map(lambda most: AtMost(most)),
    FROM,
    st.just(From("mails", at="$.code")),
    st.just(OwnText()),
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b"]), BOUNDS, max_size=2)


def with_sum(line: Line, limit: int | None) -> Line:
    is_number = isinstance(line.arguments.get("a"), AtMost)
    return line.replace(sum={"a": Decimal(limit)}) if is_number and limit is not None else line


LINES = st.builds(
    with_sum,
    st.builds(lambda tool, arguments, times: Line(tool=tool, arguments=arguments, times=times),
              st.sampled_from(TOOLS), ARGUMENTS, st.integers(1, 3)),
    st.none() | st.integers(0, 9),
)  # fmt: skip
PLANS = st.builds(
    lambda lines, minutes: Plan(lines=tuple(lines), minutes=minutes), st.lists(LINES, min_size=1, max_size=3), st.integers(1, 5)
)
CALLS = st.builds(
    lambda tool, arguments: FunctionCall(name=tool, arguments=arguments),
    st.sampled_from(TOOLS),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([*VALUES, None, ["A1", "B2"]]), max_size=2),
)
SOURCES = st.sampled_from([None, CallSources(), CallSources(arguments={"a": [FoundSource(source=Source.UNTRUSTED)]})])


@given(PLANS, PLANS, st.lists(CALLS, min_size=1, max_size=8), SOURCES)
@settings(max_examples=1_000)
def test_what_fits_a_narrower_plan_fits_the_wider_one(plan: Plan, proposed: Plan, calls: list[Any], sources: Any) -> None:
    if narrows(plan, proposed) is not None:
        return
    assert proposed.minutes <= plan.minutes
    found = narrowed_lines(plan, proposed)
    # Each line narrows another one: so together they permit no more calls.
    assert len(set(found)) == len(found)
    for line, at in zip(proposed.lines, found, strict=True):
        assert at is not None
        wider = plan.lines[at]
        assert line.times <= wider.times
        assert all(line.sum[name] <= limit for name, limit in wider.sum.items())
        for call in calls:
            assert fits(line, call, sources, READ) is not None or fits(wider, call, sources, READ) is None


@given(PLANS, st.data())
def test_a_plan_narrows_itself_and_every_plan_with_more(plan: Plan, data: st.DataObject) -> None:
    assert narrows(plan, plan) is None
    kept = data.draw(st.lists(st.sampled_from(range(len(plan.lines))), min_size=1, unique=True).map(sorted))
    fewer = plan.replace(lines=tuple(plan.lines[at].replace(times=1) for at in kept), minutes=1)
    assert narrows(plan, fewer) is None


def pay(**arguments: Bound) -> Line:
    return Line(tool="pay", arguments=arguments)


def plan_of(*lines: Line) -> Plan:
    return Plan(lines=lines)


@pytest.mark.parametrize(("runs", "why"), [(7, None), (1, None), (8, "It has 8 runs, and at most 7 are possible.")])
def test_a_standing_plan_with_more_runs_is_no_narrower_one(runs: int, why: str | None) -> None:
    plan = Plan(lines=(pay(a=AtMost(5)),), minutes=10 * 1440, job="nightly", runs=7)
    assert narrows(plan, plan.replace(runs=runs)) == why


CODE, ORDERS = From("mails", Form.CODE), From("orders", Form.CODE)


@pytest.mark.parametrize(
    ("bound", "narrower", "wider"),
    [
        (Is(("A1", "B2")), [Is(("B2",)), Is(("B2", "A1"))], [Is(("A1", "C3")), AtMost(1), CODE, OwnText()]),
        (Is((1,)), [Is((1.0,))], [Is((True,)), AtMost(1)]),
        (AtMost(5), [AtMost(5), AtMost(4.5), Is((0, 5))], [AtMost(5.1), Is((6,)), Is(("5",)), Is((-1,)), Is((True,))]),
        (From("mails"), [CODE, From("mails", at="$.code"), From("mails")], [ORDERS, Is(("A1",)), OwnText()]),
        (CODE, [CODE], [From("mails"), From("mails", Form.LINK), From("mails", at="$.code")]),
        (
            From("mails", Form.NUMBER, at_most=7),
            [From("mails", Form.NUMBER, at_most=6)],
            [From("mails", Form.NUMBER), From("mails", Form.NUMBER, at_most=8)],
        ),
        (OwnText(), [OwnText()], [Is(("A1",)), From("mails")]),
    ],
)
def test_what_narrows_a_bound(bound: Bound, narrower: list[Bound], wider: list[Bound]) -> None:
    def why(one: Bound) -> str | None:
        return narrows(plan_of(pay(a=bound)), plan_of(pay(a=one)))

    assert [one for one in narrower if why(one) is not None] == []
    assert [one for one in wider if why(one) is None] == []


def test_a_line_that_leaves_out_an_argument_or_a_sum_is_no_narrower_one() -> None:
    line = pay(a=AtMost(5), b=Is(("A1",))).replace(times=2, sum={"a": Decimal(7)})
    whole = plan_of(line)
    assert narrows(whole, plan_of(line.replace(sum={"a": Decimal(6)}))) is None
    for wider in (line.replace(sum={}), line.replace(arguments={"a": AtMost(5)}), line.replace(times=3)):
        assert narrows(whole, plan_of(wider)) is not None
    other = line.replace(tool="ship")
    assert narrows(plan_of(line, other), plan_of(other, line)) is not None
