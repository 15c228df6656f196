"""GET and DELETE /api/session: who is signed in, and signing out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from graph_agent.api.bodies import errors
from graph_agent.api.launch_session import SESSION
from graph_agent.api.services import AuthenticatedCaller
from graph_agent.models.base import Frozen

router = APIRouter(prefix="/api", tags=["session"])


class SignedInUser(Frozen):
    """The signed-in user. An auditor reads the decisions of all users."""

    user_id: str
    auditor: bool


@router.get("/session", responses=errors(401, 403, 503))
async def session(caller: AuthenticatedCaller) -> SignedInUser:
    """Return the signed-in user."""
    return SignedInUser(user_id=caller.user_id, auditor=caller.is_auditor)


@router.delete("/session", status_code=204, response_class=Response, responses=errors(401, 403, 503))
async def sign_out(request: Request, caller: AuthenticatedCaller) -> Response:  # noqa: ARG001 (others get 401)
    """Sign this browser out: delete the cookie of its session. A bearer token stays valid until it expires."""
    answer = Response(status_code=204)
    SESSION.delete(request, answer)
    return answer
