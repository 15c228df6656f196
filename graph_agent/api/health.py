"""GET /healthz: the process is alive. GET /readyz: it can serve turns."""

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

_log = logging.getLogger(__name__)

router = APIRouter(tags=["health"])

CHECK_SECONDS = 3.0


@router.get("/healthz", response_model=Health, responses=errors(403))
async def healthz() -> JSONResponse:
    """Always `ok`, as long as somebody can answer at all."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=Health, responses=errors(403, 503))
async def readyz(request: Request) -> JSONResponse:
    """`ready`, if both databases and the tool server answer and the constitution fits what is served."""
    runtime: Any = request.app.state.runtime
    checks = {
        "task database": _answers(runtime.task_database),
        "log database": _answers(runtime.log_database),
        "tools": runtime.tools.ready(),
        "constitution": _prepared(runtime.engine),
    }
    fine = await asyncio.gather(*(_passes(name, check) for name, check in checks.items()))
    failing = [name for name, passes in zip(checks, fine, strict=True) if not passes]
    if failing:
        raise ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, f"Not ready: {', '.join(failing)}.")
    return JSONResponse({"status": "ready"})


async def _answers(database: Database) -> bool:
    return await database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar()) == 1


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
