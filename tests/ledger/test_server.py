"""`LedgerServer`: tools of a server author, through the runtime's client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import jsonschema
import pytest
from mcp import Client
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from sqlalchemy import Column, Connection, MetaData, String, Table, insert, select

from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.ledger.server import LedgerServer
from graph_agent.tools.executor import McpToolExecutor
from tests.permission import permitted


@pytest.fixture
def server(database: Database) -> LedgerServer:
    """A server for words, on an empty database of each kind."""
    tables = MetaData()
    words = Table("words", tables, Column("user_id", String(50)), Column("word", String(50)))
    server = LedgerServer("words", database, tables)

    @server.read("List words")
    def list_words(connection: Connection, user_id: str) -> dict[str, Any]:
        """List the words."""
        return {"words": list(connection.execute(select(words.c.word).where(words.c.user_id == user_id)).scalars())}

    @server.change("Add word", preview="word://{word}")
    def add_word(connection: Connection, user_id: str, word: str, times: int = 1) -> dict[str, Any]:
        """Add a word."""
        for _ in range(times):
            connection.execute(insert(words), {"user_id": user_id, "word": word})
        if word == "refused":
            raise ToolRefusal("This word is refused.")
        if word == "defect":
            raise ZeroDivisionError
        if word == "interrupt":
            raise KeyboardInterrupt
        if word == "statement":
            connection.exec_driver_sql("SELECT * FROM nowhere")
        return {"receipt": f"added {word}"}

    @server.preview("word://{word}")
    def word(connection: Connection, user_id: str, word: str) -> dict[str, Any] | None:
        found = connection.execute(select(words.c.word).where(words.c.user_id == user_id, words.c.word == word)).scalar()
        return None if found is None else {"description": found}

    return server


@asynccontextmanager
async def client(server: LedgerServer) -> AsyncIterator[McpToolExecutor]:
    async with McpToolExecutor(server, timeout=60) as tools:
        yield tools


async def words_of(tools: McpToolExecutor, user: str) -> list[str]:
    data = (await tools.execute(permitted("list_words", {}, user))).data
    assert isinstance(data, dict)
    found: list[str] = data["words"]
    return found


async def test_a_change_takes_effect_once_for_its_user(server: LedgerServer) -> None:
    async with client(server) as tools:
        for _ in range(2):
            result = await tools.execute(permitted("add_word", {"word": "tea"}, "ann", "k"))
            assert result.data == {"receipt": "added tea"}
        stolen = await tools.execute(permitted("add_word", {"word": "tea"}, "bob", "k"))
        assert stolen.error_code is ToolErrorCode.VALIDATION_ERROR
        assert (await words_of(tools, "ann"), await words_of(tools, "bob")) == (["tea"], [])


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("refused", ToolErrorCode.TOOL_REFUSED),
        ("defect", ToolErrorCode.TOOL_EXECUTION_ERROR),
        ("interrupt", ToolErrorCode.TOOL_EXECUTION_ERROR),
        ("statement", ToolErrorCode.DATABASE_ERROR),
    ],
)
async def test_an_exception_rolls_the_effect_and_its_key_back(server: LedgerServer, word: str, code: ToolErrorCode) -> None:
    async with client(server) as tools:
        failed = await tools.execute(permitted("add_word", {"word": word}, "ann", "k"))
        assert failed.error_code is code
        assert await words_of(tools, "ann") == []
        # The key is free: nothing was done under it.
        assert (await tools.execute(permitted("add_word", {"word": "tea"}, "ann", "k"))).success


async def test_an_operation_is_settled(server: LedgerServer) -> None:
    async with client(server) as tools:
        done = await tools.execute(permitted("add_word", {"word": "tea"}, "ann", "a"))
        assert (await tools.settle(permitted("add_word", {"word": "tea"}, "ann", "a"))).data == done.data
        void = await tools.settle(permitted("add_word", {"word": "milk"}, "ann", "b"))
        late = await tools.execute(permitted("add_word", {"word": "milk"}, "ann", "b"))
        assert (void.error_code, late.error_code) == (ToolErrorCode.TOOL_EXECUTION_ERROR,) * 2
        assert await words_of(tools, "ann") == ["tea"]


async def test_an_operation_whose_stored_result_is_damaged_stays_unknown(server: LedgerServer, database: Database) -> None:
    async with client(server) as tools:
        tea = permitted("add_word", {"word": "tea"}, "ann", "a")
        await tools.execute(tea)
        await database.write(lambda connection: connection.exec_driver_sql("UPDATE operations SET result = '{'").close())
        assert ((await tools.settle(tea)).unknown, (await tools.execute(tea)).unknown) == (True, True)
        assert await words_of(tools, "ann") == ["tea"]


async def test_the_schema_has_the_arguments_only_and_others_are_refused(server: LedgerServer) -> None:
    async with client(server) as tools:
        declared = {tool.name: set(tool.parameters["properties"]) for tool in tools.declarations()}
        assert declared == {"list_words": set(), "add_word": {"word", "times"}}
        refused = await tools.execute(permitted("add_word", {"word": "tea", "times": "many"}, "ann", "k"))
        assert refused.error_code is ToolErrorCode.VALIDATION_ERROR
        assert (tools.traits("add_word").ledger, tools.traits("list_words").read_only) == (True, True)


async def test_a_preview_shows_what_the_user_owns(server: LedgerServer) -> None:
    async with client(server) as tools:
        await tools.execute(permitted("add_word", {"word": "tea"}, "ann", "k"))
        assert (await tools.preview("add_word", {"word": "tea"}, "ann")).data == {"description": "tea"}
        assert (await tools.preview("add_word", {"word": "tea"}, "bob")).error_code is ToolErrorCode.NOT_FOUND


async def test_a_token_without_the_scope_write_changes_nothing(server: LedgerServer) -> None:
    bound = auth_context_var.set(AuthenticatedUser(AccessToken(token="t", client_id="c", scopes=["read"], subject="ann")))
    try:
        async with Client(server) as plain:
            refused = await plain.call_tool("add_word", {"word": "tea"})
            listed = await plain.call_tool("list_words", {})
    finally:
        auth_context_var.reset(bound)
    assert refused.is_error
    assert refused.structured_content is not None
    assert refused.structured_content["error_code"] == "ACCESS_DENIED"
    assert listed.structured_content is not None
    assert listed.structured_content["data"] == {"words": []}


async def test_every_result_matches_the_output_schema(server: LedgerServer) -> None:
    async with Client(server) as plain:
        schemas = {tool.name: tool.output_schema for tool in (await plain.list_tools()).tools}
        no_user = await plain.session.call_tool("add_word", {"word": "tea"})
        added = await plain.session.call_tool("add_word", {"word": "tea"}, meta=cast(Any, {"graph_agent/user": "ann"}))
    for result in (no_user, added):
        schema = schemas["add_word"]
        assert schema is not None
        jsonschema.validate(result.structured_content, schema)
    assert (no_user.is_error, added.is_error) == (True, False)


async def test_a_function_without_connection_and_user_is_a_mistake(server: LedgerServer) -> None:
    with pytest.raises(TypeError, match="must take a connection"):

        @server.change("Nothing")
        def nothing(*, text: str) -> None: ...


async def test_an_async_function_is_a_mistake(server: LedgerServer) -> None:
    with pytest.raises(TypeError, match="must not be async"):

        @server.change("Later")  # type: ignore[type-var]  # the mistake
        async def later(connection: Connection, user_id: str) -> dict[str, Any]:
            return {"receipt": f"{connection} {user_id}"}


async def test_arguments_that_a_tool_does_not_take_are_refused(server: LedgerServer) -> None:
    async with Client(server) as plain:
        surplus: dict[str, Any]
        for surplus in ({"tmes": 2}, {"user_id": "bob"}, {"connection": 1}, {"context": {}}):
            meta: Any = {"graph_agent/user": "ann"}
            refused = await plain.session.call_tool("add_word", {"word": "tea", **surplus}, meta=meta)
            assert refused.structured_content is not None
            assert refused.structured_content["error"] == "There is an argument that this tool does not take."
    async with client(server) as tools:
        assert await words_of(tools, "ann") == []


async def test_a_number_that_json_does_not_have_is_refused(server: LedgerServer) -> None:
    @server.change("Weigh")
    def weigh(connection: Connection, user_id: str, grams: float) -> dict[str, Any]:
        """Weigh something."""
        return {"receipt": f"{connection} {user_id} {grams}"}

    async with client(server) as tools:
        refused = await tools.execute(permitted("weigh", {"grams": "nan"}, "ann", "k"))
    assert refused.error_code is ToolErrorCode.VALIDATION_ERROR
