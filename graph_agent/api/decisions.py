"""GET /api/decisions, /api/decisions/{id}, /api/metrics: decisions, one decision with its calls, and metrics.

A user sees their own decisions; a token with the scope `auditor` sees all of them.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from graph_agent.api.auth import AuthenticatedCaller, Caller
from graph_agent.api.schemas import IdInPath, errors
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.findings import findings
from graph_agent.audit.metrics import MetricsSummary
from graph_agent.audit.queries import MAX_LIMIT, MAX_OFFSET, DecisionPage, LogQueryService
from graph_agent.audit.trace import LoggedDecision, LoggedModelCall
from graph_agent.chat.service import well_formed_id
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import AgentDecision
from graph_agent.models.record import ToolInvocation

AUDITOR = "auditor"

router = APIRouter(prefix="/api", tags=["decisions"])


class DecisionQuery(DecisionFilter):
    """Filters, and which part of the matching decisions to return."""

    limit: int = Field(default=100, ge=1, le=MAX_LIMIT)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)


class DecisionDetail(LoggedDecision):
    """A decision with its calls, in order, and why it came out as it did."""

    findings: list[str]
    result: AgentDecision | None
    """The decision as the client got it, with its receipts; None while the turn runs."""
    tool_invocations: list[ToolInvocation]
    llm_calls: list[LoggedModelCall]


@router.get("/decisions", responses=errors(401, 403, 422, 503))
async def decisions(request: Request, caller: AuthenticatedCaller, query: Annotated[DecisionQuery, Query()]) -> DecisionPage:
    """List decisions, newest first."""
    filters = DecisionFilter.model_validate(query.model_dump(exclude={"limit", "offset"}))
    return await _log(request).query_decisions(_restricted_to_caller(filters, caller), limit=query.limit, offset=query.offset)


@router.get("/decisions/{decision_id}", responses=errors(400, 401, 403, 404, 422, 503))
async def decision(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> DecisionDetail:
    """Return one decision with its tool invocations and model calls."""
    owner = None if AUDITOR in caller.scopes else caller.user_id
    trace = await _log(request).get_decision_trace(well_formed_id(decision_id), user_id=owner)
    row: dict[str, Any] = dict(trace.decision)
    return DecisionDetail(
        **row,
        findings=findings(trace),
        result=None if trace.record is None else trace.record.decision,
        tool_invocations=trace.tool_invocations,
        llm_calls=trace.llm_calls,
    )


@router.get("/metrics", responses=errors(401, 403, 422, 503))
async def metrics(request: Request, caller: AuthenticatedCaller, query: Annotated[DecisionFilter, Query()]) -> MetricsSummary:
    """Return totals, rates, percentiles and breakdowns of the matching decisions."""
    return await _log(request).get_metrics_summary(filters=_restricted_to_caller(query, caller))


def _restricted_to_caller(filters: DecisionFilter, caller: Caller) -> DecisionFilter:
    if AUDITOR in caller.scopes:
        return filters
    if filters.user_id not in (None, caller.user_id):
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "You can read only your own decisions.")
    return filters.replace(user_id=caller.user_id)


def _log(request: Request) -> LogQueryService:
    return LogQueryService(request.app.state.runtime.log_database)
