"""The event stream of one turn: from this process while it runs the turn, otherwise from the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.errors import GraphAgentError, ServiceError, ServiceErrorCode
from graph_agent.models.record import DecisionRecord, OpenTurn
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.events import EventKind, TurnEvent, call_event, opening_event, progress_event, step_events
from graph_agent.turn.handle import TurnHandle

_log = logging.getLogger(__name__)

BATCH_SECONDS = 0.025
"""The events of this time are sent together: nodes that take no time follow each other within milliseconds, and a user sees no
difference."""
POLL_SECONDS = 0.25
"""The time between two reads of the log while another process runs the turn, if no notifications arrive."""
MAX_FOLLOWING_SECONDS = 120.0
"""After this time the stream ends without a decision, and the client may connect again."""


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event and its number in its turn, from 1; the number is the same live and from the log."""

    number: int | None
    """None for a running call and its progress, which are shown while it runs and are not part of the record."""
    event: TurnEvent
    more: bool = False
    """True if the next event is there already, so that both can be sent at once."""


class TurnStream:
    """Streams the events of turns. A listener can neither start, stop nor delay a turn."""

    def __init__(self, chat: ChatService, engine: LLMAgentEngine, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._chat = chat
        self._engine = engine
        self._poll_seconds = poll_seconds

    async def subscribe(self, decision_id: str, user_id: str | None, after: int = 0) -> AsyncIterator[NumberedEvent] | None:
        """Return the events after number `after`; None if the turn has ended and there are none.

        `user_id` must be the turn's user; None allows every user. Raises DECISION_NOT_FOUND, also for another user's turn.
        """
        run = self._chat.live(decision_id)
        if run is not None:
            _require(run.user_id, user_id)
            return self.follow(run, after)
        stored = await self._engine.audit.load(decision_id)
        _require(None if stored is None else stored.header.context.user_id, user_id)
        events = await self._recorded_events(stored)
        if events is None:
            return self._follow_elsewhere(decision_id, after)
        return _numbered(events, after) if len(events) > after else None

    async def answered(self, answer: ChatAnswer) -> AsyncIterator[NumberedEvent]:
        """Return the events of a turn that was answered before; only the decision if the log no longer has the record."""
        stored = await self._engine.audit.load(answer.decision_id)
        path = await self._path(stored) if isinstance(stored, DecisionRecord) else []
        return _numbered([*path, _decision(answer.reply_json())])

    async def follow(self, run: TurnHandle[object], after: int = 0) -> AsyncIterator[NumberedEvent]:
        """Yield the events of a turn while it runs. Raises what the turn raised."""
        snapshot = await self._engine.prepare()
        number, shown, call = 0, None, None
        async with aclosing(run.stream_batches(BATCH_SECONDS)) as batches:
            async for steps in batches:
                events = [event for step in steps for event in step_events(step, snapshot)]
                if number == 0:
                    events.insert(0, opening_event(snapshot))
                numbers = range(number + 1, number + len(events) + 1)
                number += len(events)
                found = [NumberedEvent(*one, more=True) for one in zip(numbers, events, strict=True) if one[0] > after]
                if (running := run.progress.call) is not None and running is not call:
                    call = running
                    found.append(NumberedEvent(None, call_event(running, snapshot), more=True))
                if (latest := run.progress.latest) is not None and latest is not shown:
                    shown = latest
                    found.append(NumberedEvent(None, progress_event(latest)))
                for one in found[:-1]:
                    yield one
                # The decision follows the last step at once.
                for one in found[-1:]:
                    yield replace(one, more=not run.is_running and run.failure is None)
        if run.failure is not None and not _is_decided_elsewhere(run.failure):
            raise run.failure
        answer = None if run.failure is not None else await run.result()
        if isinstance(answer, ChatAnswer):
            yield NumberedEvent(number + 1, _decision(answer.reply_json()))
        else:
            async for numbered in self._follow_elsewhere(run.decision_id, max(after, number)):
                yield numbered

    async def _follow_elsewhere(self, decision_id: str, after: int) -> AsyncIterator[NumberedEvent]:
        """Yield the events after number `after` once the turn has ended, in whichever process; at least the decision."""
        clock = asyncio.get_running_loop().time
        ends = clock() + MAX_FOLLOWING_SECONDS
        with self._chat.endings.follow(decision_id, self._poll_seconds) as follower:
            while clock() < ends:
                events = await self._recorded_events(await self._engine.audit.load(decision_id))
                if events is not None:
                    async for numbered in _numbered(events, min(after, len(events) - 1)):
                        yield numbered
                    return
                await follower.wait()

    async def _recorded_events(self, stored: OpenTurn | DecisionRecord | None) -> list[TurnEvent] | None:
        """Return all events of a turn; None until it has been answered."""
        if not isinstance(stored, DecisionRecord):
            return None
        try:
            answer = await self._chat.answer(stored.header.decision_id)
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.REQUEST_IN_PROGRESS:
                return None
            raise
        reply = _reply_without_message(stored) if answer is None else answer.reply_json()
        return [*await self._path(stored), _decision(reply)]

    async def _path(self, record: DecisionRecord) -> list[TurnEvent]:
        """Return the events before the decision, as far as this version can walk the record."""
        if not record.states:
            # The message was refused before the graph was entered.
            return []
        events: list[TurnEvent] = []
        try:
            snapshot = await self._engine.snapshot_of(record.header)
            events.append(opening_event(snapshot))
            async for step in self._engine.steps_of(record, snapshot):
                events += step_events(step, snapshot)
        except (GraphAgentError, LookupError, ValueError) as exc:
            _log.warning("decision %s cannot be walked again", record.header.decision_id, exc_info=exc)
        return events


def _is_decided_elsewhere(failure: BaseException) -> bool:
    """True if the decision can still be read from the log: the turn was interrupted, or another process has claimed it."""
    if isinstance(failure, ServiceError):
        return failure.code is ServiceErrorCode.REQUEST_IN_PROGRESS
    return isinstance(failure, asyncio.CancelledError)


def _require(owner: str | None, user_id: str | None) -> None:
    if owner is None or user_id not in (None, owner):
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no decision with this id.")


async def _numbered(events: list[TurnEvent], after: int = 0) -> AsyncIterator[NumberedEvent]:
    for number, event in enumerate(events[after:], after + 1):
        yield NumberedEvent(number, event, more=number < len(events))


def _decision(reply: dict[str, Any]) -> TurnEvent:
    return TurnEvent(EventKind.DECISION, reply)


def _reply_without_message(record: DecisionRecord) -> dict[str, Any]:
    """Return the reply of a decision outside the chat, such as one of the agent service: it has no message id."""
    return {
        "conversation_id": record.header.context.conversation_id,
        "message_id": None,
        "decision_id": record.header.decision_id,
        "reply": record.decision.reply,
        "decision": record.decision.to_json(),
    }
