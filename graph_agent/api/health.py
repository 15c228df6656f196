"""GET /healthz: the process is alive. GET /readyz: the process can run turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from graph_agent.api.schemas import Health, errors
from graph_agent.db import Database
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.record.spool import Spool, SpoolingAuditWriter

_log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

CHECK_SECONDS = 3.0


@router.get("/healthz", response_model=Health, responses=errors(403))
async def healthz() -> JSONResponse:
    """Return `ok`."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=Health, responses=errors(403, 503))
async def readyz(request: Request) -> JSONResponse:
    """Return `ready` if both databases and all MCP servers answer, and they serve every tool of the constitution."""
    runtime: Any = request.app.state.runtime
    checks = {
        "task database": _answers(runtime.task_database),
        "log database": _answers(runtime.log_database),
        **{f"MCP server '{name}'": executor.ready() for name, executor in runtime.tools.executors.items()},
        "constitution": _prepared(runtime.engine),
    }
    if isinstance(runtime.audit, SpoolingAuditWriter):
        checks["spool"] = _usable(runtime.audit.spool)
    passed = await asyncio.gather(*(_passes(name, check) for name, check in checks.items()))
    failing = [name for name, ok in zip(checks, passed, strict=True) if not ok]
    if failing:
        raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, f"Not ready: {', '.join(failing)}.")
    return JSONResponse({"status": "ready"})


async def _answers(database: Database) -> bool:
    return await database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar()) == 1


async def _usable(spool: Spool) -> bool:
    await asyncio.to_thread(spool.require_usable)
    return True


async def _prepared(engine: Any) -> bool:
    await engine.prepare()
    return True


async def _passes(name: str, check: Awaitable[bool]) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check
    except Exception as exc:
        _log.warning("not ready: %s", name, exc_info=exc)
        return False
