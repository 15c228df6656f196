"""The events of one turn from wherever they can be had: from this process while it runs the turn, else from the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from graph_agent.api.chat import chat_reply
from graph_agent.chat.service import ChatAnswer, ChatService
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.turn.events import EventKind, TurnEvent, opening_event, record_events, step_events
from graph_agent.turn.live import LiveTurn
from graph_agent.models.record import DecisionRecord, OpenTurn

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""How often the log is asked for a turn that runs elsewhere."""
PATIENCE_SECONDS = 120.0
"""How long it is asked for; then the stream just ends, and whoever still wants to know comes again."""


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event and its place in its turn, from 1; the same live and later."""

    number: int
    event: TurnEvent


class TurnEvents:
    """Follows turns. No listener can start, stop or slow one."""

    def __init__(self, chat: ChatService, engine: LLMAgentEngine, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._chat = chat
        self._engine = engine
        self._poll_seconds = poll_seconds

    async def of(self, decision_id: str, user_id: str | None, after: int = 0) -> AsyncIterator[NumberedEvent] | None:
        """The events behind number `after`; None if the turn has ended and nothing stands behind it.

        `user_id` is whose turn it must be, None allows all. Raises DECISION_NOT_FOUND, also for another user's.
        """
        live = self._chat.live(decision_id)
        if live is not None:
            _require(live.user_id, user_id)
            return self.follow(live, after)
        stands = await self._engine.audit.load(decision_id)
        _require(None if stands is None else stands.header.context.user_id, user_id)
        told = await self._told(stands)
        if told is None:
            return self._awaited(decision_id, after)
        return _told_at_once(told, after) if len(told) > after else None

    async def answered(self, answer: ChatAnswer) -> AsyncIterator[NumberedEvent]:
        """The events behind an answer that was given before; of one that the log has dropped only the decision."""
        stands = await self._engine.audit.load(answer.decision_id)
        path = await self._path(stands) if isinstance(stands, DecisionRecord) else []
        return _told_at_once([*path, _decision(chat_reply(answer))])

    async def follow(self, live: LiveTurn, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """The events of a turn as it runs. Raises what the turn raised."""
        terms = await self._engine.prepare()
        told = [opening_event(terms)]
        if after < 1:
            yield NumberedEvent(1, told[0])
        async for step in live.steps():
            for event in step_events(step, terms):
                told.append(event)
                if len(told) > after:
                    yield NumberedEvent(len(told), event)
        if live.failure is not None and not _goes_on(live.failure):
            raise live.failure
        async for numbered in self._awaited(live.decision_id, after, told):
            yield numbered

    async def _awaited(
        self, decision_id: str, after: int, before: list[TurnEvent] | None = None
    ) -> AsyncIterator[NumberedEvent]:
        """The events of a turn once it has ended, without those that were told `before`."""
        before = before or []
        for _ in range(round(PATIENCE_SECONDS / self._poll_seconds)):
            told = await self._told(await self._engine.audit.load(decision_id))
            if told is not None:
                # A turn that was cut off tells more in its record. Should it have gone another way there, its end is enough.
                fits = told[: len(before)] == before
                async for numbered in _told_at_once(told, max(after, len(before)) if fits else len(told) - 1):
                    yield numbered
                return
            await asyncio.sleep(self._poll_seconds)

    async def _told(self, stands: OpenTurn | DecisionRecord | None) -> list[TurnEvent] | None:
        """All events of a turn; None while it has not been answered."""
        if not isinstance(stands, DecisionRecord):
            return None
        try:
            answer = await self._chat.answer(stands.header.decision_id)
        except ServiceError as exc:
            if exc.code is ServiceErrorCode.REQUEST_IN_PROGRESS:
                return None
            raise
        return [*await self._path(stands), _decision(_unanswered(stands) if answer is None else chat_reply(answer))]

    async def _path(self, record: DecisionRecord) -> list[TurnEvent]:
        """What a turn told on its way; nothing where this version cannot read the terms it was run under."""
        try:
            return list(record_events(record, await self._engine.terms_of(record.header)))
        except (LookupError, ValueError) as exc:
            _log.warning("decision %s: its terms cannot be read", record.header.decision_id, exc_info=exc)
            return []


def _goes_on(failure: BaseException) -> bool:
    """Whether the turn has an end all the same: it was interrupted, or is held by another process now."""
    if isinstance(failure, ServiceError):
        return failure.code is ServiceErrorCode.REQUEST_IN_PROGRESS
    return isinstance(failure, asyncio.CancelledError)


def _require(owner: str | None, user_id: str | None) -> None:
    if owner is None or user_id not in (None, owner):
        raise ServiceError(ServiceErrorCode.DECISION_NOT_FOUND, "There is no decision with this id.")


async def _told_at_once(told: list[TurnEvent], after: int = 0) -> AsyncIterator[NumberedEvent]:
    for number, event in enumerate(told[after:], after + 1):
        yield NumberedEvent(number, event)


def _decision(reply: dict[str, Any]) -> TurnEvent:
    return TurnEvent(EventKind.DECISION, reply)


def _unanswered(record: DecisionRecord) -> dict[str, Any]:
    """The reply of a decision that no chat turn made: there is no message."""
    return {
        "conversation_id": record.header.context.conversation_id,
        "message_id": None,
        "decision_id": record.header.decision_id,
        "reply": record.decision.reply,
        "decision": record.decision.to_json(),
    }
