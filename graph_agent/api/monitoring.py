"""GET /healthz: the process is alive. GET /readyz: the process can run turns. GET /metrics: the metrics for Prometheus.

The metrics are served on a separate port, if the extra `otel` is installed. Each worker of a server gives its metrics to
the others over a Unix socket, so any can answer a scrape.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from graph_agent.api.bodies import Health, errors
from graph_agent.api.errors import ROUTING_ERRORS, envelope
from graph_agent.api.services import services
from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.ports import Clock

if TYPE_CHECKING:
    from graph_agent.integrations.opentelemetry.metrics import ServerMetrics

_log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

PATH = "/metrics"

CHECK_SECONDS = 3.0
WRITE_SECONDS = 1.0
"""The shortest time between two writes of the same check."""


@router.get("/healthz", response_model=Health, responses=errors(403))
async def healthz() -> JSONResponse:
    """Return `ok`."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=Health, responses=errors(403, 503))
async def readyz(request: Request) -> JSONResponse:
    """Return `ready` if the database takes a write, and all MCP servers answer and serve every tool of the constitution.

    `clock_skew_seconds` says how far this host's clock is ahead of the database's; it is negative if it is behind.
    """
    runtime = services(request).runtime
    skews: list[float] = []
    checks: dict[str, Awaitable[object]] = {
        "database": _takes_writes(runtime, services(request).write_check, skews),
        **{f"MCP server '{name}'": executor.ready() for name, executor in runtime.tools.executors.items()},
        "constitution": runtime.engine.prepare(),
    }
    passed = await asyncio.gather(*(_passes(name, check) for name, check in checks.items()))
    failing = [name for name, ok in zip(checks, passed, strict=True) if not ok]
    if failing:
        raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, f"Not ready: {', '.join(failing)}.")
    return JSONResponse({"status": "ready", "clock_skew_seconds": round(skews[0], 3)})


class WriteCheck:
    """A test write to the database. It is made at most once in `WRITE_SECONDS`, however often the endpoint is called."""

    def __init__(self, write: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._writing = asyncio.Lock()
        self._written_at = -math.inf

    async def pass_or_raise(self) -> None:
        """Return if the last test write succeeded, or raise its exception. Writes again if the last success is too old."""
        async with self._writing:
            now = self._clock.monotonic()
            if now - self._written_at >= WRITE_SECONDS:
                await self._write()
                self._written_at = now


async def _takes_writes(runtime: Runtime, check: WriteCheck, skews: list[float]) -> None:
    """Write and read, and add the skew of the clock to `skews`."""
    await check.pass_or_raise()
    skews.append(await runtime.database.skew(runtime.clock))


async def _passes(name: str, check: Awaitable[object]) -> bool:
    """True unless the check fails, returns False or takes too long."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check is not False
    except Exception as exc:
        _log.warning("not ready: %s", name, exc_info=exc)
        return False


@router.get(PATH, include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the metrics, those of several workers with the label `worker`; 404 without the extra."""
    found = services(request).metrics
    if found is None:
        raise HTTPException(404)
    workers = services(request).worker_metrics
    text = found.text() if workers is None else found.merged(await workers.texts())
    return Response(text, media_type=found.media_type)


def refuse_on_other_port(port: int | None, request: Request) -> Response | None:
    """Refuse `/metrics` on all ports but `port`, and everything else on that one.

    The port is that of the socket, so a Host header cannot change it.
    """
    server = request.scope.get("server")
    on_own_port = port is not None and server is not None and server[1] == port
    return None if on_own_port == (request.scope["path"] == PATH) else envelope(404, *ROUTING_ERRORS[404])


def server_metrics(runtime: Runtime, admission: TurnAdmission) -> ServerMetrics | None:
    """Return the metrics of a server, which count its turns from now on; None if the extra is not installed."""
    try:
        # Imported here, because the extra may not be installed.
        from graph_agent.integrations.opentelemetry.metrics import ServerMetrics
    except ImportError:
        return None

    def refusals() -> Counter[str]:
        return Counter({"BUSY": admission.refused}) + Counter({key.value: n for key, n in runtime.chat.refusals.items()})

    found = ServerMetrics(
        gauges={
            "graph_agent_open_turns": lambda: {"": runtime.engine.open_turns},
            "graph_agent_admitted_turns": lambda: {"": admission.in_flight.total},
            "graph_agent_admission_queue": lambda: {"": admission.waiting.total},
            "graph_agent_admission_limit": lambda: {"": admission.max_in_flight},
        },
        refusals=refusals,
        export=runtime.settings.otel,
    )
    runtime.engine.add_hook(lambda: found)
    admission.on_refusal = found.refusal_duration.record
    return found


ANSWER_SECONDS = 2.0
"""A worker that does not answer in this time is left out of a scrape."""


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """The sockets of the workers, in a folder that only their user can open."""

    folder: Path
    number: int
    """The number of this worker; one that is restarted keeps it."""

    @asynccontextmanager
    async def serve(self, text: Callable[[], bytes]) -> AsyncGenerator[None]:
        """Give the metrics of this process to the other workers."""

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(text())
            writer.close()

        async with await asyncio.start_unix_server(answer, self.folder / str(self.number)):
            yield

    async def texts(self) -> dict[str, str]:
        """Return the metrics of each worker that answers, by its number."""
        sockets = sorted(self.folder.iterdir(), key=lambda path: int(path.name))
        answers = await asyncio.gather(*map(_read, sockets), return_exceptions=True)
        return {path.name: answer for path, answer in zip(sockets, answers, strict=True) if isinstance(answer, str)}


async def _read(path: Path) -> str:
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()
