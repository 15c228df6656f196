"""The settlement of unknown outcomes after the turn has ended, by asking the servers again until they answer.

A ledger is asked. A call with its key as an argument is sent once more, if the policy still grants exactly this call.

It is due work: one row for each unknown outcome, written in the commit that closes its decision, in the lane of its server. A
server that does not answer pauses its lane in this process, so that it holds up no other; one call after another finds out
whether it is back.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from graph_agent.db import Database
from graph_agent.due.table import BackOff, DueWork, WorkKind
from graph_agent.due.worker import Again, DueHandler
from graph_agent.models.tools import ToolResult
from graph_agent.ports import Clock, SeveralServers, ToolServer
from graph_agent.record.operations import request_of
from graph_agent.record.settlements import Settlement, UnknownCall, find_unknown_call, store_settlement
from graph_agent.record.statements import read, write
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.turn.sent_calls import SentCalls

_log = logging.getLogger(__name__)

SETTLE_FOR = timedelta(days=1)
"""For how long after a call its outcome is requested. The ledger keeps its rows longer than this."""

MAX_BACK_OFF_SECONDS = 5.0
"""The longest pause of a server that does not answer, as when it is restarted."""
_RESTARTS_WITHIN_SECONDS = 300.0
_MAX_LATER_SECONDS = 60.0
"""The same for one that has not answered for longer than that."""
TIMEOUT_SECONDS = 2.0
"""The time that a server has to say what became of a call."""
_BACK_OFF = BackOff(timedelta(seconds=1), timedelta(seconds=60))
_NOT_PERMITTED = BackOff(timedelta(seconds=1), timedelta(minutes=10))
"""The waits for a call about which no request is permitted now, as when the server of its read is away."""
_AT_ONCE = 4
_SILENT = 2
"""So many calls in a row without an answer show that a server does not answer."""
_SILENT_AFTER_ANSWERS = 3
"""The same for one that has answered before."""


@dataclass(slots=True)
class _Server:
    """The answers of one server to this process, by the monotonic clock."""

    unanswered: int = 0
    """The calls in a row without an answer."""
    has_answered: bool = False
    silent_since: float = 0.0
    until: float = 0.0
    """The end of the pause."""
    silences: int = 0

    def note_silence(self, now: float) -> None:
        self.unanswered += 1
        if self.unanswered < (_SILENT_AFTER_ANSWERS if self.has_answered and not self.silences else _SILENT):
            return
        if not self.silences:
            self.silent_since = now
        longest = MAX_BACK_OFF_SECONDS if now - self.silent_since < _RESTARTS_WITHIN_SECONDS else _MAX_LATER_SECONDS
        self.until = now + min(longest, 2.0 ** min(self.silences, 16))
        self.silences += 1

    def note_answer(self) -> None:
        self.unanswered, self.silences, self.until, self.has_answered = 0, 0, 0.0, True


class OutcomeSettler:
    """Learns the outcomes of unknown calls in one log, of all processes that share it."""

    def __init__(
        self,
        tools: ToolServer,
        log: Database,
        *,
        clock: Clock,
        record_key: RecordKey = None,
        sent_calls: SentCalls | None = None,
    ) -> None:
        """Without `sent_calls` only ledgers are asked."""
        self._tools = tools
        self.log = log
        self.clock = clock
        self._sealer = Sealer(record_key)
        self._sent_calls = sent_calls
        self._servers: defaultdict[str, _Server] = defaultdict(_Server)
        self.handler = DueHandler(WorkKind.SETTLE, self._settle, _AT_ONCE, _BACK_OFF, self._lanes)

    def _lanes(self) -> list[str]:
        """Return the servers that are not paused. Work without one is of a tool whose server was not known."""
        names = self._tools.server_names() if isinstance(self._tools, SeveralServers) else ()
        now = self.clock.monotonic()
        return [name for name in ("", *names) if not name or now >= self._servers[name].until]

    async def _settle(self, work: DueWork) -> Again | None:
        call = await read(self.log, partial(find_unknown_call, key=work.key))
        if call is None:
            return None
        if self.clock.now() - call.invoked_at > SETTLE_FOR:
            return Again(None, "its outcome was not learned within a day")
        if call.tool_name not in self._tools.get_available_tools():
            await self._tools.start()
            if call.tool_name not in self._tools.get_available_tools():
                return self._silent(work, "its server cannot be reached")
        result = await self._outcome(call)
        if result is None:
            return Again(_NOT_PERMITTED, "no read is permitted for it")
        if result.unknown:
            if result.read_back is not None:
                # A read that has not found the call says nothing about its server.
                return Again(_BACK_OFF, "a read has not found it yet")
            return self._silent(work, "its server does not answer")
        self._servers[work.lane].note_answer()
        at = self.clock.now()
        settlement = Settlement(decision_id=call.decision_id, sequence=call.sequence, result=result, settled_at=at)
        await write(self.log, partial(store_settlement, settlement=settlement, sealer=self._sealer))
        _log.info("settled call %d of decision %s", call.sequence, call.decision_id)
        return None

    def _silent(self, work: DueWork, error: str) -> Again:
        """Return when to ask again: at the end of the pause of the server, or after the back-off of this call."""
        server, now = self._servers[work.lane], self.clock.monotonic()
        server.note_silence(now)
        return Again(timedelta(seconds=server.until - now) if server.until > now else _BACK_OFF, error)

    async def _outcome(self, call: UnknownCall) -> ToolResult | None:
        if self._tools.traits(call.tool_name).ledger:
            if self._sent_calls is None:
                return await self._tools.settle(call, deadline=TIMEOUT_SECONDS)
            return await self._sent_calls.ask_ledger(call, TIMEOUT_SECONDS)
        if self._sent_calls is None or call.tool_name not in await self._sent_calls.tools():
            return None
        work = partial(request_of, decision_id=call.decision_id, sequence=call.sequence, sealer=self._sealer)
        return await self._sent_calls.outcome(call, await read(self.log, work), TIMEOUT_SECONDS)
