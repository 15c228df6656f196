"""The plans of the caller: one to do a decision again, the list of those that were agreed to, and their revocation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from graph_agent.api.bodies import ERRORS_BY_ID, IdInPath, errors, id_in_query, json_body, read_model
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.chat import IdempotencyKey, Limit, answered, waited_seconds
from graph_agent.api.services import services
from graph_agent.chat.answer import ChatReply
from graph_agent.chat.mandates import MandateList, MandateService, MandateSummary, PlanOfDecision
from graph_agent.chat.page_keys import MAX_KEY
from graph_agent.chat.service import well_formed_id
from graph_agent.models.mandate import JobName, PlanChoice
from graph_agent.turn.engine import WHOLE_PLAN

router = APIRouter(prefix="/api", tags=["mandates"])


@router.get("/mandates", responses=errors(400, 401, 403, 422, 503))
async def list_mandates(
    request: Request,
    caller: AuthenticatedCaller,
    conversation_id: Annotated[str | None, id_in_query("Only the plans of this conversation.")] = None,
    limit: Limit = 50,
    before: Annotated[str | None, Query(max_length=MAX_KEY, description="The `next` of the page before.")] = None,
) -> MandateList:
    """List the plans that the caller has agreed to, newest first: those in force and earlier ones."""
    conversation = None if conversation_id is None else well_formed_id(conversation_id)
    return await _mandates(request).page(caller.user_id, conversation_id=conversation, size=limit, before=before)


@router.post("/mandates/{mandate_id}/revoke", responses=ERRORS_BY_ID)
async def revoke_mandate(request: Request, caller: AuthenticatedCaller, mandate_id: IdInPath) -> MandateSummary:
    """Revoke a plan: from the answer on it covers no call. One that has ended is returned as it is."""
    return await _mandates(request).revoke(well_formed_id(mandate_id), caller.user_id)


@router.get("/decisions/{decision_id}/mandate", responses=ERRORS_BY_ID)
async def plan_of_decision(
    request: Request,
    caller: AuthenticatedCaller,
    decision_id: IdInPath,
    job: Annotated[JobName, Query(description="The job of a standing plan.")] = "",
) -> PlanOfDecision:
    """Return the plan that does the changes of a decision of the caller again. Nobody is asked about it."""
    return await _mandates(request).of_decision(caller.user_id, well_formed_id(decision_id), job)


@router.post(
    "/decisions/{decision_id}/mandate",
    response_model=ChatReply,
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504),
    openapi_extra=json_body(PlanChoice, required=False),
)
async def do_again(
    request: Request, caller: AuthenticatedCaller, decision_id: IdInPath, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Ask the caller about a plan that does the changes of a decision of theirs again, in its conversation.

    Code makes the plan; a body may have fewer or narrower lines of it, and a shorter time. With a `job` the plan stands for the
    caller's runs of that job: for 30 days, or the `minutes`, at most 90 days, in one run a day, or the `runs`. `POST /api/chat`
    answers the question by its id. 409 with NOT_REPEATABLE if no plan does anything of it again.
    """
    state, waited = services(request), waited_seconds(request)
    choice = await read_model(request, PlanChoice) if "content-type" in request.headers else WHOLE_PLAN
    starting = state.turn_admission.start(
        caller.user_id,
        lambda: state.runtime.chat.start_again(
            caller.user_id,
            decision_id,
            choice,
            idem_key=idempotency_key,
            roles=caller.roles,
            arrived_at=state.runtime.clock.monotonic() - waited,
        ),
        waited=waited,
    )
    return await answered(starting)


def _mandates(request: Request) -> MandateService:
    return services(request).runtime.chat.mandates
