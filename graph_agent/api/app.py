"""The application: routes, what stands around them, and what happens while it is up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.middleware import Middleware

from graph_agent.api import chat, conversations, decisions, errors, events, health
from graph_agent.api.admission import Admission
from graph_agent.api.auth import authenticator
from graph_agent.api.following import TurnEvents
from graph_agent.api.shields import LoopbackHostsOnly, SecurityHeaders
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.service import ChatService
from graph_agent.errors import ServiceError

_log = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0


def create_app(runtime: Runtime) -> FastAPI:
    """The API over `runtime`, which the caller opened and closes. Raises `ConfigurationError`."""
    settings = runtime.settings
    shields = [Middleware(SecurityHeaders), Middleware(errors.UnexpectedErrors)]
    if not settings.authenticates:
        shields.append(Middleware(LoopbackHostsOnly))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        sweeping = asyncio.create_task(_sweep_forever(runtime.chat))
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.wait({sweeping})
            await runtime.chat.aclose()

    app = FastAPI(
        title="graph-agent",
        summary="A message goes in, a governed decision comes out.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=shields,
        lifespan=lifespan,
        # Nothing leaves the machine because of what the environment holds for others.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.runtime = runtime
    app.state.authenticator = authenticator(settings)
    app.state.admission = Admission()
    app.state.watchers = Admission()
    app.state.events = TurnEvents(runtime.chat, runtime.engine)
    errors.install(app)
    for router in (chat.router, conversations.router, decisions.router, events.router):
        # The caller is found out by each route; this only tells OpenAPI.
        app.include_router(router, dependencies=[Security(HTTPBearer(auto_error=False))] if settings.authenticates else [])
    app.include_router(health.router)
    return app


async def _sweep_forever(chat_service: ChatService) -> None:
    """End what dead processes left, at once and every minute."""
    while True:
        try:
            ended = await chat_service.sweep()
            if ended:
                _log.info("ended %d turns that were left open", ended)
        except ServiceError as exc:
            _log.warning("the sweep has to wait: %s", exc.code)
        except Exception:
            _log.exception("the sweep failed")
        await asyncio.sleep(SWEEP_SECONDS)
