"""The lists of a server, page by page: its tools and its prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mcp import ClientSession
from mcp.types import ListPromptsResult, ListToolsResult, PaginatedRequestParams, Prompt, Tool

MAX_PAGES = 100
MAX_LISTED = 2_000
MAX_LIST_BYTES = 16 * 1024 * 1024
"""Limit for one list, as JSON."""

Page = TypeVar("Page", ListToolsResult, ListPromptsResult)
Item = TypeVar("Item", Tool, Prompt)


class ListError(Exception):
    """A list of the server cannot be used."""


async def all_tools(session: ClientSession) -> list[Tool]:
    """Return every tool. Raises `ListError` for a list that exceeds the limits or has two tools with the same name."""
    return await _all("tools", session.list_tools, lambda page: page.tools)


async def all_prompts(session: ClientSession) -> list[Prompt]:
    """Return every prompt. Raises `ListError` as `all_tools` does."""
    return await _all("prompts", session.list_prompts, lambda page: page.prompts)


async def _all(what: str, request: Callable[..., Awaitable[Page]], items_of: Callable[[Page], Sequence[Item]]) -> list[Item]:
    items: dict[str, Item] = {}
    size, cursor, cursors = 0, None, set[str]()
    for _ in range(MAX_PAGES):
        page = await request(params=PaginatedRequestParams(cursor=cursor))
        listed = items_of(page)
        if len(items) + len(listed) > MAX_LISTED:
            raise ListError(f"its list of {what} is too long")
        size += sum(len(item.model_dump_json().encode()) for item in listed)
        if size > MAX_LIST_BYTES:
            raise ListError(f"its list of {what} is too large")
        cursor = page.next_cursor
        # Before the names, because a page that is sent again has the items of an earlier one.
        if cursor in cursors:
            raise ListError(f"its list of {what} does not end: a cursor comes again")
        for item in listed:
            if item.name in items:
                raise ListError(f"it serves two {what} of one name")
            items[item.name] = item
        # An empty cursor is no cursor: servers write it where a language has no other value for none.
        if not cursor:
            return list(items.values())
        cursors.add(cursor)
    raise ListError(f"its list of {what} does not end")
