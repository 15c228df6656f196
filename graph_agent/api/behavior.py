"""GET /api/verify: whether the record is intact. It covers the decisions of all users, so it needs the role of an auditor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from sse_starlette import ServerSentEvent
from starlette.responses import Response

from graph_agent.api.bodies import errors
from graph_agent.api.callers import Auditor
from graph_agent.api.services import services
from graph_agent.api.sse import EventStream, event, stream_route
from graph_agent.bootstrap.maintenance import verify_installation
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ignore_result
from graph_agent.record.tamper.violations import VerifyReport

router = APIRouter(prefix="/api", tags=["behavior"])


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
