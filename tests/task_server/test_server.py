"""The task server through an MCP client."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, cast

import jsonschema
import pytest
from mcp import Client, MCPError
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    ListResourcesResult,
    PaginatedRequestParams,
    RequestParamsMeta,
    TextContent,
    TextResourceContents,
    Tool,
)

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.db import Database, migrate
from graph_agent.task_server.server import build_task_server

CONTRACT: list[dict[str, Any]] = [
    {
        "name": "add_task",
        "description": "Create a new task. Use when user wants to add, create, or remember something.",
        "parameters": {
            "type": "object",
            "properties": {"description": {"type": "string", "description": "Task description"}},
            "required": ["description"],
        },
    },
    {
        "name": "list_tasks",
        "description": "Get user's tasks. Use when user wants to see, view, or list their tasks.",
        "parameters": {
            "type": "object",
            "properties": {
                "status": {
                    "type": "string",
                    "enum": ["pending", "completed", "all"],
                    "description": "Filter by status (default: all)",
                }
            },
        },
    },
    {
        "name": "update_task",
        "description": "Update a task's description. Use when user wants to change, edit, or rename a task.",
        "parameters": {
            "type": "object",
            "properties": {
                "task_id": {"type": "string", "description": "Task ID to update"},
                "description": {"type": "string", "description": "New description"},
            },
            "required": ["task_id", "description"],
        },
    },
    {
        "name": "complete_task",
        "description": "Mark a task as completed. Use when user says done, finished, or completed.",
        "parameters": {
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to complete"}},
            "required": ["task_id"],
        },
    },
    {
        "name": "delete_task",
        "description": "Delete a task permanently. Use when user wants to remove or delete a task.",
        "parameters": {
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "Task ID to delete"}},
            "required": ["task_id"],
        },
    },
]


@pytest.fixture
def tasks() -> Iterator[Database]:
    database = Database.open("sqlite://")
    migrate(database, "graph_agent.task_server")
    yield database
    database.close_now()


class Session:
    """An MCP session with a server without a default user, opened anew for each request.

    A fixture cannot hold one open: it is set up and torn down in different tasks, which the SDK's sessions do not survive.
    """

    def __init__(self, tasks: Database) -> None:
        self._server = build_task_server(tasks, ManualClock(), SequentialIds())

    async def list_tools(self, cursor: str | None = None) -> list[Tool]:
        async with Client(self._server) as client:
            return (await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))).tools

    async def list_resources(self, meta: dict[str, Any] | None, cursor: str | None) -> ListResourcesResult | MCPError:
        async with Client(self._server) as client:
            params = PaginatedRequestParams(cursor=cursor, _meta=cast("RequestParamsMeta", meta))
            try:
                return await client.session.list_resources(params=params)
            except MCPError as refusal:
                return refusal

    async def call_tool(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any] | None = None) -> CallToolResult:
        async with Client(self._server) as client:
            return await client.session.call_tool(tool, arguments, meta=cast("RequestParamsMeta", meta))

    async def read_resource(self, uri: str, meta: dict[str, Any] | None = None) -> str | MCPError:
        async with Client(self._server) as client:
            try:
                result = await client.session.read_resource(uri, meta=cast("RequestParamsMeta", meta))
            except MCPError as refusal:
                return refusal
        content = result.contents[0]
        assert isinstance(content, TextResourceContents)
        return content.text


@pytest.fixture
def session(tasks: Database) -> Session:
    return Session(tasks)


async def call(session: Session, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    result = await session.call_tool(tool, arguments, meta)
    [content] = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    structured: dict[str, Any] = result.structured_content
    assert result.is_error is not structured["success"]
    return structured


async def test_the_tools_match_the_adapter_contract_exactly(session: Session) -> None:
    listed = await session.list_tools()
    assert [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in listed
    ] == CONTRACT


async def test_the_tools_have_annotations_and_metadata(session: Session) -> None:
    texts = {
        tool.name: (tool.title, tool.annotations.read_only_hint, tool.annotations.destructive_hint, tool.meta)
        for tool in await session.list_tools()
        if tool.annotations is not None
    }
    unread = {"graph_agent/unread": ["user_id"]}
    ledger = {**unread, "graph_agent/ledger": True}
    previewed = {**ledger, "graph_agent/preview": "task://{task_id}"}
    assert texts == {
        "add_task": ("Add task", False, False, ledger),
        "list_tasks": ("List tasks", True, False, unread),
        "update_task": ("Update task", False, True, previewed),
        "complete_task": ("Complete task", False, False, previewed),
        "delete_task": ("Delete task", False, True, previewed),
    }


async def test_a_call_acts_for_the_user_in_its_metadata(session: Session) -> None:
    await call(session, "add_task", {"graph_agent/user": "ann"}, description="a")
    anns = await call(session, "list_tasks", {"graph_agent/user": "ann"})
    bobs = await call(session, "list_tasks", {"graph_agent/user": "bob"})
    assert (anns["data"]["count"], bobs["data"]["count"]) == (1, 0)


async def test_a_call_without_a_user_is_refused(session: Session) -> None:
    outcome = await call(session, "add_task", description="a")
    assert outcome["error_code"] == "ACCESS_DENIED"


async def test_a_plain_client_acts_for_the_default_user(tasks: Database) -> None:
    async with Client(build_task_server(tasks, default_user="ann")) as client:
        added = await client.call_tool("add_task", {"description": "a"})
        assert added.structured_content is not None
        task = added.structured_content["data"]["task"]
        assert task["user_id"] == "ann"
        assert (await client.read_resource(f"task://{task['id']}")).contents


@pytest.mark.parametrize("user", ["", "x" * 256, "nul\x00", 7, ["ann"]])
async def test_an_invalid_user_id_is_refused(session: Session, user: Any) -> None:
    outcome = await call(session, "add_task", {"graph_agent/user": user}, description="a")
    assert outcome["error_code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("named", [None, "ann", "bob"])
async def test_a_verified_token_determines_the_user(session: Session, named: str | None) -> None:
    token = AccessToken(token="t", client_id="c", scopes=["read", "write"], subject="ann")
    bound = auth_context_var.set(AuthenticatedUser(token))
    try:
        meta = {} if named is None else {"graph_agent/user": named}
        outcome = await call(session, "add_task", meta, description="a")
    finally:
        auth_context_var.reset(bound)
    if named == "bob":
        assert outcome["error_code"] == "ACCESS_DENIED"
    else:
        assert outcome["data"]["task"]["user_id"] == "ann"


async def test_an_operation_is_read_from_the_metadata(session: Session) -> None:
    meta = {"graph_agent/user": "ann", "graph_agent/operation": {"key": "k", "mode": "run"}}
    first = await call(session, "add_task", meta, description="a")
    assert await call(session, "add_task", meta, description="a") == first
    meta["graph_agent/operation"] = {"key": "k", "mode": "settle"}
    assert await call(session, "add_task", meta, description="a") == first


@pytest.mark.parametrize("operation", ["k", {}, {"key": "k"}, {"key": "", "mode": "run"}, {"key": "k", "mode": "undo"}, [1]])
async def test_an_invalid_operation_is_refused(session: Session, operation: Any) -> None:
    meta = {"graph_agent/user": "ann", "graph_agent/operation": operation}
    outcome = await call(session, "add_task", meta, description="a")
    assert outcome["error_code"] == "VALIDATION_ERROR"
    assert (await call(session, "list_tasks", {"graph_agent/user": "ann"}))["data"]["count"] == 0


async def test_a_preview_shows_only_the_users_own_task(session: Session) -> None:
    added = await call(session, "add_task", {"graph_agent/user": "ann"}, description="call 'mom' ü")
    uri = f"task://{added['data']['task']['id']}"
    shown = await session.read_resource(uri, {"graph_agent/user": "ann"})
    assert shown == '{"description": "call \'mom\' ü", "status": "pending"}'
    missing = "task://00000000-0000-0000-0000-000000000099"
    for target, user in ((uri, "bob"), (uri, None), (missing, "ann"), ("task://x", "ann")):
        refusal = await session.read_resource(target, None if user is None else {"graph_agent/user": user})
        assert isinstance(refusal, MCPError)
        assert refusal.data["error_code"] == ("ACCESS_DENIED" if user is None else "NOT_FOUND")


async def test_every_result_matches_the_output_schema_of_its_tool(session: Session) -> None:
    schemas = {tool.name: tool.output_schema for tool in await session.list_tools()}
    meta = {"graph_agent/user": "ann"}
    task_id = (await call(session, "add_task", meta, description="a"))["data"]["task"]["id"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add_task", {"description": "b"}),
        ("list_tasks", {}),
        ("update_task", {"task_id": task_id, "description": "c"}),
        ("complete_task", {"task_id": task_id}),
        ("delete_task", {"task_id": task_id}),
        ("delete_task", {"task_id": task_id}),  # there is none any more
        ("complete_task", {"task_id": task_id}),  # a failure
    ]
    results = [await call(session, name, meta, **arguments) for name, arguments in calls]
    for (name, _), result in zip(calls, results, strict=True):
        schema = schemas[name]
        assert schema is not None
        jsonschema.validate(result, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**result, "data": {"anything": 1}}, schema)
    assert [result["success"] for result in results] == [True] * 6 + [False]


async def test_the_tasks_are_listed_as_resources_in_pages(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    # A page of the real size has many tasks.
    monkeypatch.setattr("graph_agent.task_server.tools.PAGE_SIZE", 2)
    ann, bob = {"graph_agent/user": "ann"}, {"graph_agent/user": "bob"}
    ids = [(await call(session, "add_task", ann, description=text))["data"]["task"]["id"] for text in "abcde"]
    await call(session, "add_task", bob, description="bob's")

    pages: list[list[str]] = []
    cursor: str | None = None
    while cursor is not None or not pages:
        listed = await session.list_resources(ann, cursor)
        assert isinstance(listed, ListResourcesResult)
        pages.append([str(resource.title) for resource in listed.resources])
        if len(pages) == 1:
            # A task that is deleted between two pages takes nothing from the next one.
            await call(session, "delete_task", ann, task_id=ids[3])
        cursor = listed.next_cursor

    assert pages == [["e", "d"], ["c", "b"], ["a"]]
    assert await session.read_resource(f"task://{ids[0]}", ann) == '{"description": "a", "status": "pending"}'


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "2026-01-01/x",
        "2026-01-01T00:00:00/00000000-0000-4000-8000-000000000000",
        "9999-12-31T23:59:59-23:59/00000000-0000-4000-8000-000000000000",
    ],
)
async def test_a_cursor_that_the_server_did_not_give_is_refused(session: Session, cursor: str) -> None:
    refusal = await session.list_resources({"graph_agent/user": "ann"}, cursor)
    assert isinstance(refusal, MCPError)
    assert refusal.code == INVALID_PARAMS
    with pytest.raises(ExceptionGroup) as raised:
        await session.list_tools(cursor)
    assert raised.group_contains(MCPError, match="cursor")


async def test_the_resources_of_no_user_are_not_listed(session: Session) -> None:
    refusal = await session.list_resources(None, None)
    assert isinstance(refusal, MCPError)
    assert refusal.data == {"error_code": "ACCESS_DENIED"}


async def test_an_unknown_tool_is_an_error_without_details(session: Session) -> None:
    result = await session.call_tool("drop_table", {})
    assert result.is_error


def test_building_a_server_does_not_change_logging(tasks: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # The handlers of pytest would keep the SDK from installing its own.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    build_task_server(tasks)
    assert logging.getLogger().handlers == []
