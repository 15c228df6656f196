"""Which plans can be asked about."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.bootstrap.plan_bounds import plan_bounds
from graph_agent.bootstrap.policies import explained_conditions
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.plan_check import PlanError, payees_of, read_plan

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = {
    "pay": ({"to": TEXT, "amount": NUMBER, "user": TEXT, "user_id": TEXT}, "(in plans) (user is the signed-in user)"),
    "wipe": ({"id": TEXT}, "(in plans) (requires confirmation)"),
    "log_in": ({"code": TEXT}, "(in plans, only with a form)"),
    "drop": ({"id": TEXT}, ""),
    "mails": ({}, "(reads)"),
    "orders": ({}, "(reads)"),
    "bank": ({}, "(reads) (trusted results)"),
}


def policy(*names: str) -> CompiledPolicy:
    lines = "\n".join(f"- {name}: Act {TOOLS[name][1]}".rstrip() for name in names)
    declarations = [
        ToolDeclaration(name=name, description="", parameters={"type": "object", "properties": TOOLS[name][0]})
        for name in names
    ]
    traits = {"orders": ToolTraits(output={"type": "object"})}
    return compile_policy(Constitution.parse(f"## Available Tools\n{lines}\n"), declarations, traits)


def problem(tool: str, times: Any = 1, sum: Any = None, **arguments: Any) -> str | None:  # noqa: A002 (the name in the form)
    line = {"tool": tool, "arguments": arguments, "times": times, **({"sum": sum} if sum else {})}
    try:
        read_plan({"lines": [line]}, policy(*TOOLS))
    except PlanError as exc:
        return str(exc)
    return None


ANN, SOME = {"is": ["ann"]}, {"at_most": 5}


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("pay", {"to": ANN, "amount": SOME}, None),
        ("pay", {"to": {"from": "bank"}, "amount": SOME}, None),
        ("pay", {"to": {"from": "mails", "form": "code"}}, "line 1: to says who gets money: it is a value that"),
        ("pay", {"note": ANN}, "line 1: pay has no argument note"),
        ("pay", {"user": ANN}, "line 1: the runtime sets user"),
        ("pay", {"to": {"from": "nothing"}}, "line 1: there is no tool nothing"),
        ("pay", {"to": {"anything": True}}, "lines.0.arguments.to: what an argument may be is one of"),
        ("pay", {"to": ANN, "sum": {"to": 5}}, "line 1: to is no number, and has no sum"),
        ("pay", {"amount": SOME, "sum": {"amount": 9}}, None),
        ("pay", {"amount": SOME, "sum": {"amount": "1e999999"}}, "lines.0.sum: a sum is a number from 0 on"),
        ("pay", {"amount": SOME, "sum": {"amount": "1e-999999"}}, "lines.0.sum: a sum is a number from 0 on"),
        ("pay", {"times": 21}, "lines.0.times: Input should be less than or equal to 20"),
        ("wipe", {"id": ANN, "times": 2}, None),
        ("wipe", {"id": {"is": ["a", "b"]}}, "line 1: wipe needs exactly one value for each argument"),
        ("wipe", {"id": {"own_text": True}}, "line 1: wipe needs exactly one value for each argument"),
        ("log_in", {"code": {"from": "mails", "form": "code"}}, None),
        ("log_in", {"code": {"from": "mails"}}, "line 1: code needs a form or a path"),
        ("log_in", {"code": {"from": "orders", "at": "$.code"}}, None),
        ("log_in", {"code": {"from": "mails", "at": "$.code"}}, "line 1: mails declares no results"),
        ("drop", {"id": ANN}, "line 1: drop is in no plan"),
        ("unknown", {}, "line 1: unknown is in no plan"),
    ],
)
def test_a_plan_is_asked_about_only_if_the_rules_admit_its_lines(tool: str, arguments: dict[str, Any], why: str | None) -> None:
    found = problem(tool, **arguments)
    assert found == why if why is None else str(found).startswith(why)


def test_who_gets_money_is_read_from_the_names_of_the_arguments() -> None:
    names = ("recipient", "toAccount", "iban", "payee_name", "amount", "note", "total_days", "today")
    parameters = {"type": "object", "properties": dict.fromkeys(names, TEXT)}
    constitution = Constitution.parse("## Available Tools\n- send: Send\n")
    send = ToolDeclaration(name="send", description="", parameters=parameters)
    assert payees_of(compile_policy(constitution, [send], {}).rules["send"]) == ("recipient", "toAccount", "iban", "payee_name")
    without = ToolDeclaration(name="send", description="", parameters={"type": "object", "properties": {"to": TEXT}})
    assert payees_of(compile_policy(constitution, [without], {}).rules["send"]) == ()


def test_the_check_of_the_rules_says_what_every_line_of_a_plan_is_bound_to() -> None:
    rules = policy(*TOOLS).rules
    assert {name: list(plan_bounds(rule)) for name, rule in rules.items() if rule.grant.in_plans} == {
        "pay": ["up to 20 calls a line", "with 'to', who gets money, never from a result that others can write"],
        "wipe": ["up to 20 calls a line", "with exactly one value for each argument"],
        "log_in": ["up to 20 calls a line", "with values from results only in a form"],
    }
    explained = policy(*TOOLS).with_conditions(ConditionsFile("permit (principal, action, resource);"))
    assert "  a plan may cover it: up to 20 calls a line, with exactly one value for each argument" in explained_conditions(
        explained
    )
