"""Rows of approval requests that were changed in the database by hand: no call runs by them, and they are set right."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Executable, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.due.table import DueTable, WorkKind
from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity
from graph_agent.models.decision import ApprovalRequest, DecisionContext
from graph_agent.question.approvals import ApprovalStore, rules_digest
from graph_agent.question.tables import Evidence, QuestionState, answers, questions
from tests.chat.environment import Environment
from tests.chat.test_approvals import ADD, messages, own, requests_of, respond, rules
from tests.scripted_turns import TableServer

APPROVED, DENIED = ApprovalState.APPROVED, ApprovalState.DENIED
OPEN = {"state": QuestionState.OPEN, "closed_by": None, "ended_at": None, "slot": 5}
"""The columns of an open request."""


async def execute(environment: Environment, statement: Executable) -> None:
    """Change the database past the service."""
    await environment.database.write(lambda connection: connection.execute(statement).close())


def put_decide(connection: Connection, database: Database, request: ApprovalRequest) -> None:
    """Make the request due to be decided by every process with these rules."""
    lane = rules_digest(request.action.asked_under, request.evidence)
    DueTable(database).put(connection, WorkKind.DECIDE, request.id, lane=lane)


class Desk:
    """An installation without a ledger, and one request that was made in it: in a chat, or without one."""

    def __init__(self, environment: Environment) -> None:
        environment.record_key = b"a key for tests only"
        self.environment = environment
        self.server = TableServer(ledger=False)
        engine = environment.engine(ScriptedAdapter([ADD]), tools=self.server, conditions=rules())
        self.chat = ChatService(engine, clock=environment.clock, turns_per_minute=1000)
        self.engine = engine

    async def ask(self, user: str = "ann", *, in_chat: bool) -> ApprovalRequest:
        if in_chat:
            self.asked = await self.chat.send(user, "add bread")
            request = self.asked.decision.approval
        else:
            context = DecisionContext(user_id=user, message="add bread", conversation_id="no chat")
            request = (await self.engine.run(context)).decision.approval
        assert request is not None
        return request

    async def end(self, request: ApprovalRequest, state: ApprovalState) -> None:
        """End the request, and close it."""
        match state:
            case ApprovalState.CANCELLED:
                await requests_of(self.chat).cancel(request.id, "ann")
                await requests_of(self.chat).closings()
            case _:
                await respond(self.chat, request, approve=state is APPROVED)

    async def forge(self, request: ApprovalRequest, **columns: Any) -> None:
        """Change the row of the request past the service, and remove every denial."""
        changed = update(questions).where(questions.c.id == request.id).values(**columns)
        removed = delete(answers).where(answers.c.question_id == request.id, answers.c.yes.is_(False))
        for statement in (changed, removed):
            await execute(self.environment, statement)

    async def give(self, request: ApprovalRequest, *, approve: bool) -> None:
        """Store an answer, as a process does that stops before it closes the request."""
        given: dict[str, Any] = {"digest": request.digest, "identity": ApproverIdentity.TOKEN, "role": "manager"}
        answer = ApprovalAnswer(approver="bob", approve=approve, answered_at=self.environment.clock.now(), **given)
        store = ApprovalStore(self.environment.database, record_key=self.environment.record_key)
        await store.answer(request.id, answer)

    async def state(self) -> str:
        return str((await own(self.chat, "ann"))[0].state)

    @property
    def sent(self) -> int:
        return [name for name, *_ in self.server.sent].count("add_task")


@pytest.mark.parametrize("in_chat", [True, False], ids=["in a chat", "without a chat"])
@pytest.mark.parametrize(
    ("end", "forged"),
    [(APPROVED, OPEN), (DENIED, OPEN), (ApprovalState.CANCELLED, OPEN), (DENIED, {"closed_by": None})],
    ids=["approved", "denied", "cancelled", "not closed"],
)
async def test_a_request_that_was_closed_never_runs_again_whatever_its_row_says(
    each_environment: Environment,
    caplog: pytest.LogCaptureFixture,
    in_chat: bool,
    forged: dict[str, Any],
    end: ApprovalState,
) -> None:
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=in_chat)
    await desk.end(request, end)
    made = desk.sent
    assert made == (end is APPROVED)
    await desk.forge(request, **forged)
    with suppress(ServiceError):
        await respond(desk.chat, request, "eve")
    for _ in range(2):
        await desk.chat.serve_due()
        await requests_of(desk.chat).close(request.id)
    assert desk.sent == made
    assert await desk.state() == end
    assert any(record.levelno == logging.ERROR and request.id in record.getMessage() for record in caplog.records)
    if in_chat:
        assert len(await messages(desk.chat, desk.asked)) == 4


async def test_the_database_refuses_a_row_that_says_approved_without_its_closing_decision(
    each_environment: Environment,
) -> None:
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=True)
    with pytest.raises(IntegrityError):
        await desk.forge(request, state=QuestionState.APPROVED, ended_at=each_environment.clock.now(), slot=None)
    await respond(desk.chat, request)
    assert (desk.sent, await desk.state()) == (1, "approved")


async def test_a_denied_request_that_is_set_to_open_is_closed_as_denied(each_environment: Environment) -> None:
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=True)
    await desk.give(request, approve=False)
    await execute(each_environment, update(questions).where(questions.c.id == request.id).values(**OPEN))
    for _ in range(2):
        await desk.chat.serve_due()
    assert (desk.sent, await desk.state()) == (0, "denied")
    assert (await messages(desk.chat, desk.asked))[-1].startswith("Denied by 'bob'")


async def test_answers_that_were_written_by_hand_do_not_count(each_environment: Environment) -> None:
    desk = Desk(each_environment)
    other = await desk.ask("dan", in_chat=False)
    await desk.give(other, approve=True)
    database = each_environment.database
    row = (await database.read(lambda connection: connection.execute(select(answers)).one()))._asdict()
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=True)
    about = {"question_id": request.id, "digest": request.digest, "requester": "ann"}
    for changes in (about, {**about, "person": "eve", "evidence": Evidence.SIGNED}):
        await execute(each_environment, insert(answers).values({**row, **changes}))
    await each_environment.database.write(lambda connection: put_decide(connection, each_environment.database, request))
    for _ in range(2):
        await desk.chat.serve_due()
    assert (await requests_of(desk.chat).view(request.id, "dan", ["manager"])).answers == []
    assert (await messages(desk.chat, desk.asked))[2:] == []


async def test_a_request_that_was_given_more_time_by_hand_is_ignored(
    each_environment: Environment, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=True)
    await desk.give(request, approve=True)
    clock.advance(hours=25)
    await desk.forge(request, expires_at=clock.now() + timedelta(hours=1))
    for _ in range(2):
        await desk.chat.serve_due()
    assert desk.sent == 0
    assert f"the row of the approval request {request.id} is not as this service has written it" in caplog.text
