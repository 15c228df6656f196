"""Decisions, one decision with its calls, its record, its test case, and metrics.

A user sees their own decisions; an auditor sees all of them.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse
from pydantic import Field
from starlette.responses import Response

from graph_agent.api.bodies import ERRORS_BY_ID, IdInPath, errors, id_in_query
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.services import services
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.findings import failure_cause, findings
from graph_agent.audit.metrics import MetricsSummary
from graph_agent.audit.queries import MAX_LIMIT, MAX_OFFSET, DecisionPage, LogQueryService
from graph_agent.audit.trace import LoggedDecision, LoggedModelCall
from graph_agent.chat.service import well_formed_id
from graph_agent.errors import ServiceError, ServiceErrorCode, no_closed_decision
from graph_agent.models.base import Frozen
from graph_agent.models.decision import AgentDecision, PendingAction
from graph_agent.models.record import DecisionRecord, OperationState, ToolInvocation
from graph_agent.models.undo import UndoneDecision
from graph_agent.net.bearer_tokens import Caller
from graph_agent.record.tamper.verify import verify_decision
from graph_agent.record.tamper.violations import Violation
from graph_agent.record.tree.reading import DecisionProof, read_proof
from graph_agent.replays.argument_sources import earlier_calls
from graph_agent.replays.visited_states import VisitedState, visited_states
from graph_agent.reply.causes import FailureCause
from graph_agent.validation.case_writer import dump_fixtures, fixture_from_log
from graph_agent.words.rules import in_shadow

router = APIRouter(prefix="/api", tags=["decisions"])

_TIMELINE = timedelta(days=7)
"""The range of a timeline without `since`."""


class DecisionQuery(DecisionFilter):
    """Filters, and which part of the matching decisions to return."""

    limit: int = Field(default=100, ge=1, le=MAX_LIMIT)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)
    before: Annotated[str | None, id_in_query("The id of the last decision of the previous page.")] = None
    after: Annotated[str | None, id_in_query("The id of a decision: only newer ones are returned.")] = None
    together: bool = Field(
        default=False,
        description="True lists the decisions about one question, from asking to its end, as one row: the last of them. "
        "`search` finds it by the words of each.",
    )


class TimelineQuery(DecisionFilter):
    """Filters, and the number of equal parts of the time range."""

    parts: int = Field(default=24, ge=1, le=60)


class DecisionDetail(LoggedDecision):
    """A decision with its calls, in order, and why it came out as it did."""

    findings: list[str]
    cause: FailureCause | None
    """The cause for which the last model call failed, and its remedy; None if it did not fail."""
    result: AgentDecision | None
    """The decision as the client got it, with its receipts; None while the turn runs."""
    tool_invocations: list[ToolInvocation]
    in_shadow: list[str]
    """A sentence for each call and each rule in the shadow that would have decided otherwise."""
    llm_calls: list[LoggedModelCall]
    state_ends_us: list[int]
    """The time when each of `states` ended, in microseconds after the turn began; empty while the turn runs."""
    operations: dict[int, OperationState]
    """The states of the calls that may change something, by their sequence."""
    undone_by: dict[int, str]
    """The decisions that have undone calls, or may have, by the sequence of the call."""
    undoes: UndoneDecision | None
    """The decision whose undo was asked for in this one; None if none was."""
    again: str | None
    """The decision that this one asks to do again by a plan; None if it asks about none from the record."""
    answered: PendingAction | None
    """The action that was confirmed or declined in it, or whose approval has ended with it; None if there is none."""
    violations: list[Violation] | None
    """Differences between the decision and its seal: empty if the seal verifies, None while the turn runs."""


class ExportedText(Frozen):
    """A text that a record references: the constitution, the tools, the settings or the prompt."""

    type: Literal["blob"]
    digest: str
    text: str


class ExportedRecord(Frozen):
    """The record of a decision."""

    type: Literal["decision"]
    record: DecisionRecord


@router.get("/decisions", responses=ERRORS_BY_ID)
async def decisions(request: Request, caller: AuthenticatedCaller, query: Annotated[DecisionQuery, Query()]) -> DecisionPage:
    """List decisions, newest first."""
    filters = restricted_to_caller(filters_of(query), caller)
    before, after = (None if one is None else well_formed_id(one) for one in (query.before, query.after))
    return await log_of(request).query_decisions(
        filters, limit=query.limit, offset=query.offset, before=before, after=after, together=query.together
    )


@router.get("/decisions/{decision_id}", responses=ERRORS_BY_ID)
async def decision(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> DecisionDetail:
    """Return one decision with its tool invocations and model calls, and whether its seal verifies."""
    database, tree = services(request).runtime.database, services(request).runtime.tree
    trace = await log_of(request).get_decision_trace(well_formed_id(decision_id), user_id=caller.reads)
    row, record = trace.decision, trace.record
    return DecisionDetail(
        **dict(row),
        findings=findings(trace),
        cause=None if record is None else failure_cause(record),
        result=None if record is None else record.decision,
        tool_invocations=trace.tool_invocations,
        in_shadow=in_shadow(trace.tool_invocations),
        llm_calls=[_without_adapter_text(call) for call in trace.llm_calls],
        state_ends_us=[] if record is None else record.state_ends_us,
        operations=trace.operations,
        undone_by=trace.undone_by,
        undoes=None if record is None else record.header.context.undoes,
        again=None if record is None or (plan := record.header.context.proposed) is None else plan.decision_id,
        answered=None if record is None else record.answered,
        violations=None if record is None else await verify_decision(database, row.decision_id, keys=tree.keys, key=tree.key),
    )


@router.get("/decisions/{decision_id}/states", responses=ERRORS_BY_ID)
async def states(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> list[VisitedState]:
    """Return the visited states of a closed decision, with requests and responses of the model and the outcome of each call.

    The requests are rebuilt from the record; nothing is called. The list is shorter if this version of graph-agent
    cannot walk the whole record.
    """
    trace = await log_of(request).get_decision_trace(well_formed_id(decision_id), user_id=caller.reads)
    if trace.record is None:
        raise no_closed_decision()
    settled = {settlement.sequence: settlement.result for settlement in trace.settlements}
    runtime = services(request).runtime
    return await visited_states(runtime.engine, trace.record, settled, await earlier_calls(runtime.database, trace.record))


@router.get("/decisions/{decision_id}/record", response_model=list[ExportedText | ExportedRecord], responses=ERRORS_BY_ID)
async def record(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> Response:
    """Return the stored record of a closed decision and the texts it references, as `log export --format json` writes them."""
    filters = DecisionFilter.of(decision_id=well_formed_id(decision_id), user_id=caller.reads)
    exported = "".join([piece async for piece in log_of(request).export_logs("json", filters)])
    if not json.loads(exported):
        raise no_closed_decision()
    return Response(exported, media_type="application/json")


@router.get("/decisions/{decision_id}/proof", responses=ERRORS_BY_ID)
async def proof(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> DecisionProof:
    """Return the record of a closed decision, its salt, and the proof that it is in the log (c2sp.org/tlog-proof)."""
    return await read_proof(services(request).runtime.database, well_formed_id(decision_id), user_id=caller.reads)


@router.get(
    "/decisions/{decision_id}/fixture",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **ERRORS_BY_ID},
)
async def fixture(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> PlainTextResponse:
    """Return a decision, with the earlier turns of its conversation, as a YAML test case for `graph-agent validate`."""
    runtime = services(request).runtime
    task_tools = [] if runtime.tasks is None else runtime.tools.declarations()
    found = await fixture_from_log(log_of(request), well_formed_id(decision_id), task_tools=task_tools, user_id=caller.reads)
    return PlainTextResponse(dump_fixtures([found]))


@router.get("/metrics", responses=errors(401, 403, 422, 503))
async def metrics(request: Request, caller: AuthenticatedCaller, query: Annotated[DecisionFilter, Query()]) -> MetricsSummary:
    """Return totals, rates, percentiles and breakdowns of the matching decisions."""
    return await log_of(request).get_metrics_summary(filters=restricted_to_caller(query, caller))


@router.get("/metrics/timeline", responses=errors(401, 403, 422, 503))
async def timeline(
    request: Request, caller: AuthenticatedCaller, query: Annotated[TimelineQuery, Query()]
) -> list[MetricsSummary]:
    """Return the metrics of consecutive parts of a time range: the last seven days unless `since` or `until` says otherwise."""
    filters = restricted_to_caller(filters_of(query), caller)
    until = query.until or services(request).runtime.clock.now()
    since = query.since or until - _TIMELINE
    return await log_of(request).get_metrics_timeline(since, until, query.parts, filters=filters)


def restricted_to_caller(filters: DecisionFilter, caller: Caller) -> DecisionFilter:
    """Return the filter for the decisions that the caller may read. Raises `ServiceError` ACCESS_DENIED."""
    if caller.reads is None:
        return filters
    if filters.user_id not in (None, caller.reads):
        raise ServiceError(ServiceErrorCode.ACCESS_DENIED, "You can read only your own decisions.")
    return filters.replace(user_id=caller.reads)


def log_of(request: Request) -> LogQueryService:
    """Return the queries of the server's log."""
    runtime = services(request).runtime
    return LogQueryService(runtime.log_reads, current=runtime.database)


def _without_adapter_text(call: LoggedModelCall) -> LoggedModelCall:
    code = call.response.error_code
    return call.replace(response=call.response.replace(error=code), error=code)


def filters_of(query: DecisionFilter) -> DecisionFilter:
    """Return the filters of a request that has other fields, too."""
    return DecisionFilter.model_validate(query.model_dump(include=set(DecisionFilter.model_fields)))
