"""Eight connections race the transitions of the same approval requests, on a database of its own; then the rows are checked.

For each request: approvals of two managers, a double click, an answer of the requester, a denial, a withdrawal, claims of its
closing decision, its end by the clock of the database, and its notices. Everything is the code of the package, except
the effect of a call, which is a line in a list.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from graph_agent.chat.conversations.tables import conversations
from graph_agent.chat.conversations.turns import TurnStore
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.db import Database
from graph_agent.due.table import DueTable, DueWork, WorkKind
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity, count_approvals
from graph_agent.models.decision import ApprovalRequest, DecisionContext, PendingAction
from graph_agent.models.record import SNAPSHOT_TEXTS, DecisionOpening, RecordHeader
from graph_agent.question.approvals import ApprovalStore, StoredRequest
from graph_agent.question.tables import QuestionState, answers, questions
from graph_agent.record.tables import decision_logs
from graph_agent.record.writer import DatabaseAuditWriter

CONNECTIONS = 8
NEEDED = 2
"""The number of people who must approve."""
_AT_ONCE = 4
"""The requests that are raced at the same time, so that transitions of different ones can block each other, too."""
_LATE_AFTER_MS = (*range(5, 105, 10), *[60_000] * 10)
_CLOCK = SystemClock()
_KEY = b"the key of the record in this race"
_EXPECTED = {
    ServiceErrorCode.ACCESS_DENIED,
    ServiceErrorCode.QUESTION_CLOSED,
    ServiceErrorCode.QUESTION_CONFLICT,
    ServiceErrorCode.CONVERSATION_BUSY,
}
"""The answers of a transition that comes too late or is not permitted."""


@dataclass
class Outcome:
    """The ends of the requests, and what must not happen, each with its number."""

    states: Counter[ApprovalState] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    """The calls that were made, by the id of the request."""


class Racer:
    """One process: its connection, and the transitions that it makes."""

    def __init__(self, url: str, outcome: Outcome) -> None:
        # Of three connections one is for transitions: the others are for writes that end turns, of which there are none.
        self.database = Database.open(url, connections=3)
        self.store = ApprovalStore(self.database, record_key=_KEY, notices=True)
        self._due = DueTable(self.database)
        self._audit = DatabaseAuditWriter(self.database, clock=_CLOCK, record_key=_KEY)
        lease = timedelta(hours=1)
        self._turns = TurnStore(self._audit, clock=_CLOCK, ids=RandomIds(), lease=lease, turns_per_minute=1_000_000)
        self._outcome = outcome
        self._closed: dict[str, ApprovalState] = {}
        """The end of the request of each closing decision that this process has tried to open."""

    async def answer(self, request: ApprovalRequest, who: str, *, approve: bool = True) -> None:
        given = ApprovalAnswer(
            approver=who,
            approve=approve,
            role="manager",
            digest=request.digest,
            identity=ApproverIdentity.TOKEN,
            answered_at=_CLOCK.now(),
        )
        await self.store.answer(request.id, given)

    async def cancel(self, request: ApprovalRequest) -> None:
        await self.store.cancel(request.id, request.user_id)

    async def expire(self, request: ApprovalRequest) -> None:
        await self.store.expire(request.id)

    async def claim(self, request: ApprovalRequest) -> None:
        """Claim the closing decision, and make the call if the request was approved."""
        closing = await self._turns.claim_closing(self.store, request, _may_run, self._opening)
        if closing is not None and self._closed[closing.decision_id] is ApprovalState.APPROVED:
            self._outcome.effects[request.id] += 1

    async def send_notice(self, _request: ApprovalRequest) -> None:
        def take(connection: Connection) -> list[DueWork]:
            return self._due.take(connection, WorkKind.NOTICE, token=str(uuid.uuid4()))

        for work in await self.store.database.write(take):
            await self.store.database.write(partial(self._due.done, work=work))

    async def attempt(self, transition: Coroutine[Any, Any, None]) -> None:
        """Make a transition, which may come too late; any other error is a violation."""
        try:
            await transition
        except ServiceError as exc:
            if exc.code not in _EXPECTED:
                self._outcome.violations[f"{exc.code}: {exc.__cause__}"[:200]] += 1
        except Exception as exc:
            self._outcome.violations[f"{type(exc).__name__}: {exc}"[:200]] += 1

    def _opening(self, decision_id: str, context: DecisionContext, at: datetime) -> DecisionOpening:
        assert context.approval is not None
        self._closed[decision_id] = context.approval.end
        texts: dict[str, Any] = dict.fromkeys(SNAPSHOT_TEXTS, "digest")
        header = RecordHeader(decision_id=decision_id, context=context, started_at=at, model="none", **texts)
        return DecisionOpening.of(header, {})


async def race(url: str, requests: int, seed: int) -> Outcome:
    """Race so many requests, and return what became of them. The database has all tables, and nothing in them."""
    outcome, chance = Outcome(), random.Random(seed)
    racers = [Racer(url, outcome) for _ in range(CONNECTIONS)]
    raced: list[ApprovalRequest] = []
    try:
        while len(raced) < requests:
            batch = [await _open(racers[0], chance) for _ in range(min(_AT_ONCE, requests - len(raced)))]
            await asyncio.gather(*(_work(racer, number, batch, chance) for number, racer in enumerate(racers)))
            raced += batch
        # The last sweep: each request that has ended gets its closing decision.
        sweeper = racers[0]
        for request in raced:
            await sweeper.store.expire(request.id)
            await sweeper.attempt(sweeper.claim(request))
        await sweeper.database.read(lambda connection: check(connection, outcome))
    finally:
        for racer in racers:
            await racer.database.close()
    return outcome


async def _open(racer: Racer, chance: random.Random) -> ApprovalRequest:
    """Store a request: of a chat, or of a decision without one, whose closing decision is no turn."""
    ids, now = RandomIds(), _CLOCK.now()
    conversation_id = ids.new()
    # Nobody has many requests at once.
    requester = f"ann {conversation_id}"
    late = now + timedelta(milliseconds=chance.choice(_LATE_AFTER_MS))
    action = PendingAction(
        id=ids.new(), tool_name="add_task", arguments={}, description="add", created_at=now, expires_at=late, signature="s"
    )
    request = ApprovalRequest(
        action=action,
        roles=("manager",),
        rules=("two people",),
        prompt="digest",
        user_id=requester,
        conversation_id=conversation_id,
        decision_id=ids.new(),
        origin="race",
    )
    row = {"id": conversation_id, "user_id": requester, "title": "add", "created_at": now, "updated_at": now}
    in_chat = chance.random() < 0.5

    def store(connection: Connection) -> None:
        if in_chat:
            connection.execute(insert(conversations).values(**row))
        racer.store.open(connection, request)

    await racer.database.write(store)
    return request


async def _work(racer: Racer, number: int, batch: Sequence[ApprovalRequest], chance: random.Random) -> None:
    """Make the transitions of one process for each request, in an order of its own."""
    for request in chance.sample(batch, len(batch)):
        for transition in _transitions(racer, number, request, chance):
            # Processes do not begin at the same moment: this is what the random seed varies.
            await asyncio.sleep(chance.random() * 0.004)
            await racer.attempt(transition)


def _transitions(racer: Racer, number: int, request: ApprovalRequest, chance: random.Random) -> list[Coroutine[Any, Any, None]]:
    """Return what one of the processes does about a request. Few requests are denied or withdrawn: those end at once."""
    match number:
        case 0:
            return [racer.answer(request, "bob")]
        case 1:
            return [racer.answer(request, "eve"), racer.answer(request, "eve")]
        case 2:
            return [racer.answer(request, "bob"), racer.claim(request)]
        case 3:
            return [racer.answer(request, "eve"), racer.claim(request)]
        case 4:
            denial = [racer.answer(request, "dan", approve=False)] if chance.random() < 0.3 else []
            return [racer.answer(request, request.user_id), *denial]
        case 5:
            return [racer.cancel(request)] if chance.random() < 0.3 else []
        case 6:
            return [racer.claim(request), racer.claim(request)]
        case _:
            return [racer.send_notice(request), racer.expire(request), racer.claim(request)]


def _may_run(stored: StoredRequest) -> bool:
    counts = count_approvals(stored.answers, stored.request.user_id)
    return sum(counts.values()) >= NEEDED and all(one.approve for one in stored.answers)


def check(connection: Connection, outcome: Outcome) -> None:
    """Add what the rows of all requests, and the calls that were made, violate."""
    given: dict[str, list[Row[Any]]] = {}
    for answer in connection.execute(select(answers)):
        given.setdefault(answer.question_id, []).append(answer)
    headers = connection.execute(select(decision_logs.c.header)).scalars()
    closings = Counter(json.loads(header)["context"]["approval"]["request"]["action"]["id"] for header in headers)
    found = outcome.violations
    for row in connection.execute(select(questions)):
        outcome.states[ApprovalState(row.state)] += 1
        answered, effects = given.get(row.id, []), outcome.effects[row.id]
        approvers = {one.person for one in answered if one.yes and one.person != row.user_id}
        found["two effects"] += effects > 1
        found["an effect without two others"] += effects and len(approvers) < NEEDED
        found["an effect beside another end"] += effects and row.state is not QuestionState.APPROVED
        found["an effect and a denial"] += effects and not all(one.yes for one in answered)
        found["approved without an effect"] += row.state is QuestionState.APPROVED and not effects
        found["an end without a closing decision"] += row.state is not QuestionState.OPEN and row.closed_by is None
        found["a closing decision without an end"] += row.state is QuestionState.OPEN and row.closed_by is not None
        found["not as many closing decisions as ends"] += closings[row.id] != (row.state is not QuestionState.OPEN)
        found["two answers of one person"] += len({one.person for one in answered}) < len(answered)
        found["an answer of the requester"] += any(one.person == row.user_id for one in answered)
        found["an answer after the end"] += any(row.ended_at and one.answered_at > row.ended_at for one in answered)
        found["an approval after its time"] += any(one.yes and one.answered_at >= row.expires_at for one in answered)
        found["approved after its time"] += row.state is QuestionState.APPROVED and row.ended_at >= row.expires_at
    outcome.violations = +found


def drop_key(url: str) -> None:
    """Make a table of answers without a key."""
    database = Database.open(url)

    def replace(connection: Connection) -> None:
        for statement in (
            "CREATE TABLE keyless AS SELECT * FROM answers",
            "DROP TABLE answers",
            "ALTER TABLE keyless RENAME TO answers",
        ):
            connection.exec_driver_sql(statement)

    database.write_now(replace)
    database.close_now()
