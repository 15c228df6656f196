"""The list of a server's tools, read within limits, so that an endless list cannot block the start or fill the memory."""

from __future__ import annotations

import logging

from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse, PaginatedRequestParams, Tool
from pydantic import ValidationError

from graph_agent.reply.text import one_line

logger = logging.getLogger(__name__)

MAX_PAGES = 100
MAX_TOOLS = 2_000
MAX_NAME = 200
"""Limit for a tool's name in characters. A constitution grants shorter ones only."""
MAX_LIST_BYTES = 16 * 1024 * 1024
"""Limit for all tools together, as JSON."""


class ToolListError(Exception):
    """The server's tool list cannot be used. The message contains no text of the server."""


async def all_tools(session: ClientSession) -> list[Tool]:
    """Return every tool. Raises `ToolListError` for a list that exceeds the limits or has two tools with the same name."""
    tools: dict[str, Tool] = {}
    size, cursor = 0, None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        if len(tools) + len(page.tools) > MAX_TOOLS:
            raise ToolListError("its list of tools is too long")
        size += sum(len(tool.model_dump_json().encode()) for tool in page.tools)
        if size > MAX_LIST_BYTES:
            raise ToolListError("its list of tools is too large")
        for tool in page.tools:
            if tool.name in tools:
                raise ToolListError("it serves two tools of one name")
            tools[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            return list(tools.values())
    raise ToolListError("its list of tools does not end")


def drop_invalid_tools(message: object) -> None:
    """Leave the tools with an invalid definition out of a list, for which the session would refuse the whole list."""
    if isinstance(message, SessionMessage) and isinstance(message.message, JSONRPCResponse):
        result = message.message.result
        if isinstance(tools := result.get("tools"), list):
            result["tools"] = [tool for tool in tools if _is_valid(tool)]


def _is_valid(listed: object) -> bool:
    name = listed.get("name") if isinstance(listed, dict) else None
    try:
        Tool.model_validate(listed, by_name=False)
    except ValidationError:
        problem = "whose definition is not valid"
    else:
        # A name of several lines could write one of its own into what the commands print.
        if one_line(str(name), MAX_NAME) == name:
            return True
        problem = "whose name is no line of plain text"
    logger.warning("an MCP server lists the tool %.100r, %s: it is left out", name, problem)
    return False
