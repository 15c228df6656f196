"""An MCP server with a ledger over stdio, which now and then dies before or after a refund: `till_server.py URL`.

Its effects are rows of the table `refunds` in the database at URL.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from mcp.server.mcpserver import Context
from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, insert

from graph_agent.db import Database
from graph_agent.errors import ToolErrorCode, ToolRefusal
from graph_agent.ledger.server import LedgerServer

tables = MetaData()
refunds = Table(
    "refunds",
    tables,
    Column("id", Integer, primary_key=True),
    Column("user_id", String(255)),
    Column("customer", String(255)),
    Column("amount", Integer),
)


class Till(LedgerServer):
    """The server of one worker of an agent: the others have their own, on the same database."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:
        _die_sometimes()
        result = await super().call_tool(name, arguments, context)
        _die_sometimes()
        return result


def _die_sometimes() -> None:
    if random.random() < 0.02:
        os._exit(1)


def build_till(database: Database) -> Till:
    """Return the server with the table of refunds in `database`."""
    till = Till("till", database, tables)

    @till.change("Refund")
    def refund(connection: Connection, user_id: str, customer: str, amount: int) -> dict[str, Any]:
        """Pay an amount back to a customer."""
        if random.random() < 0.05:
            raise ToolRefusal("The customer has no account.", ToolErrorCode.NOT_FOUND)
        connection.execute(insert(refunds), {"user_id": user_id, "customer": customer, "amount": amount})
        return {"receipt": f"refunded {amount} to {customer}"}

    return till


if __name__ == "__main__":
    build_till(Database.open(sys.argv[1])).run("stdio")
