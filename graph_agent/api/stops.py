"""Stops: every caller learns what is stopped for them; operators stop and resume."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, model_validator

from graph_agent.api.bodies import errors, json_body, read_model
from graph_agent.api.callers import AuthenticatedCaller, Operator
from graph_agent.api.services import services
from graph_agent.models.base import Frozen
from graph_agent.models.decision import StorableText
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.statements import read
from graph_agent.record.stops import end_stop, find_open_stops, place_stop
from graph_agent.record.tree.leaves import Sealer

router = APIRouter(prefix="/api/stops", tags=["stops"])

_MAX_TEXT = 500
_Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of a stop.")]


class StopRequest(Frozen):
    """A new stop."""

    scope: StopScope = Field(default=StopScope.EVERYTHING, description="What is stopped.")
    name: StorableText = Field(
        default="", max_length=255, description="The tool, the user or the MCP server; empty for everything."
    )
    changes_only: StrictBool = Field(default=False, description="True to stop only calls that may change something.")
    reason: StorableText = Field(min_length=1, max_length=_MAX_TEXT, description="Why. Users do not read it.")
    say: StorableText = Field(default="", max_length=_MAX_TEXT, description="The text that users read.")

    @model_validator(mode="after")
    def _named(self) -> Self:
        if bool(self.name) != (self.scope is not StopScope.EVERYTHING):
            raise ValueError("a stop of a tool, a user or a server needs its name, and one of everything has none")
        if not self.reason.strip():
            raise ValueError("a stop needs a reason")
        return self


class OpenStops(Frozen):
    """The stops in force that the caller may see, oldest first: an operator all, a user those of their own turns.

    Users do not see the reasons and the operators.
    """

    stops: list[Stop]
    may_stop: bool
    """True if the caller is an operator."""


@router.get("", responses=errors(401, 503))
async def list_stops(request: Request, caller: AuthenticatedCaller) -> OpenStops:
    """Return what is stopped now."""
    found, may_stop = services(request), services(request).authenticator.may_stop(caller)
    stops = await read(found.runtime.database, find_open_stops)
    if not may_stop:
        own = [stop for stop in stops if stop.scope is StopScope.EVERYTHING or _is_of(stop, caller.user_id)]
        stops = [stop.replace(reason="", by="") for stop in own]
    return OpenStops(stops=stops, may_stop=may_stop)


@router.post("", responses=errors(401, 403, 413, 415, 422, 503), openapi_extra=json_body(StopRequest))
async def stop(request: Request, caller: Operator) -> Stop:
    """Stop everything, or one tool, user or MCP server. From the answer on, no call that it covers is intended any more."""
    given = await read_model(request, StopRequest)
    new = Stop(number=0, by=caller.user_id, **dict(given))
    return await place_stop(services(request).runtime.database, new)


@router.delete("/{number}", responses=errors(401, 403, 404, 422, 503))
async def resume(
    request: Request,
    caller: Operator,
    number: _Number,
    reason: Annotated[str, Query(min_length=1, max_length=_MAX_TEXT, description="Why it ends.")],
) -> Stop:
    """End a stop. Nothing happens by itself: each message, yes and approval is judged anew."""
    runtime = services(request).runtime
    return await end_stop(runtime.database, number, Sealer(runtime.audit.record_key), by=caller.user_id, reason=reason)


def _is_of(stop: Stop, user_id: str) -> bool:
    return stop.scope is StopScope.USER and stop.name == user_id
