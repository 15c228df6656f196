"""The simulated callers of the engine without a chat: no turn is claimed, and no request is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from graph_agent.errors import ServiceError, TurnTakenOverError
from graph_agent.models.decision import DecisionContext
from graph_agent.turn.finished import FinishedTurn
from tests.simulation.clients import NO_REPLY
from tests.simulation.policies import REQUESTER_ROLES
from tests.simulation.replicas import Replica, World

CONVERSATION = "plain"
"""The beginning of the ids of conversations that have no chat."""


@dataclass(frozen=True)
class PlainRequest:
    """A decision that a caller has asked for, with the result or the code of the error."""

    message: str
    outcome: FinishedTurn | str


class PlainCaller:
    """Asks for decisions of one user. They run beside the turns of the user's chat."""

    def __init__(self, world: World, replicas: list[Replica], number: int) -> None:
        self.requests: list[PlainRequest] = []
        self._world = world
        self._replicas = replicas
        self._user_id = f"user{number}"

    async def decide(self) -> None:
        """Ask for each decision, with or without a model, some of them at once; answer a question of it twice at once."""
        random, count = self._world.random, self._world.faults.plain
        # Some callers ask everything at once and without a model, so that their calls meet in the database.
        hurries = random.random() < 0.5
        moment = random.uniform(0.0, 20.0)
        moments = [moment if hurries else random.uniform(0.0, 20.0) for _ in range(count)]
        await asyncio.gather(*(self._decide(number, moment, hurries=hurries) for number, moment in enumerate(moments, start=1)))

    async def _decide(self, number: int, moment: float, *, hurries: bool) -> None:
        world, random = self._world, self._world.random
        await asyncio.sleep(moment)
        engine, conversation = random.choice(self._replicas), f"{CONVERSATION}-{self._user_id}-{number}"
        if not hurries and random.random() < 0.7:
            context = DecisionContext(
                user_id=self._user_id, message=f"{conversation} asks", conversation_id=conversation, roles=REQUESTER_ROLES
            )
        else:
            context = DecisionContext.for_calls(self._user_id, world.model.calls(), conversation, REQUESTER_ROLES)
        asked = await self._run(engine, lambda one: one.engine.run(context), context.message)
        if isinstance(asked, FinishedTurn) and asked.decision.pending_action is not None:
            yes, message = random.random() < 0.8, f"{conversation} answers"
            answers = [random.choice(self._replicas) for _ in range(random.choice((1, 2)))]
            await asyncio.gather(
                *(self._run(one, lambda replica: replica.engine.answer(asked, yes=yes), message) for one in answers)
            )

    async def _run(self, replica: Replica, start: Any, message: str) -> FinishedTurn | str:
        outcome: FinishedTurn | str = NO_REPLY
        if replica.process.alive:
            outcome = await self._reply(replica, start(replica))
        said = outcome if isinstance(outcome, str) else outcome.decision.outcome_category
        self._world.history.add(self._user_id, f"{message!r} at {replica.process.name}: {said}")
        self.requests.append(PlainRequest(message, outcome))
        return outcome

    async def _reply(self, replica: Replica, work: Coroutine[Any, Any, FinishedTurn]) -> FinishedTurn | str:
        served = self._world.loop.spawn(replica.process, work)
        awaited: list[asyncio.Future[Any]] = [served, replica.died]
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not served.done() or served.cancelled():
            return NO_REPLY
        failure = served.exception()
        if failure is None:
            return served.result()
        if isinstance(failure, ServiceError):
            return str(failure.code)
        if not isinstance(failure, TurnTakenOverError):
            self._world.history.violated(f"a decision without a chat raises {failure!r}")
        return repr(failure)
