"""The plans that the caller has agreed to: their list, and their revocation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from graph_agent.api.bodies import ERRORS_BY_ID, IdInPath, errors, id_in_query
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.chat import Limit
from graph_agent.api.services import services
from graph_agent.chat.mandates import MandateList, MandateService, MandateSummary
from graph_agent.chat.page_keys import MAX_KEY
from graph_agent.chat.service import well_formed_id

router = APIRouter(prefix="/api/mandates", tags=["mandates"])


@router.get("", responses=errors(400, 401, 403, 422, 503))
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


@router.post("/{mandate_id}/revoke", responses=ERRORS_BY_ID)
async def revoke_mandate(request: Request, caller: AuthenticatedCaller, mandate_id: IdInPath) -> MandateSummary:
    """Revoke a plan: from the answer on it covers no call. One that has ended is returned as it is."""
    return await _mandates(request).revoke(well_formed_id(mandate_id), caller.user_id)


def _mandates(request: Request) -> MandateService:
    return services(request).runtime.chat.mandates
