"""The clients of the gateway: each has a conversation."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from mcp import MCPError
from mcp.server.session import ServerSession


@dataclass
class Client:
    """One session of a client, and the conversation of its calls."""

    user_id: str
    conversation_id: str | None = None
    """None before the first call."""
    session: ServerSession | None = None
    """The session of the latest request."""
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the call that runs: a conversation has one turn at a time, so the others queue."""
    questions: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from the question to its answer."""

    async def notify_tools_changed(self) -> None:
        """Tell the client that the list of tools has changed, if it can still be reached."""
        if self.session is not None:
            with suppress(MCPError, OSError):
                await self.session.send_tool_list_changed()
