"""The execution of permitted calls: the only functions of the package that call a tool."""

from __future__ import annotations

from collections.abc import Callable

from graph_agent.graph.ports import FactPorts, TurnPorts
from graph_agent.models.facts import FactRead
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall


async def run_authorized(call: AuthorizedCall, ports: TurnPorts, *, read_retries: int = 0) -> ToolResult:
    """Run a call that the guard has permitted.

    A mutating call is sent once. If its outcome is unknown, the server settles it under the same key: its ledger, or the same
    call once more where it takes the key as an argument; or a read finds what was done. Without all of these the outcome stays
    unknown. Only reads are retried.
    """
    result = await ports.execute(call)
    if call.mutating:
        unsettled = call.unsettled_after(result)
        settled = result if unsettled is None else await ports.settle(unsettled)
        # What is known of the call itself says more than that nothing was learned.
        return settled if call.ledger or not settled.unknown else result
    for _ in range(read_retries):
        if result.success or ports.interrupted:
            break
        result = await ports.execute(call)
    return result


async def read_for_facts(
    call: AuthorizedCall, ports: FactPorts, keep: Callable[[ToolResult], FactRead], *, first: bool
) -> FactRead:
    """Make a read that the guard has permitted for facts, and return what `keep` keeps of its result.

    `first` says that it is the first one before a call is judged: all of them share the time limit of one call.
    """
    assert not call.mutating
    return await ports.read_fact(call, keep, first=first)


async def read_restored(call: AuthorizedCall, ports: TurnPorts, keep: Callable[[ToolResult], FactRead]) -> FactRead:
    """Make a read that the guard has permitted for the undo of a change, and return what `keep` keeps of its result."""
    assert not call.mutating
    return await ports.read_for_undo(call, keep)
