"""The guard: pure judgements, and permission as a value."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.llm.declarations import TASK_TOOLS
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import AuthorizedCall, Judgement, PastCall, Verdict, judge_batch
from graph_agent.policy.rules import Policy, compile_policy
from tests.turns import READS

PACKAGE = Path(__file__).parents[2] / "graph_agent"
ADD = FunctionCall(name="add_task", arguments={"description": "call mom"})
DELETE = FunctionCall(name="delete_task", arguments={"task_id": "t1"})


def policy() -> Policy:
    traits = {tool.name: ToolTraits(read_only=tool.name in READS, ledger=True) for tool in TASK_TOOLS}
    return compile_policy(Constitution.load(), TASK_TOOLS, traits)


def one_tool(schema: dict[str, Any]) -> Policy:
    constitution = Constitution.parse("## Available Tools\n- act: Act\n")
    return compile_policy(constitution, [ToolDeclaration(name="act", description="", parameters=schema)], {})


def judge(*batch: FunctionCall, rules: Policy | None = None, **more: Any) -> tuple[Judgement, ...]:
    return judge_batch(batch, policy=rules or policy(), user_id="ann", decision_id="d1", **{"max_calls_per_turn": 10, **more})


def test_a_permitted_call_carries_its_key() -> None:
    (judgement,) = judge(ADD)
    assert judgement.verdict is Verdict.PERMITTED
    assert judgement.authorized is not None
    assert judgement.authorized.operation_key == "d1:1"
    assert judgement.authorized.user_id == "ann"
    assert judgement.authorized.mutating


def test_only_the_guard_makes_an_authorized_call() -> None:
    with pytest.raises(TypeError, match="only the guard"):
        AuthorizedCall("delete_task", {}, "ann", 1, "k", mutating=True, ledger=True)
    makers = [path.name for path in PACKAGE.rglob("*.py") if "AuthorizedCall" in _called(path)]
    assert makers == ["guard.py"]


def test_only_run_authorized_sends_a_call() -> None:
    """Outside the ports themselves, `execute` of the turn's ports is called in one file."""
    graph = PACKAGE / "graph"
    assert {path.name for path in graph.rglob("*.py") if {"execute", "settle"} & _called(path)} == {"authorized.py"}


def _called(path: Path) -> set[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)} | {
        call.attr for call in calls if isinstance(call, ast.Attribute)
    }


@pytest.mark.parametrize(
    "name",
    ["", "add", "ADD_TASK", "add_task ", "add-task", "аdd_task", "default_api.add_task", "ask_user", "preview", "__class__"],
)
def test_only_the_exact_name_is_on_the_whitelist(name: str) -> None:
    (judgement,) = judge(FunctionCall(name=name, arguments=ADD.arguments))
    assert (judgement.verdict, judgement.error_code) == (Verdict.REFUSED, ToolErrorCode.TOOL_NOT_FOUND)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"description": 7},
        {"description": None},
        {"description": ["call mom"]},
        {"description": "call mom", "priority": "high"},
        {"Description": "call mom"},
        {"description": "x" * 17_000},
        {"description": "call mom", "deep": {"a": {"b": {"c": {"d": {"e": 1}}}}}},
    ],
)
def test_arguments_must_fit_the_closed_schema(arguments: dict[str, Any]) -> None:
    (judgement,) = judge(FunctionCall(name="add_task", arguments=arguments))
    assert (judgement.verdict, judgement.error_code) == (Verdict.REFUSED, ToolErrorCode.VALIDATION_ERROR)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_arguments_that_are_no_json_are_refused(value: object) -> None:
    broken = FunctionCall.model_construct(name="add_task", arguments={"description": value}, id=None)
    assert judge(broken)[0].error_code is ToolErrorCode.VALIDATION_ERROR


def test_arguments_that_are_no_object_are_refused() -> None:
    broken = FunctionCall.model_construct(name="add_task", arguments=["call mom"], id=None)
    assert judge(broken)[0].error_code is ToolErrorCode.VALIDATION_ERROR


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]},
            {"a": 1, "b": "x"},
            {"a": 1, "c": 1},
        ),
        (
            {"type": "object", "properties": {"who": {"type": "object", "properties": {"name": {"type": "string"}}}}},
            {"who": {"name": "x"}},
            {"who": {"name": "x", "admin": True}},
        ),
        (
            {"$defs": {"p": {"properties": {"x": {"type": "number"}}}}, "$ref": "#/$defs/p"},
            {"x": 1.5},
            {"x": 1.5, "y": 2},
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"any": 1}, {"any": "one"}),
        (
            {"type": "object", "properties": {"rows": {"type": "array", "items": {"type": "object", "properties": {"n": {}}}}}},
            {"rows": [{"n": 1}]},
            {"rows": [{"n": 1, "m": 2}]},
        ),
        ({"type": "object", "properties": {"free": {"type": "object"}}}, {"free": {"x": 1}}, {"other": 1}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 3.0}, {"n": 3.5}),
    ],
)
def test_a_schema_is_closed_without_breaking_what_it_declares(
    schema: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    rules = one_tool(schema)
    assert judge(FunctionCall(name="act", arguments=good), rules=rules)[0].verdict is Verdict.PERMITTED
    assert judge(FunctionCall(name="act", arguments=bad), rules=rules)[0].verdict is Verdict.REFUSED
    assert rules.declarations[0].parameters == schema


def test_a_schema_that_is_none_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="not valid JSON Schema"):
        one_tool({"type": "no such type"})


