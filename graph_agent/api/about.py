"""GET /api/about, /api/topology and /api/constitution: what this server is for, how it decides, and by which policy.

GET, POST and DELETE /api/session: who is signed in, keeping a browser signed in, and signing out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

from fastapi import APIRouter, Request
from starlette.responses import Response

from graph_agent.api.bodies import errors
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.cookies import SESSION, USER_TOKEN
from graph_agent.api.services import services
from graph_agent.errors import ConfigurationError, ServiceError
from graph_agent.graph.build import gates_of, topology_of
from graph_agent.graph.topology import END, START
from graph_agent.models.base import Frozen
from graph_agent.net.bearer_tokens import bearer_token
from graph_agent.policy import allowed_tools
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.words.outcomes import MEANINGS, OF_OUTCOMES, OF_TYPES, EndingKind, kind_of_outcome

router = APIRouter(prefix="/api")

_VIEWS = ("chat", "inbox", "decisions")
_OPERATOR_VIEWS = ("lab", "behavior")
_HEADING = re.compile(r"^# +(?!constitution\b)(\S.*?) *$", re.IGNORECASE | re.MULTILINE)
_ROLE = re.compile(r"\bYou are (?:an? |the )?([^.,;:\n]{3,80})")


class OutcomeWords(Frozen):
    """An outcome, or a category of outcomes, in words."""

    code: str
    words: str
    kind: EndingKind
    meaning: str | None
    """None for a category."""


class TypeWords(Frozen):
    """A decision type in words."""

    code: str
    words: str


_OUTCOMES = [
    OutcomeWords(code=code, words=words, kind=kind_of_outcome(code), meaning=MEANINGS.get(code))
    for code, words in OF_OUTCOMES.items()
]
_TYPES = [TypeWords(code=code, words=words) for code, words in OF_TYPES.items()]


class About(Frozen):
    """The title, examples and views that a client can show before the first message."""

    title: str
    examples: list[str]
    """Two messages that change nothing."""
    views: list[str]
    """The views that make sense for the caller with these tools; `tasks` is the task list beside the chat.

    Auditors, and the local user of a server without sign-in, have `lab` and `behavior`, too.
    """
    disclosure: str | None
    """The line that says that one talks to an AI; None if it is switched off."""
    outcomes: list[OutcomeWords]
    types: list[TypeWords]
    starting: str | None
    """The MCP servers that are still starting, and for how long; None if none is. Their tools cannot be called yet."""


@router.get("/about", tags=["topology"], responses=errors(401, 403, 503))
async def about(request: Request, caller: AuthenticatedCaller) -> About:
    """Return a title, two examples that change nothing, and the views that make sense here."""
    runtime = services(request).runtime
    engine = runtime.engine
    rules: Iterable[ToolRule] = ()
    # Without its tools a server can still say what it is for, and it does not wait for those that are starting.
    if runtime.started is None or runtime.started.done():
        with suppress(ConfigurationError, ServiceError):
            rules = (await engine.prepare()).policy.rules.values()
    has_tasks = set(engine.constitution.whitelist) >= allowed_tools.ALLOWED_TOOLS
    reading = "show my tasks" if has_tasks else _reading_example(rules)
    is_operator = services(request).authenticator.is_operator(caller)
    return About(
        title=_title(engine.constitution.text),
        examples=[reading, "what can you do?"],
        views=[*_VIEWS, *(_OPERATOR_VIEWS if is_operator else ()), *(["tasks"] if has_tasks else [])],
        disclosure=runtime.settings.disclosed,
        outcomes=_OUTCOMES,
        types=_TYPES,
        starting=None if runtime.started is None else runtime.tools.starting,
    )


def _title(constitution: str) -> str:
    """Return the heading of the constitution, or the role that it gives to the model."""
    found = _HEADING.search(constitution) or _ROLE.search(constitution)
    return found[1][:1].upper() + found[1][1:] if found else "graph_agent"


def _reading_example(rules: Iterable[ToolRule]) -> str:
    """Return the action of a tool that only reads, if possible of one that needs no arguments."""
    reading = [rule for rule in rules if not rule.mutating]
    best = min(reading, key=lambda rule: len(rule.declaration.parameters.get("required", ())), default=None)
    return "what do I have to confirm?" if best is None else best.title


class Edge(Frozen):
    """A node that ends with `outcome` is followed by `target`."""

    source: str
    outcome: str
    target: str


class GateLine(Frozen):
    """A gate between a call and its effect."""

    name: str
    decides: str
    """The clause that holds for a call that passes."""
    reads: str | None
    """The evidence that is read for it."""


class Topology(Frozen):
    """The states and edges of the state machine, the gates in their order, and how many tool rounds a turn makes at most."""

    start: str
    end: str
    states: list[str]
    edges: list[Edge]
    gates: list[GateLine]
    max_iterations: int


@router.get("/topology", tags=["topology"], responses=errors(401, 403, 503))
async def topology(request: Request, caller: AuthenticatedCaller) -> Topology:  # noqa: ARG001 (only callers may ask)
    """Return the states and edges of the state machine, and the gates between a call and its effect."""
    engine = services(request).runtime.engine
    table = topology_of(engine.graph)
    edges = [
        Edge(source=state, outcome=outcome, target=target)
        for state, outcomes in table.items()
        for outcome, target in outcomes.items()
    ]
    gates = [GateLine(name=gate.name, decides=gate.decides, reads=gate.reads) for gate in gates_of(engine.graph)]
    most = engine.config.max_iterations
    return Topology(start=START, end=END, states=list(table), edges=edges, gates=gates, max_iterations=most)


class GrantedTool(Frozen):
    """One line of the whitelist."""

    name: str
    summary: str
    title: str
    """The summary for people: an ellipsis stands for each value of its sentence."""
    requires_confirmation: bool
    max_per_message: int | None


class ConstitutionText(Frozen):
    """The constitution in force: its text, the digest that records reference, its whitelist, and the conditions beside it."""

    digest: str
    text: str
    tools: list[GrantedTool]
    conditions: str | None
    """The text of the conditions in force; None without any."""


@router.get("/constitution", tags=["topology"], responses=errors(401, 403, 503))
async def constitution(request: Request, caller: AuthenticatedCaller) -> ConstitutionText:  # noqa: ARG001 (only callers may ask)
    """Return the constitution and the conditions in force."""
    engine = services(request).runtime.engine
    found = engine.constitution
    conditions = (await engine.prepare()).policy.conditions
    tools = [GrantedTool.model_validate(grant, from_attributes=True) for grant in found.grants]
    text = None if conditions is None else conditions.file.text
    return ConstitutionText(digest=found.digest, text=found.text, tools=tools, conditions=text)


class SignedInUser(Frozen):
    """The signed-in user. An auditor reads the decisions of all users."""

    user_id: str
    auditor: bool


@router.get("/session", tags=["session"], responses=errors(401, 403, 503))
async def session(caller: AuthenticatedCaller) -> SignedInUser:
    """Return the signed-in user."""
    return SignedInUser(user_id=caller.user_id, auditor=caller.is_auditor)


@router.post("/session", tags=["session"], status_code=204, response_class=Response, responses=errors(401, 403, 503))
async def keep_signed_in(request: Request, caller: AuthenticatedCaller) -> Response:
    """Give this browser a session in a cookie that scripts cannot read. It ends with the bearer token, or after 8 hours."""
    answer = Response(status_code=204)
    token = bearer_token(request.headers.get("authorization"))
    services(request).authenticator.keep_signed_in(request, answer, caller, token, caller.expires_at)
    return answer


@router.delete("/session", tags=["session"], status_code=204, response_class=Response, responses=errors(401, 403, 503))
async def sign_out(request: Request, caller: AuthenticatedCaller) -> Response:  # noqa: ARG001 (others get 401)
    """Sign this browser out: delete the cookie of its session. A bearer token stays valid until it expires."""
    answer = Response(status_code=204)
    SESSION.delete(request, answer)
    USER_TOKEN.delete(request, answer)
    return answer
