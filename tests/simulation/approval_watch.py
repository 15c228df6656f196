"""The checks of approval requests at every commit and at every call that is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from graph_agent.models.approval import ApprovalState
from graph_agent.models.decision import ApprovalRequest
from graph_agent.question.tables import TOLERANCE, Asks, answers, questions
from tests.simulation.clocks import SimulatedClock
from tests.simulation.history import History
from tests.simulation.policies import APPROVERS, DEMANDS, REQUESTER_ROLES


@dataclass(frozen=True)
class Answer:
    """An answer as it is stored."""

    approver: str
    approve: bool
    role: str
    digest: str
    reason: str


@dataclass(frozen=True)
class Requested:
    """A request as it is stored."""

    request: ApprovalRequest
    state: ApprovalState
    closing_decision: str | None
    expires_at: datetime
    created_at: datetime
    ended_at: datetime | None
    answers: tuple[Answer, ...]

    def is_in_time(self, now: datetime) -> bool:
        return self.expires_at > now and self.created_at <= now + TOLERANCE


def requested(connection: Connection, request_id: str | None = None) -> list[Requested]:
    """Return the stored requests, or one of them."""
    wanted = select(questions).where(questions.c.asks == Asks.OTHERS).order_by(questions.c.opened_at, questions.c.id)
    given = select(answers).where(answers.c.asks == Asks.OTHERS)
    if request_id is not None:
        wanted, given = wanted.where(questions.c.id == request_id), given.where(answers.c.question_id == request_id)
    found: dict[str, list[Answer]] = {}
    for row in connection.execute(given.order_by(answers.c.answered_at, answers.c.person)):
        answer = Answer(row.person, row.yes, row.role, row.digest, row.reason)
        found.setdefault(row.question_id, []).append(answer)
    return [
        Requested(
            ApprovalRequest.model_validate(row.subject),
            ApprovalState(row.state),
            row.closed_by,
            row.expires_at,
            row.opened_at,
            row.ended_at,
            tuple(found.get(row.id, ())),
        )
        for row in connection.execute(wanted)
    ]


class ApprovalWatch:
    """Observes the requests of a simulation. It knows the rules from the table of demands, and not from the package."""

    def __init__(self, clock: SimulatedClock, history: History) -> None:
        self._clock = clock
        self._history = history
        self._before: dict[str, Requested] = {}
        self._asked_under: dict[str, str] = {}
        """The policy of the process that opened each request."""

    def on_commit(self, process: str, policy: str, connection: Connection, request_ids: Iterable[str]) -> None:
        """Check the requests that a transaction of a process with this policy has changed."""
        for request_id in request_ids:
            for now in requested(connection, request_id):
                before = self._before.get(request_id)
                self._history.add(process, f"commits request {request_id[:4]}: {now.state}, {len(now.answers)} answers")
                self._asked_under.setdefault(request_id, policy)
                if before is not None:
                    self._check_change(before, now)
                self._check_answers(before, now)
                if now.state is ApprovalState.APPROVED and (before is None or before.state is not now.state):
                    self._check_claim(now, policy)
                self._before[request_id] = now

    def on_send(self, connection: Connection, operation_key: str, policy: str) -> None:
        """Check a call that needs approvals, when a process with this policy sends it."""
        for now in requested(connection, operation_key):
            what = _name(now)
            if now.state is not ApprovalState.APPROVED:
                self._history.violated(f"{what} is sent although it is {now.state}")
            if now.closing_decision is None:
                self._history.violated(f"{what} is sent outside of its closing decision")
            if not is_met(now, policy):
                self._history.violated(f"{what} is sent without the approvals that it needs")
            self._check_asked(now, "sent")
            return
        self._history.violated(f"the call {operation_key[:4]} that needs approvals is sent without a request")

    def _check_change(self, before: Requested, now: Requested) -> None:
        what = _name(now)
        if (before.request, before.expires_at, before.created_at) != (now.request, now.expires_at, now.created_at):
            self._history.violated(f"{what} is changed")
        if before.state is not ApprovalState.OPEN and now.state is not before.state:
            self._history.violated(f"{what} is {now.state} although it was {before.state}")
        if before.closing_decision is not None and now.closing_decision != before.closing_decision:
            self._history.violated(f"{what} is closed twice")
        if now.state is ApprovalState.EXPIRED and before.state is not now.state and now.is_in_time(self._clock.now()):
            self._history.violated(f"{what} expires early")
        if now.state is ApprovalState.DENIED and all(one.approve for one in now.answers):
            self._history.violated(f"{what} is denied by nobody")

    def _check_answers(self, before: Requested | None, now: Requested) -> None:
        what, earlier = _name(now), () if before is None else before.answers
        if not set(earlier) <= set(now.answers):
            self._history.violated(f"an answer to {what} is changed")
        for answer in now.answers:
            if answer in earlier:
                continue
            if before is None or before.state is not ApprovalState.OPEN:
                self._history.violated(f"{what} is answered by {answer.approver} after its end")
            if answer.approve and not now.is_in_time(self._clock.now()):
                self._history.violated(f"{what} is approved by {answer.approver} too late")
            if answer.approver == now.request.user_id:
                self._history.violated(f"{what} is answered by its requester")
            if answer.role not in APPROVERS.get(answer.approver, REQUESTER_ROLES):
                self._history.violated(f"{answer.approver} answers {what} as {answer.role}")
            if answer.digest != now.request.digest:
                self._history.violated(f"an answer of {answer.approver} to {what} is about another text")
        people = [one.approver for one in now.answers]
        if len(set(people)) < len(people):
            self._history.violated(f"somebody has answered {what} twice")

    def _check_claim(self, now: Requested, policy: str) -> None:
        what = _name(now)
        if now.closing_decision is None:
            self._history.violated(f"{what} is approved without the decision that runs it")
        if not now.is_in_time(self._clock.now()):
            self._history.violated(f"{what} is claimed after its expiry")
        if not is_met(now, policy):
            self._history.violated(f"{what} is claimed without the approvals that it needs")
        self._check_asked(now, "claimed")

    def _check_asked(self, now: Requested, done: str) -> None:
        """Check the rules under which a request was asked; they hold whatever rules decide it."""
        asked = self._asked_under[now.request.id]
        if not is_met(now, asked):
            self._history.violated(f"{_name(now)} was asked under the {asked} policy, and is {done} against it")


def is_met(one: Requested, policy: str) -> bool:
    """True if the people who approved the request are those whom a policy demands, and nobody has denied it."""
    if any(not answer.approve for answer in one.answers):
        return False
    people = {answer.approver: answer.role for answer in one.answers if answer.approver != one.request.user_id}
    roles = list(people.values())
    demand = DEMANDS[policy][one.request.action.tool_name]
    return demand.is_met(roles.count("manager"), roles.count("finance"))


def _name(one: Requested) -> str:
    return f"the {one.request.action.tool_name} {one.request.id[:4]}"
