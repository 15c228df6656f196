"""The guard: its verdicts, and permission as a value."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.decision import EarlierCall, PendingAction
from graph_agent.models.llm import FunctionCall, ToolDeclaration
from graph_agent.models.record import CallDisposition
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.call_in_hand import GuardVerdict, Setting
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.guard import permitted_read
from graph_agent.policy.past_call import PastCall
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.words.reasons import for_model
from tests.judging import judge_batch
from tests.scripted_turns import READS

PACKAGE = Path(__file__).parents[2] / "graph_agent"
ADD = FunctionCall(name="add_task", arguments={"description": "call mom"})
DELETE = FunctionCall(name="delete_task", arguments={"task_id": "t1"})
LIST = FunctionCall(name="list_tasks", arguments={})


def policy() -> CompiledPolicy:
    traits = {tool.name: ToolTraits(read_only=tool.name in READS, ledger=True) for tool in TASK_TOOLS}
    return compile_policy(Constitution.load(), TASK_TOOLS, traits)


def one_tool(schema: dict[str, Any]) -> CompiledPolicy:
    constitution = Constitution.parse("## Available Tools\n- act: Act\n")
    return compile_policy(constitution, [ToolDeclaration(name="act", description="", parameters=schema)], {})


def judge(*batch: FunctionCall, rules: CompiledPolicy | None = None, **more: Any) -> tuple[GuardVerdict, ...]:
    return judge_batch(batch, policy=rules or policy(), user_id="ann", decision_id="d1", **{"max_calls_per_turn": 10, **more})


def test_a_permitted_call_has_an_operation_key() -> None:
    (judged,) = judge(ADD)
    assert judged.disposition is CallDisposition.EXECUTED
    assert judged.authorized is not None
    assert judged.authorized.operation_key == "d1:1"
    assert judged.authorized.user_id == "ann"
    assert judged.authorized.mutating


def test_only_the_guard_creates_an_authorized_call() -> None:
    with pytest.raises(TypeError, match="only the guard"):
        AuthorizedCall("delete_task", {}, "ann", 1, "k", mutating=True, ledger=True)
    (judged,) = judge(ADD)
    assert judged.authorized is not None
    with pytest.raises(TypeError, match="only the guard"):
        replace(judged.authorized, tool_name="delete_task")
    makers = [path.name for path in PACKAGE.rglob("*.py") if "AuthorizedCall" in _called(path)]
    assert makers == ["guard.py"]


def test_only_the_walk_writes_to_a_call_in_hand() -> None:
    written = {
        (path.name, target.attr)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "hand"
    }
    assert written == {("guard.py", "gate"), ("guard.py", "evidence"), ("guard.py", "found")}


@pytest.mark.parametrize(
    ("method", "users"),
    [
        # The others only implement `execute` of a port, and pass the permission on from there; or they execute SQL.
        # `read_fact` is a port too.
        (
            "execute",
            {
                "graph/authorized.py": {"run_authorized"},
                "turn/external.py": {"send_again"},
                "turn/recorder.py": {"read_fact"},
                "tools/outcomes.py": {"send"},
            },
        ),
        ("read_fact", {"graph/authorized.py": {"read_for_facts"}}),
        # They store the outcome: of a call of the turn, of one that an earlier attempt may have sent, and of one that stayed
        # unknown.
        (
            "settle",
            {
                "graph/authorized.py": {"run_authorized"},
                "turn/external.py": {"send_again", "ask_ledger"},
                "turn/sent_calls.py": {"outcome"},
                "tools/outcomes.py": {"learn_outcome"},
                "chat/settling.py": {"_outcome"},
            },
        ),
        # In `played.py` it is a field.
        (
            "preview",
            {
                "graph/evidence.py": {"_read_object"},
                # There it is a field.
                "policy/gates.py": {"is_previewed"},
                "policy/sentence_check.py": {"_problem_of_place"},
                "words/examples.py": {"example_of"},
                "words/said.py": {"text_of_object"},
                "bootstrap/definitions.py": {"draft_constitution"},
                "tools/played.py": {"play"},
                "chat/approval_looks.py": {"of_viewer"},
            },
        ),
        ("call_tool", {}),
        ("CallToolRequest", {"tools/executor.py": {"_tool_call"}}),
        # The gateway passes on what a result of its client's call links to.
        ("read_resource", {"tools/executor.py": {"preview"}, "gateway/server.py": {"_read_resource"}}),
    ],
)
def test_each_method_that_reaches_a_tool_has_its_one_user(method: str, users: dict[str, set[str]]) -> None:
    found = {path.relative_to(PACKAGE): _users_of(method, path.read_text()) for path in PACKAGE.rglob("*.py")}
    # The task server, the ledger and the server of functions are the other side: they answer calls.
    sides = ("db", "ledger", "task_server", "record", "function_server.py")
    assert {str(path): functions for path, functions in found.items() if functions and not {*path.parts} & {*sides}} == users


def test_only_a_validation_on_a_database_of_its_own_writes_tasks_beside_the_agent() -> None:
    makers = [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if {"CaseTasks", "TaskTools"} & _called(path)]
    assert sorted(makers) == ["bootstrap/validating.py", "task_server/server.py", "task_server/tools.py"]


@pytest.mark.parametrize(
    "planted",
    [
        "async def deliver(tools, call):\n    return await tools.execute(call)",
        "async def deliver(tools, call):\n    send = tools.execute\n    return await send(call)",
        "class Job:\n    async def deliver(self):\n        await self._group.execute(self.call, deadline=1)",
    ],
)
def test_a_new_module_that_calls_a_tool_is_found(planted: str) -> None:
    assert _users_of("execute", planted) == {"deliver"}


def _users_of(method: str, source: str) -> set[str]:
    """Return the functions that use a method, except for implementations of that method and for SQL connections."""
    found = set()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and function != method:
            function = node.name
        on = ast.unparse(node.value) if isinstance(node, ast.Attribute) else ""
        is_sql = on in ("connection", "self._connection", "op")
        if isinstance(node, ast.Attribute) and node.attr == method and not is_sql and function != method:
            found.add(function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(source), "")
    return found


def test_a_read_for_display_is_permitted_without_a_decision() -> None:
    read = FunctionCall(name="list_tasks", arguments={"status": "all"})
    permitted = permitted_read(read, Setting(policy=policy(), user_id="ann"))
    assert permitted is not None
    assert (permitted.tool_name, permitted.user_id, permitted.mutating) == ("list_tasks", "ann", False)
    for call in (ADD, DELETE, FunctionCall(name="list_tasks", arguments={"user_id": "bob"}), FunctionCall(name="drop")):
        assert permitted_read(call, Setting(policy=policy(), user_id="ann")) is None


def _called(path: Path) -> set[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {call.id for call in calls if isinstance(call, ast.Name)} | {
        call.attr for call in calls if isinstance(call, ast.Attribute)
    }


@pytest.mark.parametrize(
    "name",
    ["", "add", "ADD_TASK", "add_task ", "add-task", "аdd_task", "default_api.add_task", "ask_user", "preview", "__class__"],
)
def test_aisvs_9_2_4_only_the_exact_name_is_on_the_whitelist(name: str) -> None:
    (judged,) = judge(FunctionCall(name=name, arguments=ADD.arguments))
    assert (judged.disposition, judged.error_code) == (CallDisposition.REFUSED, ToolErrorCode.TOOL_NOT_FOUND)


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
def test_arguments_must_be_valid_against_the_strict_schema(arguments: dict[str, Any]) -> None:
    (judged,) = judge(FunctionCall(name="add_task", arguments=arguments))
    assert (judged.disposition, judged.error_code) == (CallDisposition.REFUSED, ToolErrorCode.VALIDATION_ERROR)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes"])
def test_arguments_that_are_not_json_are_refused(value: object) -> None:
    broken = FunctionCall.model_construct(name="add_task", arguments={"description": value}, id=None)
    assert judge(broken)[0].error_code is ToolErrorCode.VALIDATION_ERROR


def test_arguments_that_are_not_an_object_are_refused() -> None:
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
def test_the_strict_schema_accepts_every_declared_property(
    schema: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    rules = one_tool(schema)
    assert judge(FunctionCall(name="act", arguments=good), rules=rules)[0].disposition is CallDisposition.EXECUTED
    assert judge(FunctionCall(name="act", arguments=bad), rules=rules)[0].disposition is CallDisposition.REFUSED
    assert rules.declarations[0].parameters == schema


def test_an_invalid_schema_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="not valid JSON Schema"):
        one_tool({"type": "no such type"})


def test_a_listed_tool_that_is_not_served_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="delete_task"):
        compile_policy(Constitution.load(), TASK_TOOLS[:-1], {})


def test_the_own_user_id_is_dropped_and_another_one_refuses() -> None:
    own, other = (ADD.replace(arguments={**ADD.arguments, "user_id": user}) for user in ("ann", "bob"))
    permitted, refused = judge(own, other)
    assert (permitted.disposition, permitted.arguments) == (CallDisposition.EXECUTED, ADD.arguments)
    assert (refused.disposition, refused.error_code) == (CallDisposition.REFUSED, ToolErrorCode.ACCESS_DENIED)


@pytest.mark.parametrize("smuggled", [["ann"], None, 1, "ANN", "ann ", {"user_id": "ann"}])
def test_a_user_id_of_any_other_shape_refuses(smuggled: object) -> None:
    (judged,) = judge(ADD.replace(arguments={**ADD.arguments, "user_id": smuggled}))
    assert judged.error_code is ToolErrorCode.ACCESS_DENIED


def test_at_most_five_calls_a_round_and_ten_a_turn() -> None:
    batch = [FunctionCall(name="add_task", arguments={"description": str(n)}) for n in range(7)]
    assert [judged.disposition for judged in judge(*batch)] == [CallDisposition.EXECUTED] * 5 + [CallDisposition.REFUSED] * 2
    past = [PastCall(n + 1, "list_tasks", {}) for n in range(8)]
    assert [judged.disposition for judged in judge(*batch[:3], past=past)] == [CallDisposition.EXECUTED] * 2 + [
        CallDisposition.REFUSED
    ]


def test_an_identical_write_is_a_repetition_and_a_read_is_not() -> None:
    listing = FunctionCall(name="list_tasks", arguments={})
    again = ADD.replace(arguments={"description": "call mom", "user_id": "ann"})
    judged_calls = judge(ADD, listing, listing, again, past=[PastCall(1, "add_task", {"description": "call mom"})])
    assert [(judged.disposition, judged.repeats) for judged in judged_calls] == [
        (CallDisposition.REPEATED, 1),
        (CallDisposition.EXECUTED, 0),
        (CallDisposition.EXECUTED, 0),
        (CallDisposition.REPEATED, 1),
    ]


def test_a_write_whose_numbers_are_written_otherwise_is_a_repetition_and_true_is_no_number() -> None:
    written = [1, 1.0, True, "1", None, {"n": [1]}, {"n": [1.0]}]
    judged_calls = judge(*[FunctionCall(name="act", arguments={"n": n}) for n in written[:5]], rules=granted(""))
    assert [judged.disposition for judged in judged_calls] == ["executed", "repeated", "executed", "executed", "executed"]
    nested = judge(*[FunctionCall(name="act", arguments={"n": n}) for n in written[5:]], rules=granted(""))
    assert [judged.disposition for judged in nested] == ["executed", "repeated"]


def test_a_change_that_may_have_been_made_is_asked_about_also_with_a_null_more() -> None:
    def repeated(unknown: dict[str, Any], now: dict[str, Any]) -> CallDisposition:
        before = [EarlierCall(tool_name="act", arguments=unknown)]
        return judge(FunctionCall("act", now), rules=granted(""), unknown_before=before)[0].disposition

    same: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        ({}, {"n": None}),
        ({"n": None}, {}),
        ({"n": 1}, {"n": 1.0}),
        ({"n": {"a": 1}}, {"n": {"a": 1, "b": None}}),
    ]
    assert [repeated(*one) for one in same] == ["awaiting"] * len(same)
    others: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, {"n": 1}), ({"n": 1}, {"n": True}), ({"n": [None]}, {"n": []})]
    assert [repeated(*one) for one in others] == ["executed"] * len(others)


def granted(markers: str, **traits: Any) -> CompiledPolicy:
    """A policy with the tool `act`, whose line has `markers`, and the undeclared tool `other`."""
    constitution = Constitution.parse(f"## Available Tools\n- act: Act{markers}\n- other: Act otherwise\n")
    tools = [ToolDeclaration(name=name, description="", parameters={"properties": {"n": {}}}) for name in ("act", "other")]
    return compile_policy(constitution, tools, {"act": ToolTraits(**traits)})


def act(n: int = 0) -> FunctionCall:
    return FunctionCall(name="act", arguments={"n": n})


OTHER = FunctionCall(name="other", arguments={})


@pytest.mark.parametrize(
    ("policy", "verdicts"),
    [
        # A declared read always runs. Anything else runs once, because only a declaration makes a tool a read.
        (granted(" (reads)"), ["executed", "executed", "executed", "executed"]),
        (granted("", read_only=True), ["executed", "executed", "executed", "executed"]),
        (granted("", read_only=False), ["executed", "repeated", "executed", "repeated"]),
        (granted("", ledger=True), ["executed", "repeated", "executed", "repeated"]),
        (granted(" (without confirmation)", destructive=True), ["executed", "repeated", "executed", "repeated"]),
        (granted(""), ["executed", "repeated", "executed", "repeated"]),
    ],
)
def test_an_identical_call_runs_again_as_its_declaration_says(policy: CompiledPolicy, verdicts: list[str]) -> None:
    assert [judged.disposition for judged in judge(act(), act(), OTHER, act(), rules=policy)] == verdicts


def test_a_call_in_between_that_did_not_run_changes_nothing() -> None:
    past = [PastCall(1, "act", {"n": 0}), PastCall(2, "other", {}, may_have_run=False)]
    (judged,) = judge(act(), rules=granted(""), past=past)
    assert (judged.disposition, judged.repeats) == (CallDisposition.REPEATED, 1)


def test_calls_beyond_the_limit_for_one_message_are_refused() -> None:
    rules = granted(" (at most 3 per message)", read_only=False)
    first = judge(act(1), act(2), OTHER, act(3), act(4), rules=rules)
    assert [judged.disposition for judged in first] == ["executed"] * 4 + ["refused"]
    assert for_model(first[-1].reason) == "this can be done at most 3 times for one message"
    past = [PastCall(1, "act", {"n": 1}), PastCall(2, "act", {"n": 2}, may_have_run=False), PastCall(3, "act", {"n": 3})]
    assert [judged.disposition for judged in judge(act(4), act(5), rules=rules, past=past)] == ["executed", "refused"]


def test_a_repetition_beyond_the_limit_gets_the_first_result_and_no_permission() -> None:
    rules = granted(" (at most 1 per message)", read_only=False)
    (judged,) = judge(act(1), rules=rules, past=[PastCall(1, "act", {"n": 1})])
    assert (judged.disposition, judged.repeats, judged.authorized) == (CallDisposition.REPEATED, 1, None)


def test_a_limit_applies_to_reads_too() -> None:
    judged_calls = judge(act(1), act(1), act(1), rules=granted(" (reads) (at most 2 per message)"))
    assert [judged.disposition for judged in judged_calls] == ["executed", "executed", "refused"]


def test_aisvs_9_2_4_a_destructive_tool_without_a_marker_stops_the_start() -> None:
    for markers in ("", " (at most 1 per message)"):
        with pytest.raises(ConfigurationError, match=r"'act' as destructive.*requires confirmation"):
            granted(markers, destructive=True)
    for markers in (" (requires confirmation)", " (without confirmation)"):
        assert granted(markers, destructive=True).rules["act"].mutating


@pytest.mark.parametrize("summary", ["Remove after asking", "Remove pages, HITL", "Remove, verify with user", "Show status"])
def test_aisvs_9_2_4_a_line_for_a_server_that_is_not_trusted_says_whether_the_user_is_asked(summary: str) -> None:
    """The restriction in a summary is enforced by nobody, and neither a hint nor its absence permits anything."""
    declaration = ToolDeclaration(name="act", description="", parameters={})

    def compiled(markers: str) -> CompiledPolicy:
        constitution = Constitution.parse(f"## Available Tools\n- act: {summary}{markers}\n")
        return compile_policy(constitution, [declaration], {"act": ToolTraits(destructive=None)})

    with pytest.raises(ConfigurationError, match=r"'act' is not trusted: .* \(requires confirmation\) or"):
        compiled("")
    for markers in (" (requires confirmation)", " (without confirmation)", " (reads)"):
        assert compiled(markers).rules["act"].title == summary


@pytest.mark.parametrize(
    ("markers", "decision", "writes"),
    [
        (" (reads)", CallDisposition.EXECUTED, False),
        (" (without confirmation)", CallDisposition.EXECUTED, True),
        (" (requires confirmation)", CallDisposition.AWAITING, True),
    ],
)
def test_aisvs_9_2_3_the_class_of_a_tool_is_that_of_its_line_and_no_call_changes_it(
    markers: str, decision: CallDisposition, writes: bool
) -> None:
    """A model that names a class, an approval or a yes in its arguments has only named an argument."""
    policy = granted(markers)
    assert policy.is_write("act") is writes
    for claimed in ({}, {"confirmed": True}, {"requires_confirmation": False, "read_only": True, "approved_by": "bob"}):
        (judged,) = judge(FunctionCall(name="act", arguments={**act(1).arguments, **claimed}), rules=policy)
        assert judged.disposition is (CallDisposition.REFUSED if claimed else decision)


@pytest.mark.parametrize("traits", [{"destructive": True}, {"ledger": True}])
def test_aisvs_9_2_3_a_tool_whose_server_says_that_it_writes_cannot_be_marked_as_a_read(traits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="its server says that it writes"):
        granted(" (reads) (without confirmation)", **traits)


def test_after_a_call_that_needs_confirmation_changes_wait_and_reads_are_left_out() -> None:
    later = FunctionCall(name="add_task", arguments={"description": "later"})
    found = judge(ADD, DELETE, ADD, LIST, later, DELETE)[:5]
    assert [judged.disposition for judged in found] == [
        CallDisposition.EXECUTED,
        CallDisposition.AWAITING,
        CallDisposition.REPEATED,
        CallDisposition.SKIPPED,
        CallDisposition.AWAITING,
    ]
    assert [judged.authorized is None for judged in found] == [False, True, True, True, True]
    assert [judged.disposition for judged in judge(DELETE, DELETE)] == [CallDisposition.AWAITING, CallDisposition.SKIPPED]


def confirmed_action(**changes: Any) -> PendingAction:
    fields = {
        "id": "p1",
        "tool_name": "delete_task",
        "arguments": {"task_id": "t1"},
        "description": "",
        "created_at": "2026-01-05T09:00:00Z",
        "expires_at": "2026-01-05T09:05:00Z",
    }
    return PendingAction.model_validate({**fields, **changes})


def test_a_confirmed_action_permits_exactly_that_call_under_its_own_id() -> None:
    (judged,) = judge(DELETE, confirmed=confirmed_action())
    assert judged.authorized is not None
    assert judged.authorized.operation_key == "p1"
    assert judge(DELETE, confirmed=confirmed_action(arguments={"task_id": "t2"}))[0].disposition is CallDisposition.AWAITING
    assert judge(DELETE, confirmed=confirmed_action(tool_name="add_task"))[0].disposition is CallDisposition.AWAITING


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
requested_calls = st.builds(
    lambda name, arguments: FunctionCall.model_construct(name=name, arguments=arguments, id=None),
    st.sampled_from([tool.name for tool in TASK_TOOLS] + ["ask_user", "", "drop_table"]) | st.text(max_size=12),
    st.dictionaries(st.sampled_from(["description", "task_id", "status", "user_id", "x"]), json_values, max_size=4)
    | json_values,
)


@given(st.lists(requested_calls, max_size=8))
def test_for_any_batch_only_granted_and_valid_calls_are_permitted(batch: list[FunctionCall]) -> None:
    judged_calls = judge(*batch)
    assert [judged.sequence for judged in judged_calls] == list(range(1, len(batch) + 1))
    permitted = [judged for judged in judged_calls if judged.authorized is not None]
    assert len(permitted) <= 5
    for judged in permitted:
        call = judged.authorized
        assert call is not None
        assert call.tool_name in {"add_task", "list_tasks", "update_task", "complete_task"}
        assert call.user_id == "ann"
        assert "user_id" not in call.arguments
        assert policy().rules[call.tool_name].check.first_issue(call.arguments) is None
