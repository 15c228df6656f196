"""GET /healthz: the process is alive. GET /readyz: the process can run turns. GET /metrics: the metrics for Prometheus.

The metrics are served on a separate port, and need the extra `otel`. Each worker of a server gives its metrics to
the others over a Unix socket, so any can answer a scrape.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from graph_agent.api.bodies import Health, errors
from graph_agent.api.errors import ROUTING_ERRORS, envelope
from graph_agent.api.services import services
from graph_agent.api.write_check import WriteCheck
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ServiceError, ServiceErrorCode

_log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

PATH = "/metrics"

CHECK_SECONDS = 3.0


@router.get("/healthz", response_model=Health, responses=errors(403))
async def healthz() -> JSONResponse:
    """Return `ok`."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=Health, responses=errors(403, 503))
async def readyz(request: Request) -> JSONResponse:
    """Return `ready` if the database takes a write, the log was not rolled back, and all MCP servers serve every granted tool.

    `clock_skew_seconds` says how far this host's clock is ahead of the database's; it is negative if it is behind.
    """
    runtime = services(request).runtime
    skews: list[float] = []
    checks: dict[str, Awaitable[object]] = {
        "database": _takes_writes(runtime, services(request).write_check, skews),
        **{f"MCP server '{name}'": executor.ready() for name, executor in runtime.tools.executors.items()},
        "constitution": runtime.engine.prepare(),
        "log": runtime.tree.require_continuation(),
    }
    passed = await asyncio.gather(*(_passes(name, check) for name, check in checks.items()))
    failing = [name for name, ok in zip(checks, passed, strict=True) if not ok]
    if failing:
        raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, f"Not ready: {', '.join(failing)}.")
    return JSONResponse({"status": "ready", "clock_skew_seconds": round(skews[0], 3)})


async def _takes_writes(runtime: Runtime, check: WriteCheck, skews: list[float]) -> None:
    """Write and read, and add the skew of the clock to `skews`."""
    await check.pass_or_raise()
    skews.append(await runtime.database.skew(runtime.clock))


async def _passes(name: str, check: Awaitable[object]) -> bool:
    """True unless the check fails, returns False or takes too long. Raises `ServiceError` RULES_UNAVAILABLE."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check is not False
    except Exception as exc:
        _log.warning("not ready: %s", name, exc_info=exc)
        if isinstance(exc, ServiceError) and exc.code is ServiceErrorCode.RULES_UNAVAILABLE:
            raise
        return False


@router.get(PATH, include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the metrics, those of several workers with the label `worker`."""
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
