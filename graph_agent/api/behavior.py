"""GET and POST /api/baselines, GET /api/drift, /api/verify: how the agent behaves, and whether its record is intact.

They cover the decisions of all users, so they need the role of an auditor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.api.bodies import errors, id_in_query, json_body, read_model
from graph_agent.api.callers import Auditor
from graph_agent.api.decisions import filters_of
from graph_agent.api.services import services
from graph_agent.api.sse import EventStream, event, stream_route
from graph_agent.audit.drift.baselines import Baseline, BaselineService, DriftReport
from graph_agent.audit.drift.compare import DEFAULT_THRESHOLD
from graph_agent.audit.filters import DecisionFilter
from graph_agent.bootstrap.maintenance import verify_installation
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ignore_result
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import FilledText
from graph_agent.record.tamper.violations import VerifyReport

router = APIRouter(prefix="/api", tags=["behavior"])


class BaselineSummary(Frozen):
    """A baseline without its profiles."""

    baseline_id: str
    name: str
    description: str | None
    created_at: UtcDatetime
    since: UtcDatetime | None
    until: UtcDatetime | None
    decisions: int
    models: list[str]

    @classmethod
    def of(cls, baseline: Baseline) -> BaselineSummary:
        shared = {name: value for name, value in dict(baseline).items() if name != "profiles"}
        return cls(**shared, models=sorted({profile.model for profile in baseline.profiles}))


class BaselinePage(Frozen):
    """One page of the baselines, newest first."""

    items: list[BaselineSummary]
    has_more: bool


class BaselineRequest(Frozen):
    """A new baseline of the closed decisions from `since` (inclusive) to `until` (exclusive; now if it is left out)."""

    name: FilledText = Field(min_length=1, max_length=255)
    description: FilledText | None = None
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None


class DriftQuery(DecisionFilter):
    """The baseline, and the decisions that are compared with it: those after its end, unless `since` says otherwise."""

    baseline: str = Field(min_length=1, max_length=255, description="Name or id of the baseline.")
    threshold: float = Field(default=DEFAULT_THRESHOLD, gt=0, lt=1, description="Deviations up to this are tolerated.")


@router.get("/baselines", responses=errors(401, 403, 404, 422, 503))
async def baselines(
    request: Request,
    _caller: Auditor,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[str | None, id_in_query("The id of the last baseline of the previous page.")] = None,
) -> BaselinePage:
    """List the baselines, newest first."""
    found = await BaselineService(services(request).runtime.log_reads).list_baselines(limit + 1, before)
    return BaselinePage(items=[BaselineSummary.of(baseline) for baseline in found[:limit]], has_more=len(found) > limit)


@router.post(
    "/baselines", status_code=201, responses=errors(401, 403, 409, 413, 415, 422, 503), openapi_extra=json_body(BaselineRequest)
)
async def create_baseline(request: Request, _caller: Auditor) -> BaselineSummary:
    """Create a baseline, with which later decisions can be compared."""
    asked = await read_model(request, BaselineRequest)
    runtime = services(request).runtime
    service = BaselineService(runtime.database, record_key=runtime.tree.key, clock=runtime.clock)
    return BaselineSummary.of(await service.create_baseline(**dict(asked)))


@router.get("/drift", responses=errors(401, 403, 404, 422, 503))
async def drift(request: Request, _caller: Auditor, query: Annotated[DriftQuery, Query()]) -> DriftReport:
    """Compare decisions with a baseline. The report is not stored."""
    service = BaselineService(services(request).runtime.log_reads)
    # The service sets the time range of the filter itself, so the range of the query is passed separately.
    return await service.compare_to_baseline(
        query.baseline, query.since, query.until, threshold=query.threshold, filters=filters_of(query), store=False
    )


@router.get(
    "/verify",
    **stream_route("progress, and at the end report or error.", ["progress", "report"], errors(401, 403, 503)),
)
async def verify(request: Request, caller: Auditor) -> Response:
    """Verify the whole record, and stream the progress and the result. The verification ends when the client disconnects."""
    state = services(request)
    return EventStream(_verification(state.runtime), state.replay_streams, caller.user_id)


class _StoppedError(Exception):
    """The client has disconnected."""


async def _verification(runtime: Runtime) -> AsyncIterator[ServerSentEvent]:
    loop = asyncio.get_running_loop()
    progress: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
    stopped = False

    def on_progress(checked: int, total: int) -> None:
        if stopped:
            raise _StoppedError
        loop.call_soon_threadsafe(progress.put_nowait, (checked, total))

    def verify_in_thread() -> VerifyReport:
        # In a thread with its own loop, because checking many leaves at once would block the server's loop.
        verified = verify_installation(
            runtime.database,
            runtime.tree,
            reads=runtime.log_reads,
            shipped_tools=runtime.tasks is not None,
            on_progress=on_progress,
        )
        return asyncio.run(verified)

    running = asyncio.ensure_future(asyncio.to_thread(verify_in_thread))
    running.add_done_callback(lambda _: progress.put_nowait(None))
    try:
        while (step := await progress.get()) is not None:
            yield event("progress", {"checked": step[0], "total": step[1]})
        report = await running
        yield event("report", {"intact": report.intact, **report.to_json()})
    finally:
        stopped = True
        running.add_done_callback(ignore_result)
