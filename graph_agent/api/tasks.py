"""GET /api/tasks: the caller's tasks, read through the tool `list_tasks`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.schemas import UUID_FORMAT, errors
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.conversations.statements import unavailable
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen
from graph_agent.models.llm import FunctionCall
from graph_agent.policy.guard import AuthorizedCall, judge_batch

router = APIRouter(prefix="/api", tags=["tasks"])


class TaskPage(Frozen):
    """One page of the caller's tasks, newest first, as the tool returns them."""

    items: list[dict[str, Any]]
    has_more: bool


@router.get("/tasks", responses=errors(401, 403, 404, 422, 503))
async def tasks(
    request: Request,
    caller: AuthenticatedCaller,
    status: Literal["pending", "completed", "all"] = "all",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[
        str | None, Query(json_schema_extra=UUID_FORMAT, description="The id of the last task of the previous page.")
    ] = None,
) -> TaskPage:
    """List the caller's tasks, newest first. The constitution must permit `list_tasks`, and the tool must only read."""
    runtime = request.app.state.runtime
    call = await _permitted(runtime, FunctionCall(name="list_tasks", arguments={"status": status}), caller.user_id)
    result = await runtime.tools.execute(call.tool_name, call.arguments, call.user_id)
    found = result.data.get("tasks") if isinstance(result.data, dict) else None
    if not result.success or not isinstance(found, list):
        raise unavailable()
    start = 0
    if before is not None:
        ids = [task.get("id") for task in found]
        if before not in ids:
            raise ServiceError(ServiceErrorCode.TASK_NOT_FOUND, "There is no such task.")
        start = ids.index(before) + 1
    return TaskPage(items=found[start : start + limit], has_more=len(found) > start + limit)


async def _permitted(runtime: Runtime, call: FunctionCall, user_id: str) -> AuthorizedCall:
    """Return the permission of the guard, which also sets the argument that the constitution binds to the user."""
    try:
        policy = (await runtime.engine.prepare()).policy
    except ConfigurationError:
        raise unavailable() from None
    judgement, *_ = judge_batch([call], policy=policy, user_id=user_id, decision_id="tasks", max_calls_per_turn=1)
    if judgement.authorized is None or judgement.authorized.mutating:
        raise unavailable()
    return judgement.authorized
