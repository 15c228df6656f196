"""One process: it asks, answers and withdraws at random, or does what is due, until it is killed or its time is over."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from graph_agent.chat.approvals import ApprovalService
from graph_agent.chat.conversations.tables import conversations
from graph_agent.chat.service import ChatService
from graph_agent.db import Database
from graph_agent.errors import ServiceError
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.models.llm import FunctionCall
from graph_agent.question.tables import Asks, QuestionState, questions
from tests.question.processes.environment import LedgerServer, SteppedClock, open_chat

USERS = [f"user{n}" for n in range(40)]
_CONVERSATIONS = 3
"""The conversations of a user at most."""
_APPROVERS = {"bob": ("manager",), "eve": ("finance",), "sam": ("finance",), "joe": ("finance", "manager"), "guest": ()}
_IDENTITIES = (ApproverIdentity.TOKEN, ApproverIdentity.TOKEN, ApproverIdentity.ASSERTED)
_NEWEST = 10
"""The open questions of which one is answered: few, so that several processes answer the same."""
_SLOW, _SLOW_SECONDS = 0.2, 0.4
"""The chance that a process that does due work is slow before a commit, and for how long at most."""
_OTHER_DIGEST = "0" * 64


@dataclass(frozen=True)
class Settings:
    """What the processes of a run have in common."""

    url: str
    folder: Path
    """Of the effects of the calls."""
    clock: SteppedClock
    kills: float
    """The chance that a process is killed at a commit."""


class KilledDatabase(Database):
    """A database whose process is killed before or after a commit at random, and is sometimes slow."""

    chance: random.Random
    kills = 0.0
    slow = 0.0

    async def write(self, work: Any) -> Any:
        fate = self.chance.random()
        if self.chance.random() < self.slow:
            await asyncio.sleep(self.chance.random() * _SLOW_SECONDS)

        def die_before_the_commit(connection: Any) -> Any:
            result = work(connection)
            if fate < self.kills / 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        result = await super().write(die_before_the_commit)
        if fate > 1 - self.kills / 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def run(settings: Settings, rules: str, *, asks: bool, seed: int, until: float) -> None:
    """Run one process until a monotonic time."""
    asyncio.run(_run(settings, rules, asks=asks, seed=seed, until=until))


async def _run(settings: Settings, rules: str, *, asks: bool, seed: int, until: float) -> None:
    database = KilledDatabase.open(settings.url, connections=4)
    database.clock, database.chance, database.kills = settings.clock, random.Random(seed), settings.kills
    database.slow = 0.0 if asks else _SLOW
    chat = open_chat(database, LedgerServer(folder=settings.folder, rules=rules), rules)
    client = Client(chat, database, random.Random(seed + 1))
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, until - time.monotonic())):
            await (client.act_forever() if asks else chat.serve_due_forever())
    await chat.aclose()
    await database.close()


class Client:
    """The users and approvers of one process."""

    def __init__(self, chat: ChatService, database: Database, chance: random.Random) -> None:
        self._chat = chat
        self._database = database
        self._random = chance

    async def act_forever(self) -> None:
        while True:
            # Too late, not permitted, or the database is busy.
            with suppress(ServiceError):
                await self._act()

    async def _act(self) -> None:
        kind = self._random.random()
        if kind < 0.35:
            await self._ask()
            return
        found = await self._open_questions()
        if not found:
            return
        one = self._random.choice(found)
        if one.asks is Asks.REQUESTER:
            answer = ConfirmationAnswer(pending_action=one.id, yes=self._random.random() < 0.7)
            await self._chat.send(one.user_id, answers=answer)
        elif kind < 0.37:
            await self._requests.cancel(one.id, one.user_id)
        else:
            await self._answer(one)

    async def _ask(self) -> None:
        """Ask the user for a yes to one deletion or three, or others for the approval of an addition."""
        name, user = f"task-{self._random.getrandbits(64):x}", self._random.choice(USERS)
        called = [FunctionCall(name="add_task", arguments={"description": name})]
        if self._random.random() < 0.5:
            count = self._random.choice((1, 1, 3))
            called = [FunctionCall(name="delete_task", arguments={"task_id": f"{name}-{n}"}) for n in range(count)]
        await self._chat.call(user, called, conversation_id=await self._conversation(user))

    async def _answer(self, question: Any) -> None:
        approver = self._random.choice([*_APPROVERS, question.user_id])
        await self._requests.answer(
            question.id,
            approver,
            _APPROVERS.get(approver, ("manager",)),
            approve=self._random.random() < 0.9,
            digest=question.digest if self._random.random() < 0.9 else _OTHER_DIGEST,
            identity=self._random.choice(_IDENTITIES),
            reason="a reason",
        )

    @property
    def _requests(self) -> ApprovalService:
        assert self._chat.approvals is not None
        return self._chat.approvals

    async def _conversation(self, user: str) -> str | None:
        """Return a conversation of the user; None for a new one."""
        own = select(conversations.c.id).where(conversations.c.user_id == user)
        found = await self._database.read(lambda connection: connection.execute(own).scalars().all())
        return None if len(found) < _CONVERSATIONS else self._random.choice(found)

    async def _open_questions(self) -> Sequence[Any]:
        wanted = select(*questions.c["id", "asks", "user_id", "digest"]).where(questions.c.state == QuestionState.OPEN)
        newest = wanted.order_by(questions.c.opened_at.desc(), func.length(questions.c.id)).limit(_NEWEST)
        return await self._database.read(lambda connection: connection.execute(newest).all())
