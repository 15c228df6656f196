from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from graph_agent.agent_service import ToolBinding, bind_mcp_tools, shared_services
from graph_agent.agent_service.tool_binding import BoundTools, McpTool
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from tests.permission import permitted
from tests.scripted_turns import TableServer


def schema(name: str = "add_task", **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Adds.", **function}}


async def nothing(**_: Any) -> None:
    return None


def bound(name: str, reference: Any) -> ToolBinding:
    return ToolBinding(tool_name=name, openai_function_schema=schema(name), mcp_tool_reference=reference)


def test_a_schema_and_a_function_make_a_binding() -> None:
    binding = bound("add_task", nothing)
    assert (binding.tool_name, binding.openai_function_schema, binding.mcp_tool_reference) == ("add_task", schema(), nothing)
    assert len({binding, bound("add_task", nothing)}) == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"openai_function_schema": {"type": "function"}}, "Schema must have 'type' and 'function' keys"),
        ({"openai_function_schema": {"function": {}}}, "Schema must have 'type' and 'function' keys"),
        ({"openai_function_schema": {}}, "Schema must have 'type' and 'function' keys"),
        ({"openai_function_schema": {**schema(), "type": "tool"}}, "Schema type must be 'function'"),
        ({"openai_function_schema": {"type": "function", "function": "add_task"}}, "Schema function must be an object"),
        ({"mcp_tool_reference": "add_task"}, "mcp_tool_reference must be callable"),
        ({"mcp_tool_reference": None}, "mcp_tool_reference must be callable"),
        ({"tool_name": "other"}, "tool_name must match the name in the schema"),
        ({"tool_name": ""}, "at least 1 character"),
    ],
)
def test_what_is_no_binding_is_refused(given: dict[str, Any], sentence: str) -> None:
    whole = {"tool_name": "add_task", "openai_function_schema": schema(), "mcp_tool_reference": nothing}
    with pytest.raises(ValidationError, match=sentence):
        ToolBinding(**{**whole, **given})


def test_the_model_is_not_asked_for_the_user() -> None:
    parameters = {
        "type": "object",
        "properties": {"user_id": {"type": "string"}, "title": {"type": "string"}},
        "required": ["user_id", "title"],
    }
    binding = ToolBinding(
        tool_name="add_task", openai_function_schema=schema(parameters=parameters), mcp_tool_reference=nothing
    )
    without_user = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    assert binding.declaration == ToolDeclaration(name="add_task", description="Adds.", parameters=without_user)
    assert "user_id" in parameters["properties"]


def test_a_function_without_words_is_declared_all_the_same() -> None:
    binding = ToolBinding(
        tool_name="ping", openai_function_schema={"type": "function", "function": {}}, mcp_tool_reference=nothing
    )
    nothing_to_give = {"type": "object", "properties": {}}
    assert binding.declaration == ToolDeclaration(name="ping", description="ping", parameters=nothing_to_give)


async def test_bindings_are_what_the_server_lists() -> None:
    async with shared_services() as agent_services:
        bindings = await bind_mcp_tools()
        served = agent_services.tools.declarations()
    assert [binding.declaration for binding in bindings] == served
    assert [binding.tool_name for binding in bindings] == [
        "add_task", "list_tasks", "update_task", "complete_task", "delete_task",
    ]  # fmt: skip
    assert bindings[0].openai_function_schema == {
        "type": "function",
        "function": {
            "name": "add_task",
            "description": "Create a new task. Use when user wants to add, create, or remember something.",
            "parameters": {
                "type": "object",
                "properties": {"description": {"type": "string", "description": "Task description"}},
                "required": ["description"],
            },
        },
    }


async def test_a_reference_calls_the_tool_for_the_user_it_is_given() -> None:
    tools = {binding.tool_name: binding.mcp_tool_reference for binding in await bind_mcp_tools()}
    added = await tools["add_task"](user_id="ann", description="call mom")
    assert added["success"]
    assert (await tools["list_tasks"](user_id="ann"))["data"]["count"] == 1
    assert (await tools["list_tasks"](user_id="bob"))["data"]["count"] == 0
    refused = await tools["add_task"](user_id="ann", description="")
    assert (refused["success"], refused["error_code"]) == (False, ToolErrorCode.VALIDATION_ERROR)


