"""The execution of permitted calls: the only functions of the package that call a tool."""

from __future__ import annotations

from graph_agent.graph.ports import FactPorts, TurnPorts, WantedRead
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


async def read_for_facts(wanted: WantedRead, ports: FactPorts) -> FactRead:
    """Make a read that the guard has permitted for facts, and return what is kept of its result."""
    assert not wanted.call.mutating
    return await ports.read_fact(wanted)
