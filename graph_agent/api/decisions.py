"""GET /api/decisions, /api/decisions/{id}, /api/metrics: what was decided, what it was decided from, and how it adds up.

Everybody sees their own; a token with the scope `auditor` sees everybody's.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from graph_agent.api.auth import AuthenticatedCaller, Caller
from graph_agent.api.schemas import IdInPath, errors
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metrics import MetricsSummary
from graph_agent.audit.queries import MAX_LIMIT, MAX_OFFSET, DecisionPage, LogQueryService
from graph_agent.audit.trace import LoggedDecision, LoggedModelCall
from graph_agent.chat.service import well_formed_id
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.record import ToolInvocation

AUDITOR = "auditor"

router = APIRouter(prefix="/api", tags=["decisions"])


class DecisionQuery(DecisionFilter):
    """Which decisions, and which part of them."""

    limit: int = Field(default=100, ge=1, le=MAX_LIMIT)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)


class DecisionDetail(LoggedDecision):
    """A decision with its calls, in order."""

    tool_invocations: list[ToolInvocation]
    llm_calls: list[LoggedModelCall]


@router.get("/decisions", responses=errors(401, 403, 422, 503))
async def decisions(request: Request, caller: AuthenticatedCaller, query: Annotated[DecisionQuery, Query()]) -> DecisionPage:
    """Decisions, newest first."""
    filters = DecisionFilter.model_validate(query.model_dump(exclude={"limit", "offset"}))
    return await _log(request).query_decisions(_within_reach(filters, caller), limit=query.limit, offset=query.offset)


@router.get("/decisions/{decision_id}", responses=errors(400, 401, 403, 404, 422, 503))
async def decision(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> DecisionDetail:
    """One decision with its tool invocations and model calls."""
    reach = None if AUDITOR in caller.scopes else caller.user_id
    trace = await _log(request).get_decision_trace(well_formed_id(decision_id), user_id=reach)
    row: dict[str, Any] = dict(trace.decision)
    return DecisionDetail(**row, tool_invocations=trace.tool_invocations, llm_calls=trace.llm_calls)


@router.get("/metrics", responses=errors(401, 403, 422, 503))
async def metrics(request: Request, caller: AuthenticatedCaller, query: Annotated[DecisionFilter, Query()]) -> MetricsSummary:
    """Totals, rates, percentiles and breakdowns over the decisions that are meant."""
    return await _log(request).get_metrics_summary(filters=_within_reach(query, caller))


def _within_reach(filters: DecisionFilter, caller: Caller) -> DecisionFilter:
    if AUDITOR in caller.scopes:
        return filters
    if filters.user_id not in (None, caller.user_id):
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "Only your own decisions can be asked for.")
    return filters.replace(user_id=caller.user_id)


def _log(request: Request) -> LogQueryService:
    return LogQueryService(request.app.state.runtime.log_database)
