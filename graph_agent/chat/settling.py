"""The settlement of unknown outcomes after the turn has ended, by asking the ledger again until it answers."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from graph_agent.db import Database
from graph_agent.ports import Clock, ToolServer
from graph_agent.record.settlements import Settlement, find_unknown_calls, store_settlement
from graph_agent.record.statements import read, write
from graph_agent.record.tree.leaves import RecordKey, Sealer

SETTLE_FOR = timedelta(days=1)
"""For how long after a call its outcome is requested. The ledger keeps its rows longer than this."""

_TIMEOUT_SECONDS = 2.0
_MAX_CALLS_PER_SWEEP = 100


async def settle_unknown(tools: ToolServer, log: Database, *, clock: Clock, record_key: RecordKey = None) -> int:
    """Ask the ledgers for the unknown outcomes of the last day, and store the answers; return how many were settled.

    Raises `ServiceError` STORAGE_ERROR.
    """
    with_ledger = [name for name in tools.get_available_tools() if tools.traits(name).ledger]
    sealer, since = Sealer(record_key), clock.now() - SETTLE_FOR
    settled = 0
    for call in await read(log, lambda connection: find_unknown_calls(connection, with_ledger, since, _MAX_CALLS_PER_SWEEP)):
        result = await tools.settle(call, deadline=_TIMEOUT_SECONDS)
        if result.unknown:
            break  # The server does not answer; the next sweep asks again.
        settlement = Settlement(decision_id=call.decision_id, sequence=call.sequence, result=result, settled_at=clock.now())
        await write(log, partial(store_settlement, settlement=settlement, sealer=sealer))
        settled += 1
    return settled
