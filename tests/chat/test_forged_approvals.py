"""Rows of approval requests that were changed in the database by hand: no call runs by them, and they are set right."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Executable, delete, insert, select, update

from graph_agent.chat.conversations.approvals import ApprovalStore
from graph_agent.chat.conversations.tables import approval_answers, approvals
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.errors import ServiceError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApprovalAnswer, ApprovalState, ApproverIdentity
from graph_agent.models.decision import ApprovalRequest, DecisionContext
from tests.chat.environment import Environment
from tests.chat.test_approvals import ADD, messages, requests_of, respond, rules
from tests.scripted_turns import TableServer

OPEN, APPROVED, DENIED = ApprovalState.OPEN, ApprovalState.APPROVED, ApprovalState.DENIED


async def execute(environment: Environment, statement: Executable) -> None:
    """Change the database past the service."""
    await environment.database.write(lambda connection: connection.execute(statement).close())


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
        table = approval_answers.c
        changed = update(approvals).where(approvals.c.id == request.id).values(**columns)
        removed = delete(approval_answers).where(table.approval_id == request.id, table.approve.is_(False))
        for statement in (changed, removed):
            await execute(self.environment, statement)

    async def give(self, request: ApprovalRequest, *, approve: bool) -> None:
        """Store an answer, as a process does that stops before it closes the request."""
        given: dict[str, Any] = {"digest": request.digest, "identity": ApproverIdentity.TOKEN, "role": "manager"}
        answer = ApprovalAnswer(approver="bob", approve=approve, answered_at=self.environment.clock.now(), **given)
        store = ApprovalStore(self.environment.database, record_key=self.environment.record_key)
        await store.answer(request.id, answer)

    async def state(self) -> str:
        return str((await requests_of(self.chat).of_requester("ann"))[0].state)

    @property
    def sent(self) -> int:
        return [name for name, *_ in self.server.sent].count("add_task")


@pytest.mark.parametrize("in_chat", [True, False], ids=["in a chat", "without a chat"])
@pytest.mark.parametrize("forged", [{"state": OPEN}, {"state": OPEN, "closing_decision": None}, {"closing_decision": None}])
@pytest.mark.parametrize("end", [APPROVED, DENIED, ApprovalState.CANCELLED])
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
        await desk.chat.sweep()
    assert desk.sent == made
    if "closing_decision" in forged:
        assert await desk.state() == end
        assert any(record.levelno == logging.ERROR and request.id in record.getMessage() for record in caplog.records)
    if in_chat:
        assert len(await messages(desk.chat, desk.asked)) == 4


async def test_a_row_that_says_approved_is_not_believed_without_its_answers(each_environment: Environment) -> None:
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=True)
    await desk.forge(request, state=APPROVED)
    for _ in range(2):
        await desk.chat.sweep()
    assert (desk.sent, await desk.state()) == (0, "open")
    await respond(desk.chat, request)
    assert (desk.sent, await desk.state()) == (1, "approved")


async def test_a_denied_request_that_is_set_to_open_or_approved_is_closed_as_denied(each_environment: Environment) -> None:
    for forged in (OPEN, APPROVED):
        desk = Desk(each_environment)
        request = await desk.ask(in_chat=True)
        await desk.give(request, approve=False)
        changed = update(approvals).where(approvals.c.id == request.id).values(state=forged)
        await execute(each_environment, changed)
        for _ in range(2):
            await desk.chat.sweep()
        assert (desk.sent, await desk.state()) == (0, "denied")
        assert (await messages(desk.chat, desk.asked))[-1].startswith("Denied by 'bob'")


async def test_answers_that_were_written_by_hand_do_not_count(each_environment: Environment) -> None:
    desk = Desk(each_environment)
    other = await desk.ask("dan", in_chat=False)
    await desk.give(other, approve=True)
    database = each_environment.database
    row = (await database.read(lambda connection: connection.execute(select(approval_answers)).one()))._asdict()
    desk = Desk(each_environment)
    request = await desk.ask(in_chat=True)
    for changes in ({"approval_id": request.id, "digest": request.digest}, {"approval_id": request.id, "approver": "eve"}):
        forged = insert(approval_answers).values({**row, **changes})
        await execute(each_environment, forged)
    await desk.forge(request, state=APPROVED)
    for _ in range(2):
        await desk.chat.sweep()
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
        await desk.chat.sweep()
    assert desk.sent == 0
    assert f"the row of the approval request {request.id} is not as this service has written it" in caplog.text
