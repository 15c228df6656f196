"""Plans: their JSON, which a model writes and a record keeps, and their limits."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from pydantic import ValidationError

from graph_agent.models.mandate import AtMost, Form, From, Is, Line, OwnText, Plan, most_runs

LINE = {
    "tool": "send_money",
    "arguments": {
        "recipient": {"is": ["ann", 3, True, 1.5]},
        "amount": {"at_most": 50},
        "code": {"from": "get_mails", "form": "code"},
        "order": {"from": "list_orders", "at": "$.orders[*].id"},
        "note": {"own_text": True},
    },
    "times": 3,
    "sum": {"amount": "75.50"},
}


def test_a_line_is_read_and_written_as_the_same_json() -> None:
    line = Line.model_validate_json(json.dumps(LINE))
    assert line.to_json() == LINE
    assert line == Line(
        tool="send_money",
        arguments={
            "recipient": Is(("ann", 3, True, 1.5)),
            "amount": AtMost(50),
            "code": From("get_mails", Form.CODE),
            "order": From("list_orders", at="$.orders[*].id"),
            "note": OwnText(),
        },
        times=3,
        sum={"amount": Decimal("75.50")},
    )


def test_the_digest_of_a_plan_covers_its_lines_and_its_time() -> None:
    plan = Plan(lines=(Line(tool="pay"),))
    others = [plan.replace(minutes=5), Plan(lines=(Line(tool="pay", times=2),))]
    assert plan.digest == Plan(lines=(Line(tool="pay"),)).digest
    assert plan.digest not in [other.digest for other in others]


@pytest.mark.parametrize(
    "bound",
    [
        {"anything": True},
        {"is": []},
        {"is": [None]},
        {"is": ["a"], "at_most": 3},
        {"at_most": True},
        {"at_most": -1},
        {"own_text": False},
        {"from": "get_mails", "form": "pattern"},
        {"from": "get_mails", "form": "code", "at": "$.id"},
        {"from": "get_mails", "at_most": 3},
        {"from": "get_mails", "at": "orders"},
    ],
)
def test_an_argument_has_exactly_one_known_bound(bound: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Line.model_validate({"tool": "pay", "arguments": {"a": bound}})


@pytest.mark.parametrize(
    "changes",
    [{"times": 0}, {"times": 21}, {"tool": ""}, {"sum": {"text": 5}}, {"sum": {"amount": "NaN"}}, {"sum": {"amount": -1}}],
)
def test_a_line_has_limits(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Line.model_validate({**LINE, **changes})


def test_a_plan_has_one_to_eight_lines_and_at_most_4000_characters() -> None:
    line, long = Line(tool="pay"), Line(tool="pay", arguments={"text": Is(("x" * 3_900,))})
    assert len(Plan(lines=(line,) * 8).lines) == 8
    for lines in ((), (line,) * 9, (long, line, line, line)):
        with pytest.raises(ValidationError):
            Plan(lines=lines)


def test_a_line_is_exact_if_each_argument_has_one_value() -> None:
    assert Line(tool="pay", arguments={"a": Is((1,))}).is_exact
    assert not Line(tool="pay", arguments={"a": Is((1, 2))}).is_exact
    assert not Line(tool="pay", arguments={"a": AtMost(0)}).is_exact


def test_a_plan_with_one_run_has_the_json_of_one_without_runs() -> None:
    plan = Plan(lines=(Line(tool="pay"),), job="nightly", minutes=2 * 1440)
    assert plan.runs == 1
    assert plan.to_json().keys() == {"lines", "minutes", "job"}
    assert Plan.model_validate({**plan.to_json(), "runs": 1}).digest == plan.digest
    twice = plan.replace(runs=2)
    assert twice.digest != plan.digest
    assert Plan.model_validate_json(json.dumps(twice.to_json())) == twice


@pytest.mark.parametrize(("minutes", "runs"), [(1, 1), (1440, 1), (1441, 2), (2 * 1440, 2), (30 * 1440, 30), (90 * 1440, 90)])
def test_a_standing_plan_has_at_most_one_run_a_day(minutes: int, runs: int) -> None:
    assert most_runs(minutes) == runs
    plan = Plan(lines=(Line(tool="pay"),), job="nightly", minutes=minutes, runs=runs)
    for wider in (runs + 1, 91, 0):
        with pytest.raises(ValidationError):
            plan.replace(runs=wider)


def test_only_a_plan_for_a_job_has_runs() -> None:
    with pytest.raises(ValidationError, match="only a plan for a job has runs"):
        Plan(lines=(Line(tool="pay"),), runs=2)
