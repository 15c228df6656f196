"""The settlement of unknown outcomes after the turn has ended, by asking the servers again until they answer.

A ledger is asked. A call with its key as an argument is sent once more, if the policy still grants exactly this call.

A process that closes a decision with an unknown outcome asks within seconds, and so does the sweeper about those of processes
that have died. The servers are asked at the same time, each about its oldest call first. A server that does not answer is asked
again after a back-off of its own, so that it holds up no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial

from graph_agent.db import Database
from graph_agent.errors import ServiceError
from graph_agent.models.tools import ToolResult
from graph_agent.ports import Clock, SeveralServers, ToolServer
from graph_agent.record.operations import request_of
from graph_agent.record.settlements import Settlement, UnknownCall, find_unknown_calls, has_unserved_call, store_settlement
from graph_agent.record.statements import read, write
from graph_agent.record.tree.leaves import RecordKey, Sealer
from graph_agent.turn.sent_calls import SentCalls

_log = logging.getLogger(__name__)

SETTLE_FOR = timedelta(days=1)
"""For how long after a call its outcome is requested. The ledger keeps its rows longer than this."""

MAX_BACK_OFF_SECONDS = 5.0
"""The longest time between two requests to a server that does not answer, as when it is restarted."""
_RESTARTS_WITHIN_SECONDS = 300.0
_MAX_LATER_SECONDS = 60.0
"""The same for one that has not answered for longer than that."""
_TIMEOUT_SECONDS = 2.0
_MAX_NOT_PERMITTED_SECONDS = 600.0
"""The same for a call about which no request is permitted now, as when the server of its read is away."""
_CALLS_AT_ONCE = 100
_UNANSWERED = 3
"""So many calls in a row without an answer show that a server which has answered before does not do so any more."""


@dataclass(slots=True)
class _BackOff:
    """The back-off of one server, in seconds of the monotonic clock."""

    since: float
    until: float = 0.0
    silences: int = 0

    def begin(self, now: float, longest: float | None = None) -> None:
        if longest is None:
            longest = MAX_BACK_OFF_SECONDS if now - self.since < _RESTARTS_WITHIN_SECONDS else _MAX_LATER_SECONDS
        self.until = now + min(longest, 2.0 ** min(self.silences, 16))
        self.silences += 1


class _Settling(Enum):
    """The result of an attempt to settle a call."""

    SETTLED = auto()
    NO_ANSWER = auto()
    NOT_LEARNED = auto()
    """It says nothing about the server: a read has not found the call, or its outcome cannot be learned."""


class OutcomeSettler:
    """Settles the unknown outcomes of the last day in one log, of all processes that share it."""

    def __init__(
        self,
        tools: ToolServer,
        log: Database,
        *,
        clock: Clock,
        record_key: RecordKey = None,
        unknown: asyncio.Event | None = None,
        sent_calls: SentCalls | None = None,
    ) -> None:
        """Without `sent_calls` only ledgers are asked.

        `unknown` is set when there may be an unknown outcome; the settler sets it itself as long as one is left.
        """
        self._tools = tools
        self._log = log
        self._clock = clock
        self._sealer = Sealer(record_key)
        self._sent_calls = sent_calls
        self._unknown = unknown or asyncio.Event()
        self._back_offs: dict[str | None, _BackOff] = {}
        """By server; None for the servers that have not listed their tools."""
        self._searches: dict[str, _BackOff] = {}
        """The back-offs of calls that a read has not found yet, or about which nothing may be asked now, by their keys."""
        # One pass at a time: the task in the background and a caller of `settle` would ask the servers twice.
        self._settling = asyncio.Lock()

    async def settle(self) -> int:
        """Ask each server that is not in its back-off, and store the answers; return how many calls were settled.

        Raises `ServiceError` STORAGE_ERROR.
        """
        async with self._settling:
            since, servers = self._clock.now() - SETTLE_FOR, await self._servers()
            self._forget_older(self._clock.monotonic() - SETTLE_FOR.total_seconds())
            asked = [
                self._settle_server(server, tools, since) for server, tools in servers.items() if not self._backs_off(server)
            ]
            if not self._backs_off(None):
                asked.append(self._connect(since))
            # Each of them ends, also if another one fails.
            found = await asyncio.gather(*asked, return_exceptions=True)
        if self._back_offs or self._searches:
            self._unknown.set()
        for failure in found:
            if isinstance(failure, BaseException):
                raise failure
        return sum(count for count in found if isinstance(count, int))

    async def settle_forever(self) -> None:
        """Settle as soon as there is an unknown outcome, and again until none is left."""
        while True:
            await self._unknown.wait()
            await asyncio.sleep(self._seconds_left())
            self._unknown.clear()
            try:
                if settled := await self.settle():
                    _log.info("settled %d outcomes that were unknown", settled)
            except ServiceError as exc:
                _log.warning("the settlement is postponed: %s", exc.code)
                self._unknown.set()
                await asyncio.sleep(MAX_BACK_OFF_SECONDS)
            except Exception:
                _log.exception("the settlement failed")
                await asyncio.sleep(MAX_BACK_OFF_SECONDS)

    async def _servers(self) -> dict[str, list[str]]:
        """Return the tools whose outcomes can be learned, by their servers."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        others = () if self._sent_calls is None else await self._sent_calls.tools()
        for name in self._tools.get_available_tools():
            if self._tools.traits(name).ledger or name in others:
                found[self._tools.server_of(name) if isinstance(self._tools, SeveralServers) else ""].append(name)
        return found

    async def _settle_server(self, server: str, tools: Sequence[str], since: datetime) -> int:
        """Ask one server about its calls, oldest first, until it does not answer any more; return how many were settled."""
        settled, unanswered, is_silent = 0, set[str](), False
        while not is_silent:
            passed_over = {*unanswered, *self._searched_later()}
            limit = _CALLS_AT_ONCE + len(passed_over)
            found = await read(self._log, partial(find_unknown_calls, tools=tools, since=since, limit=limit))
            waiting = deque(call for call in found if call.operation_key not in passed_over)
            if not waiting:
                break
            in_a_row = 0
            while waiting and not is_silent:
                call = waiting.popleft()
                step = await self._settle_call(call)
                if step is not _Settling.NO_ANSWER:
                    settled, in_a_row = settled + (step is _Settling.SETTLED), 0
                    continue
                unanswered.add(call.operation_key)
                in_a_row += 1
                is_silent = in_a_row >= (_UNANSWERED if settled else 2)
                if in_a_row == 1 and not settled:
                    self._move_other_first(server, waiting)
        if unanswered:
            self._begin_back_off(server)
        else:
            self._back_offs.pop(server, None)
        return settled

    def _move_other_first(self, server: str, waiting: deque[UnknownCall]) -> None:
        """Choose the second call to ask about, each time another one: the oldest may be one that gets no answer."""
        if waiting:
            chosen = self._silences(server) % len(waiting)
            call = waiting[chosen]
            del waiting[chosen]
            waiting.appendleft(call)

    async def _settle_call(self, call: UnknownCall) -> _Settling:
        """Learn the outcome of one call and store it."""
        result, now = await self._outcome(call), self._clock.monotonic()
        if result is None or (result.unknown and result.read_back is not None):
            longest = _MAX_NOT_PERMITTED_SECONDS if result is None else None
            self._searches.setdefault(call.operation_key, _BackOff(now)).begin(now, longest)
            return _Settling.NOT_LEARNED
        self._searches.pop(call.operation_key, None)
        if result.unknown:
            return _Settling.NO_ANSWER
        at = self._clock.now()
        settlement = Settlement(decision_id=call.decision_id, sequence=call.sequence, result=result, settled_at=at)
        await write(self._log, partial(store_settlement, settlement=settlement, sealer=self._sealer))
        return _Settling.SETTLED

    async def _outcome(self, call: UnknownCall) -> ToolResult | None:
        if self._sent_calls is None:
            return await self._tools.settle(call, deadline=_TIMEOUT_SECONDS)
        if self._tools.traits(call.tool_name).ledger:
            return await self._sent_calls.ask_ledger(call, _TIMEOUT_SECONDS)
        work = partial(request_of, decision_id=call.decision_id, sequence=call.sequence, sealer=self._sealer)
        return await self._sent_calls.outcome(call, await read(self._log, work), _TIMEOUT_SECONDS)

    async def _connect(self, since: datetime) -> int:
        """Connect to the servers if there is a call of a tool that none of them has listed in this process."""
        served = self._tools.get_available_tools()
        if await read(self._log, partial(has_unserved_call, tools=served, since=since)):
            await self._tools.start()
            self._begin_back_off(None)
        else:
            self._back_offs.pop(None, None)
        return 0

    def _silences(self, server: str) -> int:
        return self._back_offs[server].silences if server in self._back_offs else 0

    def _begin_back_off(self, server: str | None) -> None:
        now = self._clock.monotonic()
        self._back_offs.setdefault(server, _BackOff(now)).begin(now)

    def _backs_off(self, server: str | None) -> bool:
        return server in self._back_offs and self._clock.monotonic() < self._back_offs[server].until

    def _searched_later(self) -> list[str]:
        """Return the calls that a read did not find a moment ago."""
        now = self._clock.monotonic()
        return [key for key, back_off in self._searches.items() if now < back_off.until]

    def _forget_older(self, begun: float) -> None:
        """Forget the back-offs of calls that nothing asks about any more."""
        self._searches = {key: back_off for key, back_off in self._searches.items() if back_off.since > begun}

    def _seconds_left(self) -> float:
        """Return the seconds until a server may be asked again."""
        ends = [back_off.until for back_off in (*self._back_offs.values(), *self._searches.values())]
        return max(0.0, min(ends, default=0.0) - self._clock.monotonic())
