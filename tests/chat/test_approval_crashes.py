"""Approval requests whose processes stop at any commit, and answers, ends and claims of several processes at once."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock
from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.backend import Work
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import DecisionContext
from graph_agent.models.record import DecisionRecord
from graph_agent.question.tables import QuestionState
from graph_agent.reply.fixed import UNKNOWN_REPLY
from tests.chat.environment import Environment
from tests.chat.stopped import LosingDatabase, Stopped
from tests.chat.test_approvals import ADD, messages, record_of, request_of, requests_of, respond, rules
from tests.scripted_turns import TableServer, calls

_COMMITS = 12
"""An upper bound of the commits of an answer and of the decision that it closes."""
TWO = rules(approved="context.approvals.manager + context.approvals.finance >= 2", name="two people")


async def answered(chat: ChatService, request: Any, who: str, *, approve: bool) -> None:
    """Answer, whatever the answer of the service is."""
    with suppress(ServiceError):
        await respond(chat, request, who, approve=approve)


class UnreadDatabase(Database):
    """A database that answers no read after some."""

    reads = sys.maxsize

    async def read(self, work: Work[Any]) -> Any:
        self.reads -= 1
        if self.reads < 0:
            raise DatabaseUnavailableError
        return await super().read(work)


async def test_whichever_read_fails_a_request_is_unavailable_and_can_be_approved_later(each_environment: Environment) -> None:
    environment = each_environment
    database = environment.open_database(UnreadDatabase)
    conditions = rules(approved="context.approvals.manager >= 1 && context.used.day.calls <= 5")
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=conditions, database=database)
    request = request_of(await chat.send("ann", "add bread"))
    requests, failures = requests_of(chat), list[ServiceErrorCode]()
    for work in (
        lambda: requests.view(request.id, "bob", ["manager"]),
        lambda: requests.close(request.id),
        lambda: requests.closing(request.id),
    ):
        for reads in itertools.count():
            database.reads = reads
            try:
                await work()
            except ServiceError as error:
                failures.append(error.code)
            else:
                break
    assert len(failures) > 5
    assert set(failures) == {ServiceErrorCode.SERVICE_UNAVAILABLE}
    database.reads = sys.maxsize
    await respond(chat, request)
    assert await environment.descriptions() == ["bread"]
    await database.close()


async def test_without_a_chat_a_claim_that_was_not_confirmed_is_run_by_the_next_sweep(each_environment: Environment) -> None:
    """No lease expires that would show that nobody runs it; otherwise it is found when it is ten minutes old."""
    environment = each_environment
    database = environment.open_database(LosingDatabase)
    engine = environment.engine(ScriptedAdapter([ADD]), conditions=rules(), database=database)
    chat = ChatService(engine, clock=environment.clock, turns_per_minute=1000)
    context = DecisionContext(user_id="ann", message="add bread", conversation_id="no chat")
    request = (await engine.run(context)).decision.approval
    assert request is not None
    given: dict[str, Any] = {"approve": True, "digest": request.digest, "identity": ApproverIdentity.TOKEN}
    await requests_of(chat).answer(request.id, "bob", ["manager"], **given)
    await requests_of(chat).aclose()
    database.losing = 1
    with pytest.raises(DatabaseUnavailableError):
        await requests_of(chat).close(request.id)
    assert await environment.descriptions() == []
    await chat.serve_due()
    assert await environment.descriptions() == ["bread"]
    await database.close()


@pytest.mark.parametrize("approve", [True, False], ids=["approved", "denied"])
async def test_another_process_closes_a_request_once_wherever_a_process_stops(
    each_environment: Environment, clock: ManualClock, after: bool, approve: bool
) -> None:
    """Killed between the answer and the call, the request with its key continues: the approval is not used up for nothing."""
    environment = each_environment
    for n in range(1, _COMMITS):
        user = f"user{n}"
        asked = await environment.chat(ScriptedAdapter([ADD]), conditions=rules()).send(user, "add bread")
        request = request_of(asked)
        left = Stopped(environment, n, after=after, model=ScriptedAdapter([]), conditions=rules())
        if not await left.stops_in(answered(left.chat, request, "bob", approve=approve)):
            await left.wake_up()
            break
        clock.advance(seconds=36)
        chat = environment.chat(ScriptedAdapter([]), conditions=rules())
        await chat.serve_due()
        if not (await requests_of(chat).view(request.id, user, [])).answers:
            await respond(chat, request, "eve", approve=approve)
        expected = ["bread"] if approve else []
        assert await environment.descriptions(user) == expected, f"commit {n}"
        await left.wake_up()
        await chat.serve_due()
        assert await environment.descriptions(user) == expected, f"commit {n}"
        closing = (await messages(chat, asked, user))[2:]
        assert len(closing) == 2
        assert ("Done: Add task 'bread'." if approve else "so nothing was done") in closing[1]
    assert 3 < n < _COMMITS
    assert {state for state, _ in await environment.turns()} == {"done"}


async def test_without_a_ledger_an_approved_call_is_not_sent_twice(
    environment: Environment, clock: ManualClock, after: bool
) -> None:
    """What may have been sent is reported as unknown; what certainly was not, is done."""
    seen = set()
    for n in range(1, _COMMITS):
        user, server = f"user{n}", TableServer(ledger=False)
        script = [calls(("add_task", {"description": "bread"}))]
        asked = await environment.chat(ScriptedAdapter(script), tools=server, conditions=rules()).send(user, "add it")
        left = Stopped(environment, n, after=after, model=ScriptedAdapter([]), tools=server, conditions=rules())
        if not await left.stops_in(answered(left.chat, request_of(asked), "bob", approve=True)):
            await left.wake_up()
            break
        clock.advance(seconds=36)
        chat = environment.chat(ScriptedAdapter([]), tools=server, conditions=rules())
        await chat.serve_due()
        await left.wake_up()
        if not (await requests_of(chat).view(request_of(asked).id, user, [])).answers:
            await respond(chat, request_of(asked), "eve")
        await chat.serve_due()
        made = [name for name, *_ in server.sent]
        assert made.count("add_task") <= 1
        reply = (await messages(chat, asked, user))[-1]
        seen.add(UNKNOWN_REPLY in reply)
        assert UNKNOWN_REPLY in reply or made == ["add_task"], reply
    assert 3 < n < _COMMITS
    assert True in seen


@pytest.mark.parametrize("seed", range(3))
async def test_answers_ends_and_claims_of_several_processes_give_one_end(
    each_environment: Environment, clock: ManualClock, seed: int
) -> None:
    """Two managers, a double click, the requester, a denial, a withdrawal, the time, and two sweeps race for each request."""
    environment, random, ends = each_environment, Random(seed), Counter[QuestionState]()
    for number in range(8):
        user = f"user{number}"
        asked = await environment.chat(ScriptedAdapter([ADD]), conditions=TWO).send(user, "add bread")
        request = request_of(asked)
        one, other = (environment.chat(ScriptedAdapter([]), conditions=TWO) for _ in range(2))
        work: list[Coroutine[Any, Any, Any]] = [
            answered(one, request, "bob", approve=True),
            answered(other, request, "bob", approve=True),
            answered(other, request, "eve", approve=True),
            answered(one, request, user, approve=True),
            one.serve_due(),
            other.serve_due(),
        ]
        if random.random() < 0.3:
            work.append(answered(one, request, "dan", approve=False))
        if random.random() < 0.3:
            work.append(requests_of(other).cancel(request.id, user))
        if random.random() < 0.2:
            clock.advance(hours=24)
        random.shuffle(work)
        await asyncio.gather(*work, return_exceptions=True)
        clock.advance(seconds=10)
        await one.serve_due()
        await requests_of(other).closings()
        await other.serve_due()
        shown = await requests_of(one).view(request.id, user, [])
        ends[shown.state] += 1
        approvers = {given.approver for given in shown.answers if given.approve}
        assert user not in approvers
        assert len({given.approver for given in shown.answers}) == len(shown.answers)
        done = await environment.descriptions(user)
        assert done == (["bread"] if shown.state is QuestionState.APPROVED else [])
        assert not done or (len(approvers) >= 2 and all(given.approve for given in shown.answers))
        if shown.state is QuestionState.OPEN:
            continue
        closing = await messages(one, asked, user)
        assert len(closing) == 4
        record: DecisionRecord = await record_of(environment, str(shown.closing_decision))
        assert record.header.context.approval is not None
        assert record.header.context.approval.end.value == shown.state.value
    assert ends[QuestionState.APPROVED]


async def test_aisvs_9_2_8_a_second_claim_runs_nothing(each_environment: Environment) -> None:
    environment = each_environment
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=rules())
    asked: ChatAnswer = await chat.send("ann", "add bread")
    await respond(chat, request_of(asked))
    assert [await requests_of(chat).close(request_of(asked).id) for _ in range(2)] == [False, False]
    assert await environment.descriptions() == ["bread"]


async def test_the_time_of_the_database_counts_and_not_that_of_a_process(
    each_environment: Environment, clock: ManualClock
) -> None:
    """Set back far before the request was made, it permits no approval; later the request can be approved again."""
    environment = each_environment
    chat = environment.chat(ScriptedAdapter([ADD]), conditions=rules())
    asked = await chat.send("ann", "add bread")
    clock.advance(hours=-48)
    with pytest.raises(ServiceError, match="This question has ended: expired"):
        await respond(chat, request_of(asked))
    assert await environment.descriptions() == []