def test_a_listed_tool_that_is_not_served_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="delete_task"):
        compile_policy(Constitution.load(), TASK_TOOLS[:-1], {})


def test_the_own_user_id_is_dropped_and_another_one_refuses() -> None:
    own, other = (ADD.replace(arguments={**ADD.arguments, "user_id": user}) for user in ("ann", "bob"))
    permitted, refused = judge(own, other)
    assert (permitted.verdict, permitted.arguments) == (Verdict.PERMITTED, ADD.arguments)
    assert (refused.verdict, refused.error_code) == (Verdict.REFUSED, ToolErrorCode.ACCESS_DENIED)


@pytest.mark.parametrize("smuggled", [["ann"], None, 1, "ANN", "ann ", {"user_id": "ann"}])
def test_a_user_id_of_any_other_shape_refuses(smuggled: object) -> None:
    (judgement,) = judge(ADD.replace(arguments={**ADD.arguments, "user_id": smuggled}))
    assert judgement.error_code is ToolErrorCode.ACCESS_DENIED


def test_at_most_five_calls_a_round_and_ten_a_turn() -> None:
    batch = [FunctionCall(name="add_task", arguments={"description": str(n)}) for n in range(7)]
    assert [judgement.verdict for judgement in judge(*batch)] == [Verdict.PERMITTED] * 5 + [Verdict.REFUSED] * 2
    past = [PastCall(n + 1, "list_tasks", {}) for n in range(8)]
    assert [judgement.verdict for judgement in judge(*batch[:3], past=past)] == [Verdict.PERMITTED] * 2 + [Verdict.REFUSED]


def test_an_identical_write_is_a_repetition_and_a_read_is_not() -> None:
    listing = FunctionCall(name="list_tasks", arguments={})
    again = ADD.replace(arguments={"description": "call mom", "user_id": "ann"})
    judgements = judge(ADD, listing, listing, again, past=[PastCall(1, "add_task", {"description": "call mom"})])
    assert [(judgement.verdict, judgement.repeats) for judgement in judgements] == [
        (Verdict.REPEATED, (1,)),
        (Verdict.PERMITTED, ()),
        (Verdict.PERMITTED, ()),
        (Verdict.REPEATED, (1, 2)),
    ]


def test_a_call_that_needs_confirmation_stops_the_batch() -> None:
    assert [judgement.verdict for judgement in judge(ADD, DELETE, ADD)] == [
        Verdict.PERMITTED,
        Verdict.AWAITING,
        Verdict.SKIPPED,
    ]


def consent(**changes: Any) -> PendingAction:
    fields = {
        "id": "p1",
        "tool_name": "delete_task",
        "arguments": {"task_id": "t1"},
        "description": "",
        "created_at": "2026-01-05T09:00:00Z",
        "expires_at": "2026-01-05T09:05:00Z",
    }
    return PendingAction.model_validate({**fields, **changes})


def test_consent_permits_exactly_that_call_under_its_own_id() -> None:
    (judgement,) = judge(DELETE, consent=consent())
    assert judgement.authorized is not None
    assert judgement.authorized.operation_key == "p1"
    assert judge(DELETE, consent=consent(arguments={"task_id": "t2"}))[0].verdict is Verdict.AWAITING
    assert judge(DELETE, consent=consent(tool_name="add_task"))[0].verdict is Verdict.AWAITING


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
wishes = st.builds(
    lambda name, arguments: FunctionCall.model_construct(name=name, arguments=arguments, id=None),
    st.sampled_from([tool.name for tool in TASK_TOOLS] + ["ask_user", "", "drop_table"]) | st.text(max_size=12),
    st.dictionaries(st.sampled_from(["description", "task_id", "status", "user_id", "x"]), json_values, max_size=4)
    | json_values,
)


@given(st.lists(wishes, max_size=8))
def test_whatever_a_model_asks_for_only_what_may_be_is_permitted(batch: list[FunctionCall]) -> None:
    judgements = judge(*batch)
    assert [judgement.sequence for judgement in judgements] == list(range(1, len(batch) + 1))
    permitted = [judgement for judgement in judgements if judgement.authorized is not None]
    assert len(permitted) <= 5
    for judgement in permitted:
        call = judgement.authorized
        assert call is not None
        assert call.tool_name in {"add_task", "list_tasks", "update_task", "complete_task"}
        assert call.user_id == "ann"
        assert "user_id" not in call.arguments
        assert policy().rules[call.tool_name].check.slip(call.arguments) is None
