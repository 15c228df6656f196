"""A library as an MCP server that knows nothing of graph_agent: no ledger, no previews."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

BOOKS = {"F 12": "Frankenstein", "M 7": "Middlemarch", "M 9": "Moby-Dick"}


def build_library() -> MCPServer:
    """A fresh library with three books."""
    server = MCPServer("library")
    lent: set[str] = set()

    @server.tool(title="Find books", annotations=ToolAnnotations(read_only_hint=True))
    def find_books(title: str) -> dict[str, Any]:
        """Look for books whose title contains these words."""
        found = {mark: name for mark, name in BOOKS.items() if title.casefold() in name.casefold()}
        return {"books": [{"mark": mark, "title": name, "lent": mark in lent} for mark, name in found.items()]}

    @server.tool(title="Lend book")
    def lend_book(mark: str) -> dict[str, Any]:
        """Lend the book with this shelf mark."""
        lent.add(mark)
        return {"mark": mark, "title": BOOKS[mark], "lent": True}

    @server.tool(title="Give back")
    def give_back(mark: str) -> dict[str, Any]:
        """Take the book with this shelf mark back."""
        lent.discard(mark)
        return {"mark": mark, "title": BOOKS[mark], "lent": False}

    return server
