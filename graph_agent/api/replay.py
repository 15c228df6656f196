"""POST /api/replay and /api/replay/flows: run recorded decisions again, as server-sent events; and the file of one decision.

start    {"total": 50}
report   {"message": "...", "recorded": {...}, "decision_id": "...", "identical": false, "differences": [...], "steps": [...]}
flows    {"items": [{"decision_id": "...", "message": "...", "before": "runs", "after": "asks", "tool_name": "..."}]}
end      {"total": 50}
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from pydantic import Field
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.api.bodies import MAX_RULES_BYTES, IdInPath, PolicyText, errors, invalid, json_body, read_model
from graph_agent.api.decisions import filters_of, log_of, restricted_to_caller
from graph_agent.api.services import AuthenticatedCaller, services
from graph_agent.api.sse import ERROR, EventStream, event, stream_response
from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import DecisionPage, LogQueryService
from graph_agent.bootstrap.proof_files import proof_files
from graph_agent.bootstrap.record_tree import seal_if_possible
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.toolbox import conditions_from
from graph_agent.chat.service import well_formed_id
from graph_agent.db import Database
from graph_agent.errors import ConstitutionError, ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.record import RecordStatus
from graph_agent.net.bearer_tokens import Caller
from graph_agent.policy.constitution import Constitution
from graph_agent.replays.pool import ReplayPool
from graph_agent.replays.replayer import WhatIf
from graph_agent.replays.sources import LoadedRecord, load_from_log

router = APIRouter(prefix="/api", tags=["replay"])

MAX_STREAMS = 8
"""The number of requests that are served at the same time; they share the worker processes."""
MAX_DECISIONS = 500
MAX_FLOWS = 10_000
_PAGE = 500
_MESSAGE_CHARACTERS = 200
"""The part of a message that identifies a decision in a list."""
_FLUSH_SECONDS = 0.1
"""Flows are sent together this often: an event for each would take the page longer than the replay."""


class OtherRules(Frozen):
    """The rules to decide by; those that are left out are the recorded ones."""

    policy: PolicyText | None = Field(default=None, description="The text of another constitution to decide by.")
    cedar: PolicyText | None = Field(default=None, description="Other conditions in Cedar to decide by.")


class ReplayRequest(DecisionFilter, OtherRules):
    """The decisions to run again: the last ones that match the filters, or the one with `decision_id`."""

    last: int = Field(default=20, ge=1, le=MAX_DECISIONS)


class FlowsRequest(ReplayRequest):
    """The decisions whose flow to another policy is asked."""

    last: int = Field(default=500, ge=1, le=MAX_FLOWS)


_ERRORS = errors(401, 403, 404, 413, 415, 422, 503)


@router.post(
    "/replay",
    response_class=Response,
    responses=stream_response(
        "start, a report of each decision, and end or error.", ["start", "report", "end", ERROR], _ERRORS
    ),
    openapi_extra=json_body(ReplayRequest),
)
async def replay(request: Request, caller: AuthenticatedCaller) -> Response:
    """Run decisions again from their records, the newest first, and stream a report of each. Nothing is called or changed.

    The replay ends when the client disconnects.
    """
    return await _replay(request, caller, await read_model(request, ReplayRequest, MAX_RULES_BYTES), _reports)


@router.post(
    "/replay/flows",
    response_class=Response,
    responses=stream_response(
        "start, the flows of several decisions each time, and end or error.", ["start", "flows", "end", ERROR], _ERRORS
    ),
    openapi_extra=json_body(FlowsRequest),
)
async def flows(request: Request, caller: AuthenticatedCaller) -> Response:
    """Run decisions again, the newest first, and stream what each policy does with their calls: runs, asks or refused.

    The replay ends when the client disconnects.
    """
    return await _replay(request, caller, await read_model(request, FlowsRequest, MAX_RULES_BYTES), _flows)


@router.post(
    "/decisions/{decision_id}/proof",
    response_class=Response,
    responses={
        200: {"content": {"text/html": {"schema": {"type": "string"}}}},
        **errors(400, 401, 403, 404, 413, 415, 422, 503),
    },
    openapi_extra=json_body(OtherRules),
)
async def saved_proof(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> HTMLResponse:
    """Return the `decision.html` of `log export --proof`, which shows what other rules would have decided if they are given."""
    asked = await read_model(request, OtherRules, MAX_RULES_BYTES)
    decision_id, state = well_formed_id(decision_id), services(request)
    runtime = state.runtime

    async def replay_by_others(recorded: LoadedRecord) -> dict[str, Any]:
        replayed = await state.replays.replay(recorded, await _what_if(runtime, asked))
        rules = {"the other constitution": asked.policy, "the other conditions": asked.cedar}
        return {**replayed, "rules": {name: text for name, text in rules.items() if text is not None}, "steps": []}

    what_if = None if asked == OtherRules() else replay_by_others
    await seal_if_possible(runtime.tree)
    files = await proof_files(runtime.database, runtime.tree, decision_id, user_id=caller.reads, what_if=what_if)
    return HTMLResponse(files["decision.html"])


async def _what_if(runtime: Runtime, asked: OtherRules) -> WhatIf:
    if asked.policy is not None:
        try:
            Constitution.parse(asked.policy)
        except ConstitutionError as exc:
            raise invalid(str(exc)) from None
    file = None
    if asked.cedar is not None:
        servers = (await runtime.engine.prepare()).policy.servers
        file = conditions_from(asked.cedar, runtime.settings, servers)
    return WhatIf(asked.policy, file)


async def _replay(request: Request, caller: Caller, asked: ReplayRequest, events: Callable[[_Played], _Events]) -> Response:
    state = services(request)
    runtime = state.runtime
    what_if = await _what_if(runtime, asked)
    filters, log = restricted_to_caller(filters_of(asked), caller), log_of(request)
    page = await log.query_decisions(filters, limit=min(asked.last, _PAGE))
    if asked.decision_id is not None and not any(row.status is not RecordStatus.PENDING for row in page.items):
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no such decision, or it is still open.")
    played = _Played(state.replays, runtime.database, log, filters, page, asked.last, what_if, flow_only=events is _flows)
    return EventStream(events(played), state.replay_streams, caller.user_id)


_Events = AsyncIterator[ServerSentEvent]


@dataclass(frozen=True)
class _Played:
    """The last decisions that match the filters, and their replays. `page` is the first page of them."""

    pool: ReplayPool
    database: Database
    log: LogQueryService
    filters: DecisionFilter
    page: DecisionPage
    last: int
    what_if: WhatIf
    flow_only: bool
    messages: dict[str, str] = field(default_factory=dict)
    """The message of each decision whose replay has begun."""

    @property
    def total(self) -> int:
        return min(self.last, self.page.total)

    async def reports(self) -> AsyncGenerator[tuple[LoadedRecord, str, dict[str, Any]]]:
        """Yield each record with its message and the JSON of its report."""
        # Closed at once if the client disconnects, so that the queued replays are dropped.
        async with aclosing(self.pool.replay_all(self._sources(), self.what_if, flow_only=self.flow_only)) as reports:
            async for found, report in reports:
                yield found, self.messages.pop(found.name), report

    async def _sources(self) -> AsyncIterator[LoadedRecord]:
        page, left = self.page, self.last
        while page.items:
            for row in page.items[:left]:
                if row.status is not RecordStatus.PENDING:
                    self.messages[row.decision_id] = row.message
                    found = await load_from_log(self.database, row.decision_id)
                    yield replace(found, name=row.decision_id)
            left -= len(page.items)
            if left <= 0 or not page.has_more:
                return
            page = await self.log.query_decisions(self.filters, limit=min(left, _PAGE), before=page.items[-1].decision_id)


async def _reports(played: _Played) -> _Events:
    yield event("start", {"total": played.total})
    total = identical = 0
    async with aclosing(played.reports()) as reports:
        async for found, message, report in reports:
            total += 1
            identical += report["identical"]
            recorded = None
            if found.record is not None:
                recorded = {"states": found.record.states, "decision": found.record.decision.to_json()}
            yield event("report", {"message": message, "recorded": recorded, **report})
    yield event("end", {"total": total, "identical": identical})


async def _flows(played: _Played) -> _Events:
    yield event("start", {"total": played.total})
    items: list[dict[str, Any]] = []
    total, now = 0, asyncio.get_running_loop().time
    sent = 0.0
    async with aclosing(played.reports()) as reports:
        async for found, message, flow in reports:
            total += 1
            items.append({"decision_id": found.name, "message": message[:_MESSAGE_CHARACTERS], **flow})
            if now() - sent >= _FLUSH_SECONDS:
                yield event("flows", {"items": items})
                items, sent = [], now()
    yield event("flows", {"items": items})
    yield event("end", {"total": total})
