"""Processes that are killed at a commit of a question or of the yes to it: what was confirmed is done once."""

from __future__ import annotations

import asyncio
import itertools
import signal
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from graph_agent.chat.conversations.tables import TurnState, turns
from graph_agent.chat.questions import Person
from graph_agent.chat.service import ChatService
from graph_agent.clock import SystemClock
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AnswerState, ConfirmationAnswer
from graph_agent.question.tables import answers, questions
from graph_agent.record.tables import call_operations
from tests import fork_server
from tests.chat.environment import Environment, open_environment
from tests.scripted_turns import calls


@dataclass
class Round:
    """The tasks of one user, whose deletion is asked about."""

    environment: Environment
    chat: ChatService
    user: str
    tasks: list[str]

    @classmethod
    async def of(cls, environment: Environment, number: int, count: int) -> Round:
        user, chat = f"user{number}", environment.chat()
        tasks = []
        for n in range(count):
            await chat.send(user, f"add milk-{number}-{n}")
            tasks.append(await environment.task_id(f"milk-{number}-{n}"))
        return cls(environment, chat, user, tasks)

    async def dies(self, number: int, when: str, question: str = "-") -> bool:
        """Ask, or say yes, in a process that is killed at its commit with this number; False if there are fewer."""
        settings = self.environment.settings
        where = [str(settings.home), settings.database_url, str(number), when]
        command = [fork_server.python(), "-m", "tests.chat.answering_process", *where, self.user, question, *self.tasks]
        status = await (await asyncio.create_subprocess_exec(*command)).wait()
        assert status in (0, -signal.SIGKILL), (number, when)
        # The time passes after which another process finishes the turn.
        ended = {"lease_until": self.environment.database.time(timedelta(seconds=-1))}
        late = update(turns).where(turns.c.state == TurnState.RUNNING).values(ended)
        await self.environment.database.write(lambda connection: connection.execute(late).close())
        await self.chat.serve_due()
        return status != 0

    async def asked(self) -> str:
        """Return the id of the question that waits; it is asked again if the process that asked has died before."""
        if not (waiting := (await self.chat.questions.inbox(Person(self.user))).questions):
            assert await self.states() == []
            card = calls(*[("delete_task", {"task_id": one}) for one in self.tasks])
            await self.environment.chat(ScriptedAdapter([card])).send(self.user, "delete them")
            waiting = (await self.chat.questions.inbox(Person(self.user))).questions
        (one,) = waiting
        shown = (await self.chat.conversation(self.user, one.conversation_id)).messages
        assert [message.card.state for message in shown if message.card] == ["waiting"]
        assert one.card is not None
        assert len(one.card.each) == len(self.tasks)
        return one.id

    async def states(self) -> list[str]:
        wanted = select(questions.c.state).where(questions.c.user_id == self.user)
        found = await self.environment.database.read(lambda connection: connection.execute(wanted).scalars().all())
        return [str(one) for one in found]

    async def done(self) -> tuple[int, int, int]:
        """Return the number of tasks that are left, that of deletions in the record, and that of stored answers."""
        removed = select(call_operations.c.state).where(
            call_operations.c.user_id == self.user, call_operations.c.tool_name == "delete_task"
        )
        given = select(answers.c.yes).where(answers.c.person == self.user)
        counts = await self.environment.database.read(
            lambda connection: [len(connection.execute(one).all()) for one in (removed, given)]
        )
        return len(await self.environment.descriptions(self.user)), counts[0], counts[1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.slow), 3], ids=["one call", "a card of three"])
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
async def test_what_was_confirmed_is_done_once_whichever_commit_kills_the_process_that_asks_or_is_told(
    tmp_path: Path, template: Path, request: pytest.FixtureRequest, kind: str, count: int, when: str
) -> None:
    url = request.getfixturevalue("migrated_postgresql_url") if kind == "postgresql" else ""
    async with open_environment(tmp_path, template, SystemClock(), url) as environment:
        outcomes = set()
        for number in itertools.count(1):
            one = await Round.of(environment, number, count)
            asking = await one.dies(number, when)
            question = await one.asked()
            answering = await one.dies(number, when, question)
            [state] = await one.states()
            # The question is used up exactly if its calls were made, and the answer is stored with that.
            assert (state, *await one.done()) in (("open", count, 0, 0), ("approved", 0, count, 1)), (number, when)
            outcomes.add(state)
            again = await one.chat.send(one.user, answers=ConfirmationAnswer(pending_action=question, yes=True))
            assert again.decision.void_answer is (AnswerState.USED if state == "approved" else None), (number, when)
            assert (await one.states(), await one.done()) == (["approved"], (0, count, 1)), (number, when)
            if not asking and not answering:
                break
        # The claim, the use with the operation, the results of the calls, and the end.
        assert number > 3
        assert outcomes == ({"open", "approved"} if when == "before" else {"approved"})
