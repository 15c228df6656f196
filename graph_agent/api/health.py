"""GET /healthz: the process is alive. GET /readyz: the process can run turns."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from graph_agent.api.bodies import Health, errors
from graph_agent.api.services import services
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.ports import Clock

_log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

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
