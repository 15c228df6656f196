"""The example `returns_desk` for tests: its server, and a client of it."""

from __future__ import annotations

import importlib
import sys
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any, cast

from graph_agent.db import Database
from graph_agent.ledger.server import LedgerServer
from graph_agent.models.tools import ToolResult
from graph_agent.tools.executor import McpToolExecutor
from tests.permission import permitted

FOLDER = Path(__file__).parents[1] / "examples" / "returns_desk"
CONSTITUTION = (FOLDER / "constitution.md").read_text(encoding="utf-8")
CONDITIONS = (FOLDER / "policy.cedar").read_text(encoding="utf-8")
TODAY = date(2026, 11, 20)
READS = frozenset({"find_customer", "get_order", "list_products", "list_mails"})


def build_desk(database: Database) -> LedgerServer:
    """Return the example's server on the day TODAY."""
    # Its files import one another by their plain names, as scripts do.
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    build = cast(Callable[..., LedgerServer], importlib.import_module("server").build_desk)
    return build(database, today=TODAY)


@asynccontextmanager
async def open_desk(url: str = "sqlite://") -> AsyncGenerator[McpToolExecutor]:
    """Yield a client of a new shop."""
    database = Database.open(url)
    try:
        async with McpToolExecutor(build_desk(database), timeout=60) as desk:
            yield desk
    finally:
        await database.close()


async def result_of(desk: McpToolExecutor, tool: str, key: str | None = None, **arguments: Any) -> ToolResult:
    """Return the result of a call, under this operation key or a new one."""
    return await desk.execute(permitted(tool, arguments, key=None if tool in READS else key or str(uuid.uuid4())))


async def data_of(desk: McpToolExecutor, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the data of a successful call."""
    result = await result_of(desk, tool, **arguments)
    assert result.success, result.error
    return cast(dict[str, Any], result.data)


async def reason_of(desk: McpToolExecutor, tool: str, **arguments: Any) -> str:
    """Return the reason of a refused call."""
    result = await result_of(desk, tool, **arguments)
    assert not result.may_be_done
    return str(result.error)