async def test_the_tools_of_any_server_can_be_bound() -> None:
    server = TableServer({"list_tasks": ToolResult(success=True, data={"tasks": []})})
    bindings = await bind_mcp_tools(server)
    tools = BoundTools(bindings, TableServer())
    assert await tools.start()
    assert tools.get_available_tools() == server.get_available_tools()
    assert [tools.traits(name) for name in tools.get_available_tools()] == [
        server.traits(name) for name in server.get_available_tools()
    ]
    result = await tools.execute(permitted("list_tasks", {}, "ann", "k"), deadline=1)
    assert result == ToolResult(success=True, data={"tasks": []})
    assert server.sent == [("list_tasks", {}, "ann", "k")]


async def test_a_server_that_does_not_answer_cannot_be_bound() -> None:
    class Away(TableServer):
        async def start(self) -> bool:
            return False

    with pytest.raises(ConfigurationError, match="the tool server does not answer"):
        await bind_mcp_tools(Away())


def failing(**_: Any) -> Any:
    raise RuntimeError("the disk is on fire")


def giving(answer: Any) -> Any:
    async def tool(**_: Any) -> Any:
        return answer

    return tool


LATE = ToolResult(success=False, error="too late", error_code=ToolErrorCode.TIMEOUT_ERROR)


@pytest.mark.parametrize(
    ("reference", "result"),
    [
        (giving({"id": 7}), ToolResult(success=True, data={"id": 7})),
        (giving([1, 2]), ToolResult(success=True, data=[1, 2])),
        (giving("done"), ToolResult(success=True, data={"result": "done"})),
        (giving(None), ToolResult(success=True, data={"result": None})),
        (giving(LATE), LATE),
        (giving({"success": True, "data": {"id": 7}}), ToolResult(success=True, data={"id": 7})),
        (giving({"success": True, "data": 7}), ToolResult(success=True, data={"result": 7})),
        (giving({"success": True, "id": 7}), ToolResult(success=True, data={"id": 7})),
        (
            giving({"success": False, "error": "no such task", "error_code": "NOT_FOUND"}),
            ToolResult(success=False, error="no such task", error_code=ToolErrorCode.NOT_FOUND),
        ),
        (
            giving({"success": False, "error_code": "E42"}),
            ToolResult(success=False, error="The tool reported a failure.", error_code=ToolErrorCode.TOOL_EXECUTION_ERROR),
        ),
        (lambda **_: {"id": 7}, ToolResult(success=True, data={"id": 7})),
    ],
)
async def test_what_a_function_answers_becomes_a_result(reference: Any, result: ToolResult) -> None:
    tools = BoundTools([bound("add_task", reference)], TableServer())
    assert await tools.execute(permitted("add_task", {}, "ann"), deadline=0.05) == result


async def test_an_exception_of_a_function_reaches_the_engine() -> None:
    with pytest.raises(RuntimeError, match="the disk is on fire"):
        await BoundTools([bound("add_task", failing)], TableServer()).execute(permitted("add_task", {}, "ann"))


def test_a_binding_that_reads_is_a_read_whatever_its_server_declares() -> None:
    look, add = bound("look", nothing).replace(reads=True), bound("add_task", McpTool("add_task")).replace(reads=True)
    tools = BoundTools([look, add], TableServer())
    assert tools.traits("look") == ToolTraits(read_only=True)
    assert tools.traits("add_task") == TableServer().traits("add_task").replace(read_only=True)


async def test_a_plain_function_has_no_traits() -> None:
    tools = BoundTools([bound("add_task", nothing)], TableServer())
    assert tools.traits("add_task") == ToolTraits()
    assert (await tools.settle(permitted("add_task", {}, "ann", "k"))).unknown
    assert not (await tools.preview("add_task", {}, "ann")).success
    assert (await tools.execute(permitted("other", {}, "ann"))).error_code is ToolErrorCode.TOOL_NOT_FOUND


def test_two_bindings_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two bindings are named 'add_task'"):
        BoundTools([bound("add_task", nothing), bound("add_task", failing)], TableServer())
