"""The routes by which the page signs its user in at an OpenID Connect issuer; `oidc_issuer.py` says how."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, Request
from starlette.responses import Response

from graph_agent.api.bodies import errors, read_model
from graph_agent.api.cookies import SIGN_IN
from graph_agent.api.oidc_issuer import AuthorizationCode, SignInStart, refused
from graph_agent.api.services import services
from graph_agent.net.bearer_tokens import is_same

router = APIRouter(prefix="/api", tags=["sign-in"])

SIGN_IN_SECONDS = 600
"""The time that a user has at the issuer's page."""

_CODE_BODY = {"required": True, "content": {"application/json": {"schema": AuthorizationCode.model_json_schema()}}}


@router.get("/sign-in", responses=errors(503))
async def start(request: Request, answer: Response) -> SignInStart:
    """Return the values with which the page sends the browser to the issuer. The request needs no token."""
    issuer = services(request).oidc
    assert issuer is not None  # the routes exist only with an issuer
    number = secrets.token_urlsafe(24)
    SIGN_IN.set(request, answer, number, SIGN_IN_SECONDS)
    return await issuer.start(number)


@router.post(
    "/sign-in",
    status_code=204,
    response_class=Response,
    responses=errors(401, 413, 415, 422, 503),
    # Declared by hand, because the route reads the body itself: with a size limit, and without echoing it in errors.
    openapi_extra={"requestBody": _CODE_BODY},
)
async def exchange(request: Request) -> Response:
    """Exchange an authorization code of the issuer for a session of the browser that has begun the sign-in here."""
    issuer = services(request).oidc
    assert issuer is not None  # the routes exist only with an issuer
    sent = await read_model(request, AuthorizationCode)
    number = SIGN_IN.read(request)
    # Requests of clients that have begun no sign-in end here: they reach no issuer and wait in no queue.
    if not number or not is_same(sent.state, issuer.state(number)):
        raise refused()
    answer = Response(status_code=204)
    SIGN_IN.delete(request, answer)
    async with issuer.queue.place(request):
        caller, token = await issuer.exchange(sent, number)
        services(request).authenticator.keep_signed_in(request, answer, caller, token)
    return answer
