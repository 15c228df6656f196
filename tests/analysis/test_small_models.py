"""The number of questions of an example: as many as what it must have, not as what its tool could have."""

from __future__ import annotations

from typing import Any

import pytest
import z3

from graph_agent.analysis.questions import Answer, explain
from graph_agent.analysis.small_models import MAX_QUESTIONS
from tests.policy.cedar_shop import PERMIT, SHOP, TEXT, ShopTool, policy_of, schema

SECONDS = 300.0
"""A limit that no machine reaches."""
_NEEDS_YES = PERMIT + '@id("a yes") forbid (principal, action in Action::"all writes", resource) unless { context.confirmed };'
_BOX = {
    "type": "object",
    "properties": {
        name: {"type": "string", "enum": [f"{name} one", f"{name} two", f"{name} three"]} for name in ("kind", "align", "style")
    },
    "required": ["kind"],
}
_LAYOUT = {"type": "object", "properties": {f"part_{number}": _BOX for number in range(20)}}
"""A layout of messages: many texts of a few words each, nearly all of them optional."""


class Questions:
    """Counts what the solver is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        check = z3.Solver.check

        def counted(solver: z3.Solver, *assumptions: Any) -> z3.CheckSatResult:
            self.asked += 1
            return check(solver, *assumptions)

        # The solver itself is asked: only the questions are counted.
        monkeypatch.setattr(z3.Solver, "check", counted)


def test_an_example_does_not_ask_about_each_text_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    push = ShopTool("push", schema("to", "layout", to=TEXT, layout=_LAYOUT))
    policy = policy_of([push], _NEEDS_YES)
    questions = Questions(monkeypatch)
    [found] = explain(policy, SECONDS)
    assert (found.answer, found.with_yes, found.is_certain) == (Answer.NEVER, Answer.ALWAYS, True)
    assert found.example is not None
    assert found.example.arguments == {"to": "", "layout": {}}
    assert questions.asked < 40


def test_an_example_does_not_ask_about_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [ShopTool(f"set_{number}", schema("to", to=TEXT)) for number in range(40)]
    policy = policy_of(tools, _NEEDS_YES)
    questions = Questions(monkeypatch)
    assert all(one.with_yes is Answer.ALWAYS and one.is_certain for one in explain(policy, SECONDS))
    assert questions.asked < 30 * len(tools)


def test_an_example_of_a_hard_tool_ends_after_a_fixed_number_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = {
        **_LAYOUT,
        "properties": {f"part_{number}": {**_BOX, "required": list(_BOX["properties"])} for number in range(30)},
    }
    needed = {**layout, "required": list(layout["properties"])}
    policy = policy_of([ShopTool("push", schema("layout", layout=needed))], _NEEDS_YES)
    questions = Questions(monkeypatch)
    [found] = explain(policy, SECONDS)
    assert (found.with_yes, found.is_certain) == (Answer.ALWAYS, True)
    assert questions.asked <= MAX_QUESTIONS + 10


def test_the_items_of_a_list_that_no_condition_sees_are_one_of_their_alternatives() -> None:
    kinds = [{**schema("kind", kind={"const": kind, "type": "string"}, **{kind: TEXT})} for kind in ("link", "text")]
    actions = {"type": "array", "items": {"anyOf": kinds}, "minItems": 1, "maxItems": 6}
    policy = policy_of([ShopTool("menu", schema("actions", actions=actions)), SHOP[0]], _NEEDS_YES)
    found = next(one for one in explain(policy, SECONDS) if one.name == "menu")
    assert found.is_certain
    assert found.example is not None
    assert found.example.arguments == {"actions": [{"kind": "link"}]}
