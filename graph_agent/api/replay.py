"""POST /api/replay: run recorded decisions again, as server-sent events.

start    {"total": 50}
report   {"message": "...", "recorded": {...}, "decision_id": "...", "identical": false, "differences": [...], "steps": [...]}
end      {"total": 50, "identical": 48}
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field, field_validator
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.api.body import invalid, read_object
from graph_agent.api.decisions import log_of, restricted_to_caller
from graph_agent.api.schemas import errors, json_body
from graph_agent.api.services import AuthenticatedCaller, services
from graph_agent.api.sse import ERROR, EventStream, event, stream_response
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.trace import LoggedDecision
from graph_agent.errors import ConstitutionError, ServiceError, ServiceErrorCode
from graph_agent.models.decision import unstorable
from graph_agent.models.record import RecordStatus
from graph_agent.policy.constitution import Constitution
from graph_agent.replays.pool import ReplayPool
from graph_agent.replays.sources import LoadedRecord, load_from_log

router = APIRouter(prefix="/api", tags=["replay"])

MAX_STREAMS = 8
"""The number of requests that are served at the same time; they share the worker processes."""
MAX_DECISIONS = 500


class ReplayRequest(DecisionFilter):
    """The decisions to run again: the last ones that match the filters, or the one with `decision_id`."""

    last: int = Field(default=20, ge=1, le=MAX_DECISIONS)
    policy: str | None = Field(default=None, min_length=1, description="The text of another constitution to decide by.")

    @field_validator("policy")
    @classmethod
    def _is_text(cls, value: str | None) -> str | None:
        if value is not None and (reason := unstorable(value)):
            raise ValueError(reason)
        return value


@router.post(
    "/replay",
    response_class=Response,
    responses={
        **stream_response("start, a report of each decision, and end or error.", ["start", "report", "end", ERROR]),
        **errors(401, 403, 404, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": json_body(ReplayRequest)},
)
async def replay(request: Request, caller: AuthenticatedCaller) -> Response:
    """Run decisions again from their records, the newest first, and stream a report of each. Nothing is called or changed.

    The replay ends when the client disconnects.
    """
    asked = ReplayRequest.of(**await read_object(request))
    if asked.policy is not None:
        try:
            Constitution.parse(asked.policy)
        except ConstitutionError as exc:
            raise invalid(str(exc)) from None
    filters = DecisionFilter.model_validate(asked.model_dump(include=set(DecisionFilter.model_fields)))
    page = await log_of(request).query_decisions(restricted_to_caller(filters, caller), limit=asked.last)
    closed = [row for row in page.items if row.status is not RecordStatus.PENDING]
    if asked.decision_id is not None and not closed:
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision, or it is still open.")
    state = services(request)
    reports = _reports(state.runtime.database, state.replays, closed, asked.policy)
    return EventStream(reports, state.replay_streams, caller.user_id)


async def _reports(
    database: Any, pool: ReplayPool, rows: list[LoggedDecision], policy: str | None
) -> AsyncIterator[ServerSentEvent]:
    async def sources() -> AsyncIterator[LoadedRecord]:
        for row in rows:
            yield await load_from_log(database, row.decision_id)

    yield event("start", {"total": len(rows)})
    messages = {row.decision_id: row.message for row in rows}
    identical = 0
    # Closed at once if the client disconnects, so that the queued replays are dropped.
    async with aclosing(pool.replay_all(sources(), policy)) as reports:
        async for found, report in reports:
            identical += report["identical"]
            recorded = None
            if found.record is not None:
                recorded = {"states": found.record.states, "decision": found.record.decision.to_json()}
            yield event("report", {"message": messages[found.name], "recorded": recorded, **report})
    yield event("end", {"total": len(rows), "identical": identical})
