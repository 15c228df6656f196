"""An MCP server over HTTP whose one change can be undone. It has no ledger, and counts what it is sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer

from tests.chat.lossy_server import LossyServer

BEFORE, CHANGED = "Elm 1", "Birch 9"
_FACTS = "\n## Facts\n- order: get_order(order_id = arguments.order_id)\n"
_KEY = " (operation key in idempotency_key)"


class AddressServer(LossyServer):
    """The orders are those that it is asked about. If it is `keyed`, it performs a key once."""

    def __init__(self, *, keyed: bool) -> None:
        super().__init__("set_address")
        self.keyed = keyed
        self.streets: defaultdict[str, str] = defaultdict(lambda: BEFORE)
        self.effects: Counter[tuple[str, str]] = Counter()
        """How often each order was moved to each address."""
        self._keys: set[str] = set()

    @property
    def constitution(self) -> str:
        undone = "(undone by set_address(order_id = arguments.order_id, address = order.address) for 2 days)"
        key = _KEY if self.keyed else ""
        change = f"- set_address: Change the address (without confirmation){key} {undone}"
        return f"# Desk\n\n## Available Tools\n{change}\n- get_order: Get an order (reads)\n{_FACTS}"

    def moved(self, order_id: str, address: str, key: str = "") -> dict[str, Any]:
        if not key or key not in self._keys:
            self._keys.add(key)
            self.streets[order_id] = address
            self.effects[order_id, address] += 1
        return {"ok": True}


def _mcp_server(owner: AddressServer) -> MCPServer:
    server = MCPServer("desk", log_level="ERROR")

    @server.tool()
    def get_order(order_id: str) -> dict[str, Any]:
        """Get an order."""
        return {"order_id": order_id, "address": owner.streets[order_id]}

    if owner.keyed:

        @server.tool(name="set_address")
        def set_address_once(order_id: str, address: str, idempotency_key: str) -> dict[str, Any]:
            """Change the address of an order; the same key changes it once."""
            return owner.moved(order_id, address, idempotency_key)

    else:

        @server.tool()
        def set_address(order_id: str, address: str) -> dict[str, Any]:
            """Change the address of an order."""
            return owner.moved(order_id, address)

    return server


@asynccontextmanager
async def serving_addresses(*, keyed: bool) -> AsyncIterator[AddressServer]:
    server = AddressServer(keyed=keyed)
    async with server.serving(_mcp_server(server)):
        yield server
