"""The outcome of a change whose answer was lost: from a ledger, by the same call under the same key, or by a read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from graph_agent.errors import ToolErrorCode
from graph_agent.models.result_size import fit_data
from graph_agent.models.tools import ReadBack, ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall, OutcomeRead
from graph_agent.policy.outcome_reads import contradicts, is_partial, values_in
from graph_agent.ports import ToolServer

SendNow = Callable[[AuthorizedCall, float], Awaitable[ToolResult]]
"""Sends a call within these seconds; an unknown result if that is not permitted now."""

OUTCOME_UNKNOWN = ToolResult.failed(ToolErrorCode.UNKNOWN_ERROR, "It could not be learned whether the tool acted.")
FOUND_NOT_DONE = ToolResult.failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "The answer was lost, and a read found it not done.")


async def send(tools: ToolServer, call: AuthorizedCall, seconds: float) -> ToolResult:
    """Send a call with all its arguments; the result is without the operation key that the runtime has filled in."""
    result = await tools.execute(call, deadline=seconds)
    return result if call.key is None else result.replace(data=call.key.without_echo(result.data))


async def learn_outcome(
    tools: ToolServer,
    call: AuthorizedCall,
    seconds: float,
    send_again: SendNow,
    look: SendNow,
    *,
    attempt: int = 1,
    sent_before: float = 0.0,
) -> ToolResult:
    """Return the outcome of a call that may have been sent, within `seconds`; unknown if it is not learned.

    A ledger is asked without running the call. Where the server takes the operation key, the same call is sent again by
    `send_again`. Only its success is an outcome: a failure may be about the repetition alone, as that of a server which is
    still busy with the first call, or does not answer now. A read, which `look` sends, shows what was done. The call was sent
    `sent_before` seconds ago: after a while a read that finds everything proves that it was not done.
    """
    if call.ledger or not (call.key or call.read_back):
        return await tools.settle(call, deadline=seconds)
    if call.key:
        result = await send_again(call.as_sent(attempt), seconds if call.read_back is None else seconds / 2)
        if result.success:
            return result
    if call.read_back is None:
        return OUTCOME_UNKNOWN
    read = await look(call.read_back.call, seconds / 2 if call.key else seconds)
    # A call that was sent again just now may be on its way.
    after = call.read_back.complete_after
    return _found(call.read_back, read, proves_absence=after is not None and sent_before >= after and call.key is None)


def _found(read_back: OutcomeRead, read: ToolResult, *, proves_absence: bool) -> ToolResult:
    """Return the outcome of a change as a read shows it; unknown with a `read_back` if the read was answered without proof."""
    if read.unknown or read.error_code is ToolErrorCode.TOOL_UNAVAILABLE:
        return OUTCOME_UNKNOWN
    selected = values_in(read_back.path, read, read_back.of_arguments)
    found = [one for one in selected or () if not contradicts(one, read_back.of_arguments)]
    data = fit_data({"found": found})
    kept = data["found"] if isinstance(data, dict) and isinstance(data.get("found"), list) else []
    made = ReadBack(tool=read_back.call.tool_name, arguments=read_back.call.arguments, found=kept)
    if found:
        return ToolResult(success=True, data=data, read_back=made)
    is_absent = proves_absence and selected == [] and not is_partial(read.data)
    return (FOUND_NOT_DONE if is_absent else OUTCOME_UNKNOWN).replace(read_back=made)
