"""The simulated clients: they send messages with keys, repeat what failed, and answer questions."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.decision import ConfirmationAnswer
from tests.simulation.policies import REQUESTER_ROLES
from tests.simulation.replicas import Replica, World
from tests.simulation.tools import UNDONE

_AGAIN = frozenset(
    {
        ServiceErrorCode.SERVICE_UNAVAILABLE,
        ServiceErrorCode.REQUEST_IN_PROGRESS,
        ServiceErrorCode.CONVERSATION_BUSY,
        ServiceErrorCode.OUTCOME_UNKNOWN,
    }
)
"""The answers after which a client asks again with the same key."""
_TRIES = 8
NO_REPLY = "no reply"
REFUSED_UNDO = frozenset({ServiceErrorCode.NOT_UNDOABLE, ServiceErrorCode.DECISION_NOT_FOUND})
"""The answers to an undo after which a client does not ask again."""


@dataclass
class Attempt:
    """One time that a request was sent."""

    replica: Replica
    process: Any
    started: float
    ended: float = 0.0
    outcome: ChatAnswer | str = NO_REPLY
    """The answer, or the code of the error."""
    alone: bool = True
    """True if the client did nothing else meanwhile, and had not sent the request before."""


@dataclass
class Request:
    """A message of a user, with everything that came back."""

    user_id: str
    content: str
    key: str | None
    conversation_id: str | None
    answers: ConfirmationAnswer | None = None
    undoes: str | None = None
    """The decision that is to be undone, for a request without a message."""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def received(self) -> list[ChatAnswer]:
        return [attempt.outcome for attempt in self.attempts if isinstance(attempt.outcome, ChatAnswer)]


class Client:
    """A user with one conversation."""

    def __init__(self, world: World, replicas: list[Replica], number: int) -> None:
        self.requests: list[Request] = []
        self.all: list[Client] = [self]
        """All clients, whose decisions this one may try to undo."""
        self._world = world
        self._replicas = replicas
        self.user_id = f"user{number}"
        self._conversation_id: str | None = None

    async def converse(self) -> None:
        """Send every message, each after the answer to the one before."""
        random, faults = self._world.random, self._world.faults
        for _ in range(faults.messages + faults.approvals):
            await asyncio.sleep(random.uniform(0.0, 8.0))
            answer = await self._ask(None)
            if answer is None:
                continue
            self._conversation_id = answer.conversation_id
            await self._answer(answer)
            if random.random() < 0.4:
                # Once, twice one after the other, or from two tabs.
                for tabs in random.choice(([1], [1, 1], [2])):
                    await asyncio.gather(*(self._undo(answer.decision_id) for _ in range(tabs)))
            if (known := self._known_changes()) and random.random() < 0.4:
                await self._undo(random.choice(known))

    async def _answer(self, answer: ChatAnswer) -> None:
        """Answer the question of a decision, if it has one."""
        random, pending = self._world.random, answer.decision.pending_action
        if pending is not None:
            yes = ConfirmationAnswer(pending_action=pending.id, yes=random.random() < 0.8)
            times = 1 if random.random() < 0.6 else 2
            # An undo is asked about in the conversation of its change.
            asked = [self._ask(yes, conversation_id=answer.conversation_id) for _ in range(times)]
            await asyncio.gather(*asked)

    async def _undo(self, decision_id: str) -> None:
        if (answer := await self._ask(None, undoes=decision_id)) is not None:
            await self._answer(answer)

    def _known_changes(self) -> list[str]:
        """Return the decisions of any client that have called the tool whose calls can be undone."""
        received = [one for client in self.all for request in client.requests for one in request.received]
        return [one.decision_id for one in received if any(call.tool_name == UNDONE for call in one.decision.tool_calls or ())]

    async def _ask(
        self, answers: ConfirmationAnswer | None, *, undoes: str | None = None, conversation_id: str | None = None
    ) -> ChatAnswer | None:
        random, faults = self._world.random, self._world.faults
        content = f"{self.user_id} message {len(self.requests) + 1}"
        keyed, conversation_id = random.random() >= faults.keyless, conversation_id or self._conversation_id
        key = content.replace(" ", "-") if keyed else None
        request = Request(self.user_id, content, key, conversation_id, answers, undoes)
        alone = answers is None and undoes is None
        self.requests.append(request)
        if not keyed:
            await self._send(request, alone=alone)
        elif random.random() < faults.double_clicks:
            await asyncio.gather(self._repeat(request, alone=False), self._repeat(request, alone=False))
        else:
            await self._repeat(request, alone=alone)
        return request.received[0] if request.received else None

    async def _repeat(self, request: Request, *, alone: bool) -> None:
        """Send a request until there is an answer."""
        for number in range(_TRIES):
            outcome = await self._send(request, alone=alone and number == 0)
            if isinstance(outcome, ChatAnswer) or outcome in REFUSED_UNDO:
                return
            await asyncio.sleep(self._world.random.uniform(0.1, 4.0))

    async def _send(self, request: Request, *, alone: bool) -> ChatAnswer | str:
        world = self._world
        random, loop = world.random, world.loop
        await asyncio.sleep(random.uniform(0.001, 0.05))
        replica = random.choice(self._replicas)
        attempt = Attempt(replica, replica.process, loop.time(), alone=alone)
        request.attempts.append(attempt)
        outcome: ChatAnswer | str = NO_REPLY
        if replica.process.alive:
            outcome = await self._reply(request, replica)
        await asyncio.sleep(random.uniform(0.001, 0.05))
        attempt.ended = loop.time()
        attempt.outcome = outcome
        said = outcome if isinstance(outcome, str) else f"{outcome.decision.outcome_category}: {outcome.reply!r}"
        world.history.add(self.user_id, f"{request.content.partition(' ')[2]} at {attempt.process.name}: {said}")
        return outcome

    async def _reply(self, request: Request, replica: Replica) -> ChatAnswer | str:
        """Return the reply of a replica; no reply if it dies, or if the client gives up."""
        world = self._world
        random = world.random
        patience = random.uniform(0.5, 10) if random.random() < world.faults.impatience else None
        died, chat = replica.died, replica.chat
        served = world.loop.spawn(replica.process, _serve(chat, request))
        awaited: list[asyncio.Future[Any]] = [served, died]
        await asyncio.wait(awaited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not served.done():
            if replica.process.alive and random.random() < 0.5:
                # The server notices that the client has gone.
                world.loop.call_soon(served.cancel, context=replica.process.context())
            return NO_REPLY
        if served.cancelled():
            return NO_REPLY
        failure = served.exception()
        if failure is None:
            return served.result()
        again = _AGAIN if request.undoes is None else _AGAIN | REFUSED_UNDO
        if isinstance(failure, ServiceError) and failure.code in again:
            return str(failure.code)
        world.history.violated(f"{request.content} raises {failure!r}")
        return repr(failure)


async def _serve(chat: ChatService, request: Request) -> ChatAnswer:
    if request.undoes is not None:
        return await chat.undo(request.user_id, request.undoes, idem_key=request.key, roles=REQUESTER_ROLES)
    return await chat.send(
        request.user_id,
        request.content,
        conversation_id=request.conversation_id,
        answers=request.answers,
        idem_key=request.key,
        roles=REQUESTER_ROLES,
    )


async def ask_again(world: World, replica: Replica, request: Request) -> ChatAnswer | str:
    """Repeat a request with a key after everything has healed."""
    served = world.loop.spawn(replica.process, _serve(replica.chat, request))
    try:
        return await served
    except ServiceError as error:
        return str(error.code)
