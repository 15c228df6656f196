"""One long-lived MCP session, opened and closed by its own task.

The SDK's transports are task groups, which cancel the task that has entered them when the connection breaks. So the session is
entered and left in a task of its own, and each request runs in another one, so that its cancellation is never taken for that of
the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import Context
from typing import TypeVar

import httpx2
from mcp import Client, ClientSession, MCPError
from mcp.server.mcpserver import MCPServer
from mcp.types import CONNECTION_CLOSED, Tool, ToolListChangedNotification

from graph_agent.clock import wait_for_task
from graph_agent.models.config import DEFAULT_CALL_SECONDS
from graph_agent.net.addresses import InsecureUrlError, RefusedAddressError
from graph_agent.ports import Clock
from graph_agent.tools.lists import ListError, all_tools
from graph_agent.tools.stdio import MAX_STDERR_BYTES
from graph_agent.tools.transport import Observer, Server, SignInRequiredError, transport_to

logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_START_SECONDS = 60.0
"""The first `npx` or `uvx` of a machine downloads the server."""
MAX_BACK_OFF_SECONDS = 60.0
SETTLEMENT_BACK_OFF_SECONDS = 5.0
"""The longest back-off before a settlement, for which no user waits: it is made as soon as the server is back."""
MAX_RECEIVED = 5_000
"""The number of messages from a server between two requests at which the session is closed."""
LEAVE_SECONDS = 10.0
"""Limit for closing. The SDK closes the pipe of a child process, terminates it, then kills it, in less time."""


def start_seconds(timeout: float, start_timeout: float | None) -> float:
    """Return the seconds for connecting: `start_timeout`, or a `timeout` that was chosen, or `DEFAULT_START_SECONDS`."""
    chosen = None if timeout == DEFAULT_CALL_SECONDS else timeout
    return start_timeout or chosen or DEFAULT_START_SECONDS


class Session:
    """A connection that is opened in the background on creation and used until it is `dead`. It belongs to its event loop."""

    def __init__(
        self, server: Server, connect_seconds: float, name: str = "", on_failure: Callable[[], None] = lambda: None
    ) -> None:
        """`on_failure` is called once, when the connection fails or is lost."""
        self._on_failure = on_failure
        self._server = server
        self._name = f" '{name}'" if name else ""
        self._connect_seconds = connect_seconds
        self.loop = asyncio.get_running_loop()
        self.tools: list[Tool] = []
        self.dead = False
        self.failure: str | None = None
        """The reason for which the connection failed or was lost, in a few words without text of the server."""
        self._stderr = b""
        self.stale = False
        """True after the server has announced that its tools have changed."""
        self.received = 0
        """Messages from a server outside this process since the last request."""
        self.left_out: dict[str, str] = {}
        """The tools of the list that cannot be used, and why."""
        self.closed = False
        """True after the connection has ended."""
        self._requests = 0
        """The number of requests that wait for an answer."""
        self._limit: asyncio.Timeout | None = None
        """The time limit of connecting."""
        self._leaving = asyncio.Event()
        self._ready: asyncio.Future[ClientSession | None] = self.loop.create_future()
        # An empty context, because the session outlives the turn that opens it and must not inherit its deadline.
        self._owner = self.loop.create_task(self._run(), name="mcp-session", context=Context())

    async def wait_until_open(self, seconds: float) -> ClientSession | None:
        """Return the open session, or None if it cannot be opened within `seconds`."""
        if not self._ready.done():
            await asyncio.wait({self._ready}, timeout=seconds)
        return self._ready.result() if self._ready.done() else None

    @property
    def open(self) -> bool:
        """True after the connection was opened, until it is lost or closed."""
        return not self.dead and self._ready.done() and self._ready.result() is not None

    @property
    def explanation(self) -> str | None:
        """The reason for which the connection failed, with the last line of the command's stderr; None if it has not failed."""
        if self.failure is None:
            return None
        before, _, last = self._stderr.decode("utf-8", "replace").strip().rpartition("\n")
        if not before and len(self._stderr) >= MAX_STDERR_BYTES:
            # Its beginning is missing: a secret value that was cut could not be found and hidden.
            return f"{self.failure}; the last line of its stderr is too long"
        return f"{self.failure}; the last line of its stderr: {last}" if last else self.failure

    async def leave(self) -> None:
        """Close the connection and wait for it, at most `LEAVE_SECONDS`."""
        self._leaving.set()
        done, _ = await asyncio.wait({self._owner}, timeout=LEAVE_SECONDS)
        if not done:
            self._owner.cancel()

    @contextlib.contextmanager
    def requesting(self) -> Iterator[None]:
        """Keep a connection that is retired open for one request."""
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            if self.dead and not self._requests:
                self.abandon()

    def retire(self) -> None:
        """Send no more requests, and close the connection after those that are running, which may be of other users."""
        self.dead = True
        # The requests of another loop cannot be waited for: that loop may have ended.
        if not self._requests or self.loop is not asyncio.get_running_loop():
            self.abandon()

    def abandon(self) -> None:
        """Close the connection without waiting, from any thread. If the loop is closed, the connection is closed too."""
        self.dead = True
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._leaving.set)

    async def _run(self) -> None:
        self._limit = asyncio.timeout(self._connect_seconds)
        try:
            async with contextlib.AsyncExitStack() as stack:
                transport = transport_to(self._server, self._observer())
                async with self._limit:
                    # No response cache: the tool list is requested once, and every other request must reach the server.
                    client = await stack.enter_async_context(Client(transport, cache=None, message_handler=self._on_message))
                    self.tools = await all_tools(client.session)
                self._ready.set_result(client.session)
                async with asyncio.TaskGroup() as tasks:
                    subscription = tasks.create_task(self._subscribe(client))
                    await self._leaving.wait()
                    subscription.cancel()
        except Exception as error:
            self._fail(_reason(error))
            logger.warning("the connection to the MCP server%s failed (%s)", self._name, self.failure)
        finally:
            self.dead = self.closed = True
            if not self._ready.done():
                self._ready.set_result(None)

    def _observer(self) -> Observer:
        return Observer(
            is_open=lambda: self.open,
            on_closed=self._on_closed,
            # The next request opens another session.
            on_session_ended=self.retire,
            on_received=self._on_received,
            on_stderr=self._on_stderr,
            on_left_out=self.left_out.__setitem__,
        )

    async def relist(self, opened: ClientSession, seconds: float) -> None:
        """Read the tools again. If that fails, the session is closed: it is not known what its tools are now."""
        self.stale = False
        self.left_out.clear()
        tools = await attempt(all_tools(opened), seconds)
        if isinstance(tools, list):
            self.tools = tools
        else:
            self.retire()

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to changes of the tools, as protocol 2026-07-28 requires; earlier versions send notifications unasked."""
        if isinstance(self._server, MCPServer):
            return  # The tools of a server in this process are as constant as its code.
        # Many servers have no subscriptions, and a lost one must not end the session.
        with contextlib.suppress(Exception):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.stale = True

    async def _on_message(self, message: object) -> None:
        self.stale |= isinstance(message, ToolListChangedNotification)

    def _on_received(self) -> None:
        """Count a message: a flood of any kind closes the session, also of pings and of answers to nothing."""
        self.received += 1
        if self.received == MAX_RECEIVED:
            logger.warning("the MCP server%s sends too many unsolicited messages; its connection is closed", self._name)
            self._on_closed()

    def _on_closed(self) -> None:
        """Mark the session dead after the server has closed the connection, so that no call is sent into it."""
        if not self.dead and not self._leaving.is_set():
            self._fail("it closed the connection")
        self.dead = self.closed = True
        self._leaving.set()

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self._on_failure()
        # At its time limit the connection is closed by us, which the SDK reports as closed by the server.
        self.failure = _REASONS[TimeoutError] if self._limit is not None and self._limit.expired() else reason

    def _on_stderr(self, end: bytes) -> None:
        self._stderr = end


async def attempt(work: Awaitable[T], seconds: float) -> T | BaseException | None:
    """Return the result of `work`, its exception, or None after `seconds`, even if `work` ignores cancellation.

    A CancelledError of `work` is returned like any other exception; only that of the caller is raised. After a timeout `work`
    is cancelled but not awaited.
    """
    task = await wait_for_task(seconds, work)
    if task is None:
        return None
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


NO_COMMAND = "there is no such command or folder"

_REASONS: Mapping[type[BaseException], str] = {
    FileNotFoundError: NO_COMMAND,
    PermissionError: "the command may not be run",
    TimeoutError: "it does not answer in time",
    httpx2.ConnectError: "nothing answers at its address",
    RefusedAddressError: "its address is not allowed",
    SignInRequiredError: "it asks for a sign-in or another token (`graph-agent tools sign-in`)",
    InsecureUrlError: "its URL is plain http: and leads to another machine",
}


def _reason(error: BaseException) -> str:
    """Return the reason of a failure in words: the text of our own errors, a sentence or the type of all others."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(dict.fromkeys(_reason(part) for part in error.exceptions))
    if isinstance(error, ListError):
        return str(error)
    if isinstance(error, MCPError):
        return "it closed the connection" if error.code == CONNECTION_CLOSED else f"it answered with the MCP error {error.code}"
    return next((words for kind, words in _REASONS.items() if isinstance(error, kind)), type(error).__name__)


class CircuitBreaker:
    """Counts failed connections of one server, which is not connected to again during a back-off.

    The first failure is retried at once; each further one doubles the back-off, which begins with one second.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._failed_at = 0.0
        self._open_until = 0.0

    @property
    def failing(self) -> bool:
        """True if the last connection has failed and no request was answered since."""
        return self._failures > 0

    @property
    def open(self) -> bool:
        """True during a back-off: no connection is attempted."""
        return self.open_for(MAX_BACK_OFF_SECONDS)

    def open_for(self, back_off: float) -> bool:
        """True during a back-off of at most so many seconds."""
        return self._clock.monotonic() < min(self._open_until, self._failed_at + back_off)

    def record_failure(self) -> None:
        self._failures += 1
        self._failed_at = self._clock.monotonic()
        if self._failures > 1:
            # The exponent is limited, because the power overflows a float after about a thousand failures.
            self._open_until = self._failed_at + min(MAX_BACK_OFF_SECONDS, 2.0 ** min(self._failures - 2, 16))

    def record_success(self) -> None:
        self._failures, self._open_until = 0, 0.0
