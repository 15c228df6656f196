"""The FastAPI application: routes, middleware, and the sweeper that runs as long as the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from operator import attrgetter
from types import ModuleType
from typing import Any

from fastapi import APIRouter, FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute

from graph_agent.api import (
    about,
    behavior,
    chat,
    decisions,
    errors,
    mandates,
    monitoring,
    oidc,
    questions,
    replay,
    rules,
    stops,
    tasks,
    transparency,
    undo,
)
from graph_agent.api.authenticator import authenticator
from graph_agent.api.bodies import MESSAGES, add_schemas
from graph_agent.api.brand import Brand
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.errors import envelope
from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.middleware import Refuse, layers_before, refuse_other_hosts, refuse_other_origins
from graph_agent.api.oidc_issuer import oidc_issuer
from graph_agent.api.public_address import PublicAddress, RemovePath
from graph_agent.api.server_metrics import DueDepths, OpenRequests, server_metrics
from graph_agent.api.services import ApiServices
from graph_agent.api.sse import StreamPlaces
from graph_agent.api.static_page import (
    Page,
    SignInWay,
    description_router,
    document_response,
    is_page_request,
    page_router,
    wants_document,
)
from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.api.worker_metrics import WorkerMetrics
from graph_agent.api.write_check import WriteCheck
from graph_agent.bootstrap.extras import extra_needed, import_extra, import_opentelemetry
from graph_agent.bootstrap.record_tree import seal_if_possible
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.toolbox import acting_as_users
from graph_agent.chat.stream import TurnStream
from graph_agent.errors import ConfigurationError, ServiceError
from graph_agent.models.mandate import PlanChoice
from graph_agent.replays.pool import ReplayPool

_log = logging.getLogger(__name__)

SEAL_SECONDS = 1.0
MAX_STREAMS = 1024
"""The number of event streams that one process serves at the same time."""
_AGUI = "graph_agent.integrations.agui"
# The operations of a generated client have the names of the functions: `chat`, not `chat_api_chat_post`.
_OPERATION_ID = attrgetter("name")


def create_app(
    runtime: Runtime,
    page: Page | None = None,
    launch: LaunchSession | None = None,
    *,
    metrics_port: int | None = None,
    worker_metrics: WorkerMetrics | None = None,
    local_roles: Sequence[str] = (),
) -> FastAPI:
    """Return the API over `runtime`, which the caller opens and closes, and the page. Raises `ConfigurationError`.

    Without authentication every client that reaches the port is the local user, who has the `local_roles`, unless `launch` asks
    for the launch token.
    Without the page `/` describes the API. Requests that arrive on `metrics_port` get `/metrics` and nothing else: the
    metrics of this process, or those of all workers that exchange them by `worker_metrics`.
    """
    settings = runtime.settings
    way: SignInWay = "link" if not settings.authenticates else "bearer" if settings.oidc_issuer is None else "oidc"
    page = page and page.branded(Brand.of(settings))

    def document(status: int) -> Refuse:
        """Return what answers a browser that opens an address which it is refused."""
        return lambda request: document_response(page, way, request, status) if page and wants_document(request) else None

    refusals: list[Refuse] = [partial(monitoring.refuse_on_other_port, metrics_port), refuse_other_origins]
    if not settings.authenticates:
        refusals.insert(1, refuse_other_hosts)
    if launch is not None:
        refusals.append(partial(launch.refuse, open_to_all=is_page_request if page else None, instead=document(401)))
    layers = layers_before(refusals)
    address = PublicAddress(settings.public_url or "")
    if address.path:
        layers.insert(0, Middleware(RemovePath, address.path))
    if settings.otel:
        layers.append(Middleware(import_opentelemetry("spans").TraceParent))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        background = {asyncio.create_task(runtime.chat.serve_due_forever()), asyncio.create_task(_seal_forever(runtime))}
        if shared.metrics is not None:
            for counted in (open_requests, depths):
                await counted.count()
                background.add(asyncio.create_task(counted.count_forever()))
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(runtime.chat.listen())
                if worker_metrics is not None and shared.metrics is not None:
                    await stack.enter_async_context(worker_metrics.serve(shared.metrics.text))
                yield
        finally:
            for task in background:
                task.cancel()
            await asyncio.to_thread(shared.replays.close)
            await asyncio.wait(background)
            await runtime.chat.aclose()
            shared.open_turns = await _finish_remaining_turns(runtime)
            if shared.metrics is not None:
                await asyncio.to_thread(shared.metrics.close)

    open_requests = OpenRequests(runtime.chat.approvals, runtime.audit.permit)
    depths = DueDepths(runtime.database)
    one_user = not settings.authenticates
    admission = TurnAdmission(runtime.engine.config, one_user=one_user)
    caller = authenticator(settings, local_roles, act_as_users=bool(acting_as_users(settings)))
    shared = ApiServices(
        runtime,
        caller,
        admission,
        stream=TurnStream(runtime.chat, runtime.engine),
        streams=StreamPlaces(MAX_STREAMS, one_user=one_user),
        replays=ReplayPool(build=runtime.build_graph),
        replay_streams=StreamPlaces(replay.MAX_STREAMS, one_user=one_user),
        analyses=StreamPlaces(rules.MAX_ANALYSES, one_user=one_user),
        write_check=WriteCheck(runtime.chat.check_writable, runtime.clock),
        metrics=server_metrics(runtime, admission, open_requests, depths)
        if metrics_port is not None or settings.otel
        else None,
        worker_metrics=worker_metrics,
        oidc=oidc_issuer(settings, caller),
    )
    app = _Api(
        routes=_routes(_agui_module(), secured=settings.authenticates or launch is not None),
        title="graph-agent",
        summary="A message goes in, a governed decision comes out.",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": address.url}] if address.url else None,
        redirect_slashes=False,
        generate_unique_id_function=_OPERATION_ID,
        middleware=layers,
        lifespan=lifespan,
        # FastAPI must not export telemetry because OTEL_* variables are set for another program.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.services = shared
    address.install(app)
    errors.install(app, document(404))
    if shared.oidc is not None:
        app.include_router(oidc.router)
    app.include_router(description_router() if page is None else page_router(page, way, launch))
    return app


@cache
def _routes(agui: ModuleType | None, *, secured: bool) -> list[BaseRoute]:
    """Return the routes that every application has: once for the process, because FastAPI works for 65 ms on a copy of them."""
    routes = APIRouter(generate_unique_id_function=_OPERATION_ID)
    # Each route authenticates its caller itself; this declares the scheme in OpenAPI.
    scheme = [Security(HTTPBearer(auto_error=False))] if secured else []
    for module in (about, chat, questions, mandates, decisions, undo, replay, rules, stops, behavior, tasks):
        routes.include_router(module.router, dependencies=scheme)
    routes.include_router(_route_without_agui() if agui is None else agui.router, dependencies=scheme)
    for module in (monitoring, transparency):
        routes.include_router(module.router)
    return routes.routes


def _agui_module() -> ModuleType | None:
    try:
        return import_extra(_AGUI, "agui")
    except ConfigurationError:
        return None


def _route_without_agui() -> APIRouter:
    router = APIRouter()

    @router.post("/agui", include_in_schema=False)
    async def missing_extra(_caller: AuthenticatedCaller) -> Response:
        return envelope(404, "NOT_FOUND", f"{extra_needed('agui', 'POST /agui')}.")

    return router


class _Api(FastAPI):
    """An application whose OpenAPI document declares the bodies that the routes read themselves, too."""

    def openapi(self) -> dict[str, Any]:
        replays = (replay.OtherRules, replay.ReplayRequest, replay.FlowsRequest)
        asked = (
            *replays,
            rules.RulesRequest,
            rules.RowRequest,
            rules.DiffRequest,
            questions.QuestionAnswerRequest,
            stops.StopRequest,
            PlanChoice,
        )
        return add_schemas(super().openapi(), (*MESSAGES, *asked))


async def _finish_remaining_turns(runtime: Runtime) -> int | None:
    """Finish the turns that could not be closed during the shutdown; return how many are still open, None if unknown."""
    try:
        await runtime.chat.serve_due()
        return await runtime.chat.open_turns()
    except ServiceError as exc:
        _log.error("the turns of this process cannot be read: %s", exc)
        return None


async def _seal_forever(runtime: Runtime) -> None:
    """Seal the log at most once a second, and only if this process has closed a decision."""
    while True:
        await runtime.audit.closed.wait()
        runtime.audit.closed.clear()
        await seal_if_possible(runtime.tree)
        await asyncio.sleep(SEAL_SECONDS)
