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


class OutcomeSettler:
    """Asks the ledger of the tool server for unknown outcomes, and stores the answers as settlements."""

    def __init__(self, tools: ToolServer, log: Database, *, clock: Clock, record_key: RecordKey = None) -> None:
        self._tools = tools
        self._log = log
        self._clock = clock
        self._sealer = Sealer(record_key)

    async def settle_unknown(self) -> int:
        """Settle the unknown calls of the last day; return how many were settled. Raises `ServiceError` STORAGE_ERROR."""
        with_ledger = [name for name in self._tools.get_available_tools() if self._tools.traits(name).ledger]
        since = self._clock.now() - SETTLE_FOR
        settled = 0
        for call in await read(
            self._log, lambda connection: find_unknown_calls(connection, with_ledger, since, _MAX_CALLS_PER_SWEEP)
        ):
            result = await self._tools.settle(call, deadline=_TIMEOUT_SECONDS)
            if result.unknown:
                break  # The server does not answer; the next sweep asks again.
            settlement = Settlement(
                decision_id=call.decision_id, sequence=call.sequence, result=result, settled_at=self._clock.now()
            )
            await write(self._log, partial(store_settlement, settlement=settlement, sealer=self._sealer))
            settled += 1
        return settled
