"""GET /api/topology and /api/constitution: the state machine that decides, and the policy it decides by."""

from __future__ import annotations

from fastapi import APIRouter, Request

from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.schemas import errors
from graph_agent.api.services import services
from graph_agent.graph.build import topology_of
from graph_agent.graph.topology import END, START
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
    engine = services(request).runtime.engine
    table = topology_of(engine.graph)
    edges = [
        Edge(source=state, outcome=outcome, target=target)
        for state, outcomes in table.items()
        for outcome, target in outcomes.items()
    ]
    return Topology(start=START, end=END, states=list(table), edges=edges, max_iterations=engine.config.max_iterations)


class GrantedTool(Frozen):
    """One line of the whitelist."""

    name: str
    summary: str
    requires_confirmation: bool
    max_per_message: int | None


class ConstitutionText(Frozen):
    """The constitution in force: its text, the digest that records reference, and the whitelist that it contains."""

    digest: str
    text: str
    tools: list[GrantedTool]


@router.get("/constitution", responses=errors(401, 403, 503))
async def constitution(request: Request, caller: AuthenticatedCaller) -> ConstitutionText:  # noqa: ARG001 (only callers may ask)
    """Return the constitution in force."""
    found = services(request).runtime.engine.constitution
    tools = [
        GrantedTool(
            name=grant.name,
            summary=grant.summary,
            requires_confirmation=grant.requires_confirmation,
            max_per_message=grant.max_per_message,
        )
        for grant in found.grants
    ]
    return ConstitutionText(digest=found.digest, text=found.text, tools=tools)
