"""The route parameters that hold the caller of a request."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from graph_agent.api.services import services
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.net.bearer_tokens import Caller
from graph_agent.net.user_token import keep_user_token


async def _caller(request: Request) -> Caller:
    authenticator = services(request).authenticator
    caller = await authenticator.caller(request)
    # The task is that of this request, and so are the tasks that it begins.
    keep_user_token(authenticator.user_token(request, caller))
    return caller


AuthenticatedCaller = Annotated[Caller, Depends(_caller)]
"""A route parameter that holds the caller; without a valid token the request ends with 401."""


async def _auditor(request: Request, caller: AuthenticatedCaller) -> Caller:
    if not services(request).authenticator.is_operator(caller):
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "This needs the role of an auditor.")
    return caller


async def _operator(request: Request, caller: AuthenticatedCaller) -> Caller:
    if not services(request).authenticator.may_stop(caller):
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "This needs the role of an operator.")
    return caller


Operator = Annotated[Caller, Depends(_operator)]
"""A route parameter that holds a caller who may stop and resume; others get 403."""
Auditor = Annotated[Caller, Depends(_auditor)]
"""A route parameter that holds a caller who may read what is computed from the record of all users; others get 403."""
