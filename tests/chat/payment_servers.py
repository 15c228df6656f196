"""Payment servers over HTTP without a ledger, behind a connection that loses answers, delays calls, or is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, TextContent
from pydantic import Field

from graph_agent.tools.server_file import ServerConfig
from tests.chat.lossy_server import LossyServer

Kind = Literal["keyed", "header", "meta", "listed", "plain"]
KEYED: list[Kind] = ["keyed", "header", "meta"]
META_NAME = "com.example/idempotency-key"


class PaymentServer(LossyServer):
    """A server with the tool `pay`, whose calls are lost.

    Those of `KEYED` perform a key once, which is an argument, an HTTP header or a field of `_meta`. One that is `listed` has a
    second tool that finds payments by their reference.
    """

    def __init__(self, kind: Kind) -> None:
        super().__init__("pay")
        self.kind = kind
        self.payments: list[tuple[int, str]] = []
        """The amount and the key or reference of each payment that was made."""
        self.finds_nothing = False
        self.answers: Callable[[list[dict[str, Any]]], Any] | None = None
        """What the read answers instead, for the payments with the reference."""
        self._answers: dict[str, dict[str, Any]] = {}

    @property
    def config(self) -> ServerConfig:
        return ServerConfig(self.kind, self.address, prefixed=True, timeout=2.0, start_timeout=20)

    def of(self, amount: int) -> int:
        """Return how many payments of this amount were made."""
        return sum(paid == amount for paid, _ in self.payments)

    def paid(self, amount: int, key: str) -> dict[str, Any]:
        if self.kind in KEYED and key in self._answers:
            return self._answers[key]
        self.payments.append((amount, key))
        answer = {"payment": f"p{len(self.payments)}", "amount": amount}
        return self._answers.setdefault(key, {**answer, "idempotency_key": key} if self.kind in KEYED else answer)


def _mcp_server(owner: PaymentServer) -> MCPServer:
    server = MCPServer(owner.kind, log_level="ERROR")

    if owner.kind == "keyed":

        @server.tool()
        def pay(amount: int, idempotency_key: Annotated[str, Field(pattern=r"^pay_[0-9a-f]{32}$")]) -> dict[str, Any]:
            """Pay an amount; the same key pays once."""
            return owner.paid(amount, idempotency_key)

    elif owner.kind in KEYED:

        @server.tool(name="pay")
        def pay_with_key_beside(amount: int, context: Context[Any, Any]) -> dict[str, Any]:
            """Pay an amount; the same key pays once."""
            request: Any = context.request_context
            key = request.request.headers["Idempotency-Key"] if owner.kind == "header" else request.meta[META_NAME]
            return owner.paid(amount, key)

    elif owner.kind == "listed":

        @server.tool(name="pay")
        def pay_with_reference(amount: int, reference: str) -> dict[str, Any]:
            """Pay an amount under a reference."""
            return owner.paid(amount, reference)

        @server.tool()
        def find_payments(reference: str) -> CallToolResult:
            """Return the payments with a reference."""
            found = [] if owner.finds_nothing else [{"amount": paid} for paid, under in owner.payments if under == reference]
            answer = {"payments": found} if owner.answers is None else owner.answers(found)
            if isinstance(answer, str):
                return CallToolResult(content=[TextContent(text=answer)], is_error=answer.startswith("Error"))
            return CallToolResult(content=[], structured_content=answer)

    else:

        @server.tool(name="pay")
        def pay_plainly(amount: int) -> dict[str, Any]:
            """Pay an amount."""
            return owner.paid(amount, "")

    return server


@asynccontextmanager
async def serving(kinds: Sequence[Kind]) -> AsyncIterator[list[PaymentServer]]:
    """Serve one server of each kind."""
    async with AsyncExitStack() as stack:
        servers = [PaymentServer(kind) for kind in kinds]
        for server in servers:
            await stack.enter_async_context(server.serving(_mcp_server(server)))
        yield servers
