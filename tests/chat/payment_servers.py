"""Payment servers over HTTP without a ledger, behind a connection that loses answers, delays calls, or is cut."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import MCPServer
from pydantic import Field

from graph_agent.api.server import HttpServerConfig
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.transport import HttpServer
from tests.chat.asgi import lose, read_body
from tests.serving import ServerWithoutSignals

Kind = Literal["keyed", "listed", "plain"]


class Fault(StrEnum):
    """What happens to one request of a payment."""

    NONE = "none"
    DROPPED = "dropped"
    """The payment is made, and the connection stays open without an answer."""
    DELAYED = "delayed"
    """The request arrives only when `late` is released."""
    CUT_BEFORE = "cut before"
    CUT_AFTER = "cut after"


class _CutError(Exception):
    """The connection ends."""


@dataclass
class PaymentServer:
    """A server with the tool `pay`.

    One that is `keyed` performs a key once, one that is `listed` has a second tool that finds payments by their reference.
    """

    kind: Kind
    payments: list[tuple[int, str]] = field(default_factory=list)
    """The amount and the key or reference of each payment that was made."""
    faults: deque[Fault] = field(default_factory=deque)
    """What happens to the next requests of payments."""
    late: asyncio.Event = field(default_factory=asyncio.Event)
    arriving: set[asyncio.Task[None]] = field(default_factory=set)
    requests: int = 0
    """How many requests of payments were sent."""
    finds_nothing: bool = False
    _answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    _port: int = 0

    @property
    def config(self) -> ServerConfig:
        return ServerConfig(
            self.kind, HttpServer(f"http://127.0.0.1:{self._port}/mcp"), prefixed=True, timeout=0.4, start_timeout=20
        )

    def of(self, amount: int) -> int:
        """Return how many payments of this amount were made."""
        return sum(paid == amount for paid, _ in self.payments)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        listener = socket.create_server(("127.0.0.1", 0))
        self._port = listener.getsockname()[1]
        config = HttpServerConfig(self._app(), log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        server = ServerWithoutSignals(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            await self.arrive()
            server.should_exit = server.force_exit = True
            await task

    async def arrive(self) -> None:
        """Let the delayed requests arrive."""
        self.late.set()
        await asyncio.gather(*self.arriving)

    def _app(self) -> Any:
        app = _mcp_server(self).streamable_http_app(json_response=True, stateless_http=True)

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            body, again = await read_body(receive)
            fault = self._next_fault() if _is_payment(body) else Fault.NONE
            if fault is Fault.CUT_BEFORE:
                raise _CutError
            if fault is Fault.DELAYED:

                async def arrive_late() -> None:
                    await self.late.wait()
                    await app(scope, again, lose)

                task = asyncio.create_task(arrive_late())
                self.arriving.add(task)
                while (await receive())["type"] != "http.disconnect":
                    pass
                return
            await app(scope, again, send if fault is Fault.NONE else lose)
            if fault is Fault.CUT_AFTER:
                raise _CutError
            while fault is Fault.DROPPED and (await receive())["type"] != "http.disconnect":
                pass

        return serve

    def _next_fault(self) -> Fault:
        self.requests += 1
        return self.faults.popleft() if self.faults else Fault.NONE

    def paid(self, amount: int, key: str) -> dict[str, Any]:
        if self.kind == "keyed" and key in self._answers:
            return self._answers[key]
        self.payments.append((amount, key))
        answer = {"payment": f"p{len(self.payments)}", "amount": amount}
        return self._answers.setdefault(key, {**answer, "idempotency_key": key} if self.kind == "keyed" else answer)


def _mcp_server(owner: PaymentServer) -> MCPServer:
    server = MCPServer(owner.kind, log_level="ERROR")

    if owner.kind == "keyed":

        @server.tool()
        def pay(amount: int, idempotency_key: Annotated[str, Field(pattern=r"^pay_[0-9a-f]{32}$")]) -> dict[str, Any]:
            """Pay an amount; the same key pays once."""
            return owner.paid(amount, idempotency_key)

    elif owner.kind == "listed":

        @server.tool(name="pay")
        def pay_with_reference(amount: int, reference: str) -> dict[str, Any]:
            """Pay an amount under a reference."""
            return owner.paid(amount, reference)

        @server.tool()
        def find_payments(reference: str) -> dict[str, Any]:
            """Return the payments with a reference."""
            found = [] if owner.finds_nothing else [{"amount": paid} for paid, under in owner.payments if under == reference]
            return {"payments": found}

    else:

        @server.tool(name="pay")
        def pay_plainly(amount: int) -> dict[str, Any]:
            """Pay an amount."""
            return owner.paid(amount, "")

    return server


def _is_payment(body: bytes) -> bool:
    with suppress(ValueError, LookupError, TypeError):
        return bool(json.loads(body)["params"]["name"] == "pay")
    return False


@asynccontextmanager
async def serving(kinds: Sequence[Kind]) -> AsyncIterator[list[PaymentServer]]:
    """Serve one server of each kind."""
    async with AsyncExitStack() as stack:
        servers = [PaymentServer(kind) for kind in kinds]
        for server in servers:
            await stack.enter_async_context(server.serving())
        yield servers
