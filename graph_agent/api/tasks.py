"""GET /api/tasks: the caller's tasks, in pages.

The tasks of the shipped server are read in its store. Those of another server are the result of a call, which is a decision
without a model: judged, recorded and counted like any other.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from graph_agent.api.bodies import errors, id_in_query
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.services import services
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ConfigurationError, ServiceError, ServiceErrorCode, ToolErrorCode, service_unavailable
from graph_agent.graph.build import gates_of
from graph_agent.models.base import Frozen
from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.net.bearer_tokens import Caller
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.call_in_hand import Setting
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import permitted_read

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
    before: Annotated[str | None, id_in_query("The id of the last task of the previous page.")] = None,
) -> TaskPage:
    """List the caller's tasks, newest first. The constitution must permit `list_tasks`, and the tool must only read.

    403 where a rule forbids it, and 404 with TASK_NOT_FOUND where no task list is served.
    """
    runtime = services(request).runtime
    policy, wanted = await _policy(runtime), FunctionCall(name="list_tasks", arguments={"status": status})
    if policy.conditions is not None and policy.conditions.needs_facts(wanted.name):
        # Only a decision reads the facts that the rules name, and records them.
        found = await _from_tool(runtime, caller, wanted, before)
    else:
        call = _permitted(runtime, policy, caller, wanted)
        if runtime.tasks is not None:
            found = await _from_store(runtime.tasks, call, limit, before)
        else:
            found = await _from_tool(runtime, caller, FunctionCall(name=call.tool_name, arguments=call.arguments), before)
    return TaskPage(items=found[:limit], has_more=len(found) > limit)


async def _from_store(pages: Any, call: AuthorizedCall, limit: int, before: str | None) -> list[dict[str, Any]]:
    """Return one task more than the page has, if there are as many: the store of the shipped server can read a part."""
    try:
        found: list[dict[str, Any]] = await pages.read(call.user_id, limit + 1, call.arguments["status"], before)
    except LookupError:
        raise _no_such_task() from None
    return found


async def _from_tool(runtime: Runtime, caller: Caller, wanted: FunctionCall, before: str | None) -> list[dict[str, Any]]:
    """Return the tasks after `before`. A tool has no pages, so all of them are read."""
    finished = await runtime.engine.call(caller.user_id, [wanted], roles=caller.roles)
    invocation = finished.record.invocations[-1]
    if invocation.disposition is CallDisposition.REFUSED and invocation.error_code == ToolErrorCode.ACCESS_DENIED:
        raise _access_denied()
    result = invocation.tool_result
    found = result.data.get("tasks") if isinstance(result.data, dict) else None
    if not result.success or not isinstance(found, list) or not all(isinstance(task, dict) for task in found):
        raise service_unavailable()
    if before is None:
        return found
    ids = [str(task.get("id")) for task in found]
    if before not in ids:
        raise _no_such_task()
    return found[ids.index(before) + 1 :]


def _no_such_task() -> ServiceError:
    return ServiceError(ServiceErrorCode.TASK_NOT_FOUND, "There is no such task.")


async def _policy(runtime: Runtime) -> CompiledPolicy:
    try:
        return (await runtime.engine.prepare()).policy
    except ConfigurationError:
        raise service_unavailable() from None


def _permitted(runtime: Runtime, policy: CompiledPolicy, caller: Caller, wanted: FunctionCall) -> AuthorizedCall:
    """Return the permission of the guard, which also sets the argument that the constitution binds to the user."""
    zone = None if policy.conditions is None else policy.conditions.file.time_zone
    # The store is no tool: what a user looks at there is no call of a conversation, and is not counted.
    facts = None if zone is None else Facts.at(runtime.clock.now(), zone, used={}, succeeded=[], attempted=[])
    setting = Setting(
        policy=policy, user_id=caller.user_id, roles=caller.roles, facts=facts, gates=gates_of(runtime.engine.graph)
    )
    if (call := permitted_read(wanted, setting)) is None:
        raise _not_readable(policy, wanted.name)
    return call


def _not_readable(policy: CompiledPolicy, name: str) -> ServiceError:
    rule = policy.rules.get(name)
    if rule is None and name in policy.constitution.whitelist:
        return service_unavailable()
    if rule is None or rule.mutating or rule.grant.requires_confirmation:
        return ServiceError(ServiceErrorCode.TASK_NOT_FOUND, "No task list is served here.")
    return _access_denied()


def _access_denied() -> ServiceError:
    return ServiceError(ServiceErrorCode.ACCESS_DENIED, "The rules do not permit you to read the tasks.")
