"""The simulated people who answer requests for approval, and requesters who withdraw theirs: wrongly, late and twice too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from graph_agent.chat.approvals import ApprovalService
from graph_agent.chat.question_view import QuestionSummary
from graph_agent.errors import ServiceError
from graph_agent.models.approval import ApprovalState, ApproverIdentity
from graph_agent.models.decision import ApprovalRequest
from graph_agent.question.tables import Asks, QuestionState, questions
from tests.simulation.clients import NO_REPLY
from tests.simulation.policies import APPROVERS, REQUESTER_ROLES
from tests.simulation.replicas import Replica, World

_ACTS = 7
_APPROVES, _DENIES, _CANCELS, _READS = "approves", "denies", "withdraws", "reads"
_WEIGHTS = {_APPROVES: 10, _DENIES: 2, _CANCELS: 1, _READS: 2}
_REQUESTER_WEIGHTS = {_APPROVES: 3, _DENIES: 1, _CANCELS: 3, _READS: 1}
_OTHER_DIGEST = "another digest"


@dataclass(frozen=True)
class Act:
    """Something that a person did with a request, and the reply: the code of an error, or that it was accepted."""

    request_id: str
    person: str
    verb: str
    role: str | None
    digest: str
    process: str
    outcome: str

    @property
    def is_accepted(self) -> bool:
        return self.outcome in {state.value for state in ApprovalState}


class Person:
    """Somebody who looks at requests every few seconds."""

    def __init__(self, world: World, replicas: list[Replica], name: str) -> None:
        self.acts: list[Act] = []
        self._world = world
        self._replicas = replicas
        self._name = name
        self._roles = APPROVERS.get(name, REQUESTER_ROLES)
        self._weights = _WEIGHTS if name in APPROVERS else _REQUESTER_WEIGHTS

    async def attend(self) -> None:
        """Do something with a request several times; some of it twice at once, at different replicas."""
        random = self._world.random
        for _ in range(_ACTS):
            await asyncio.sleep(random.uniform(0.2, random.choice((3.0, 9.0))))
            found = self._world.database.look(_requests)
            # An ended request cannot be answered, and people try it.
            if waiting := [request for request, is_open in found if is_open or random.random() < 0.1]:
                request = random.choice(waiting)
                await asyncio.gather(*(self._act(request) for _ in range(random.choice((1, 1, 1, 2)))))

    async def _act(self, request: ApprovalRequest) -> None:
        world, random = self._world, self._world.random
        verb = random.choices(list(self._weights), list(self._weights.values()))[0]
        role = random.choice((None, None, *self._roles))
        digest = _OTHER_DIGEST if random.random() < 0.05 else request.digest
        work = self._work(request, verb, role, digest)
        await asyncio.sleep(random.uniform(0.001, 0.05))
        replica = random.choice(self._replicas)
        outcome = await self._reply(replica, work) if replica.process.alive else NO_REPLY
        act = Act(request.id, self._name, verb, role, digest, replica.process.name, outcome)
        said = f"{verb} the {request.action.tool_name} of {request.user_id} ({request.id[:4]}) at {act.process}: {outcome}"
        world.history.add(self._name, said)
        self.acts.append(act)

    def _work(self, request: ApprovalRequest, verb: str, role: str | None, digest: str) -> Callable[[ApprovalService], Any]:
        if verb == _CANCELS:
            return lambda service: service.cancel(request.id, self._name)
        if verb == _READS:
            return lambda service: service.view(request.id, self._name, self._roles)
        approve = verb == _APPROVES
        return lambda service: service.answer(
            request.id,
            self._name,
            self._roles,
            approve=approve,
            digest=digest,
            identity=ApproverIdentity.TOKEN,
            role=role,
            reason="" if approve else f"{self._name} has a reason",
        )

    async def _reply(self, replica: Replica, work: Callable[[ApprovalService], Any]) -> str:
        service = replica.chat.approvals
        assert service is not None
        served = self._world.loop.spawn(replica.process, work(service))
        awaited: list[asyncio.Future[Any]] = [served, replica.died]
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not served.done() or served.cancelled():
            return NO_REPLY
        failure = served.exception()
        if failure is None:
            result = served.result()
            return str(result.state) if isinstance(result, QuestionSummary) else "is shown"
        if isinstance(failure, ServiceError):
            return str(failure.code)
        self._world.history.violated(f"what a person did with a request raises {failure!r}")
        return repr(failure)


def _requests(connection: Connection) -> list[tuple[ApprovalRequest, bool]]:
    wanted = select(questions.c.subject, questions.c.state).where(questions.c.asks == Asks.OTHERS)
    rows = connection.execute(wanted.order_by(questions.c.opened_at, questions.c.id))
    return [(ApprovalRequest.model_validate(row.subject), row.state is QuestionState.OPEN) for row in rows]
