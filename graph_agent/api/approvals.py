"""The approval of calls by other people than their requesters.

An approver lists what waits, reads one request, and answers with the digest of what was read. The approver is the caller:
no field names one. Reading changes nothing, so a program that opens every link approves nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field, StrictBool

from graph_agent.api.bodies import ERRORS_BY_ID, IdInPath, errors, json_body, read_model
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.services import services
from graph_agent.chat.approval_view import ApprovalList, ApprovalSummary, ApprovalView
from graph_agent.chat.approvals import ApprovalService
from graph_agent.chat.service import well_formed_id
from graph_agent.models.approval import MAX_REASON, ApproverIdentity
from graph_agent.models.base import Frozen
from graph_agent.models.decision import StorableText
from graph_agent.question.approvals import not_found

router = APIRouter(prefix="/api/approvals", tags=["approvals"])

_MAX_SIGNATURE = 4_000
_ERRORS = errors(400, 401, 403, 404, 409, 413, 415, 422, 503)


class ApprovalAnswerRequest(Frozen):
    """The caller's answer to a request. It is final."""

    approve: StrictBool = Field(description="True to approve the call, false to deny it, which ends the request.")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", description="The `digest` of the request that the caller has read.")
    role: StorableText | None = Field(
        default=None, max_length=255, description="The role in which the caller answers; by default a role that is needed."
    )
    reason: StorableText = Field(default="", max_length=MAX_REASON, description="Why. A denial needs a reason.")
    signature: StorableText = Field(
        default="", max_length=_MAX_SIGNATURE, description="An SSH signature, if the installation asks for it."
    )


@router.get("", responses=errors(401, 403, 422, 503))
async def list_approvals(
    request: Request,
    caller: AuthenticatedCaller,
    which: Annotated[
        Literal["waiting", "own", "ended"],
        Query(description="Those that wait for the caller's answer, the caller's own, or those of others that have ended."),
    ] = "waiting",
) -> ApprovalList:
    """List requests for approval."""
    requests = services(request).runtime.chat.approvals
    if requests is None:
        # An engine that was constructed without approval requests has none to list.
        return ApprovalList(approvals=[])
    if which == "own":
        return ApprovalList(approvals=await requests.of_requester(caller.user_id))
    found = requests.for_approver if which == "waiting" else requests.ended
    return ApprovalList(approvals=await found(caller.user_id, caller.roles))


@router.get("/{approval_id}", responses=ERRORS_BY_ID)
async def show_approval(request: Request, caller: AuthenticatedCaller, approval_id: IdInPath) -> ApprovalView:
    """Return everything about one request, and what the caller's approval would do now."""
    return await _requests(request).view(well_formed_id(approval_id), caller.user_id, caller.roles)


@router.post("/{approval_id}/answer", responses=_ERRORS, openapi_extra=json_body(ApprovalAnswerRequest))
async def answer_approval(request: Request, caller: AuthenticatedCaller, approval_id: IdInPath) -> ApprovalSummary:
    """Approve or deny a request. The same answer again changes nothing, and another one of the same person is refused."""
    given = await read_model(request, ApprovalAnswerRequest)
    authenticated = services(request).authenticator.tokens is not None
    return await _requests(request).answer(
        well_formed_id(approval_id),
        caller.user_id,
        caller.roles,
        **dict(given),
        identity=ApproverIdentity.TOKEN if authenticated else ApproverIdentity.ASSERTED,
    )


@router.post("/{approval_id}/cancel", responses=_ERRORS)
async def cancel_approval(request: Request, caller: AuthenticatedCaller, approval_id: IdInPath) -> ApprovalSummary:
    """Withdraw a request of the caller."""
    return await _requests(request).cancel(well_formed_id(approval_id), caller.user_id)


def _requests(request: Request) -> ApprovalService:
    if (found := services(request).runtime.chat.approvals) is None:
        raise not_found()
    return found
