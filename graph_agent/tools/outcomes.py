"""The outcome of a change whose answer was lost: from the ledger of its server, or by the same call under the same key."""

from __future__ import annotations

from graph_agent.errors import ToolErrorCode
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import AuthorizedCall
from graph_agent.policy.operation_key import without_echo
from graph_agent.ports import ToolServer

OUTCOME_UNKNOWN = ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "It could not be learned whether the tool acted.")


async def send(tools: ToolServer, call: AuthorizedCall, seconds: float) -> ToolResult:
    """Send a call with all its arguments; the result is without those that the runtime has filled."""
    result = await tools.execute(call, deadline=seconds)
    return result.replace(data=without_echo(result.data, call.key)) if call.key else result


async def learn_outcome(tools: ToolServer, call: AuthorizedCall, seconds: float, *, attempt: int = 1) -> ToolResult:
    """Return the outcome of a call that may have been sent, within `seconds`; unknown if it is not learned.

    A ledger is asked without running the call. Where the server takes the operation key as an argument, the same call is sent
    again. Only its success is an outcome: a failure may be about the repetition alone, as that of a server which is still
    busy with the first call, or does not answer now.
    """
    if call.ledger or not call.key:
        return await tools.settle(call, deadline=seconds)
    result = await send(tools, call.as_sent(attempt), seconds)
    return result if result.success else OUTCOME_UNKNOWN
