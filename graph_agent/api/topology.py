"""GET /api/topology: the state machine, as `graph/topology.py` declares it."""

from __future__ import annotations

from fastapi import APIRouter, Request

from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.schemas import errors
from graph_agent.graph.topology import END, START, TOPOLOGY
from graph_agent.models.base import Frozen

router = APIRouter(prefix="/api", tags=["topology"])


class Edge(Frozen):
    """A node that ends with `outcome` is followed by `target`."""

    source: str
    outcome: str
    target: str


class Topology(Frozen):
    """The states and edges of the state machine, and how many tool rounds a turn makes at most."""

    start: str
    end: str
    states: list[str]
    edges: list[Edge]
    max_iterations: int


@router.get("/topology", responses=errors(401, 403, 503))
async def topology(request: Request, caller: AuthenticatedCaller) -> Topology:  # noqa: ARG001 (only callers may ask)
    """Return the states and edges of the state machine."""
    edges = [
        Edge(source=state, outcome=outcome, target=target)
        for state, outcomes in TOPOLOGY.items()
        for outcome, target in outcomes.items()
    ]
    cap: int = request.app.state.runtime.engine.config.max_iterations
    return Topology(start=START, end=END, states=list(TOPOLOGY), edges=edges, max_iterations=cap)
