"""The services that the routes of one application share."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI, Request

from graph_agent.api.authenticator import Authenticator
from graph_agent.api.oidc_issuer import OidcIssuer
from graph_agent.api.server_metrics import ServerMetrics
from graph_agent.api.sse import StreamPlaces
from graph_agent.api.turn_admission import TurnAdmission
from graph_agent.api.worker_metrics import WorkerMetrics
from graph_agent.api.write_check import WriteCheck
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.stream import TurnStream
from graph_agent.replays.pool import ReplayPool


@dataclass
class ApiServices:
    """Everything that a route may use."""

    runtime: Runtime
    authenticator: Authenticator
    turn_admission: TurnAdmission
    stream: TurnStream
    streams: StreamPlaces
    replays: ReplayPool
    replay_streams: StreamPlaces
    analyses: StreamPlaces
    write_check: WriteCheck
    metrics: ServerMetrics | None
    worker_metrics: WorkerMetrics | None
    oidc: OidcIssuer | None
    open_turns: int | None = 0
    """Set at the end of the lifespan: the number of turns that this process leaves open, None if that is unknown."""


def services_of(app: FastAPI) -> ApiServices:
    """Return the services of an application that `create_app` has made."""
    found: ApiServices = app.state.services
    return found


def services(request: Request) -> ApiServices:
    """Return the services of the application that serves `request`."""
    return services_of(request.app)
