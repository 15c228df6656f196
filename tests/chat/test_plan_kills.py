"""Processes that are killed at a commit while calls run under a plan: none is made twice, and none beyond its line."""

from __future__ import annotations

import asyncio
import itertools
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from graph_agent.chat.conversations.tables import TurnState, turns
from graph_agent.chat.questions import Person
from graph_agent.clock import SystemClock
from graph_agent.models.decision import ConfirmationAnswer
from graph_agent.record.mandates import list_mandates
from graph_agent.record.tables import call_operations, mandate_draws
from graph_agent.testing import says
from tests import fork_server
from tests.chat.environment import Environment, open_environment
from tests.chat.planning_process import PLAN, adds, chat_of


async def agree_and_die(environment: Environment, user: str, question: str, number: int, when: str) -> bool:
    """Say yes in a process that is killed at its commit with this number; False if there are fewer."""
    settings = environment.settings
    where = [str(settings.home), settings.database_url, str(number), when, user, question]
    process = await asyncio.create_subprocess_exec(fork_server.python(), "-m", "tests.chat.planning_process", *where)
    status = await process.wait()
    assert status in (0, -signal.SIGKILL), (number, when)
    # The time passes after which another process finishes the turn.
    ended = {"lease_until": environment.database.time(timedelta(seconds=-1))}
    late = update(turns).where(turns.c.state == TurnState.RUNNING).values(ended)
    await environment.database.write(lambda connection: connection.execute(late).close())
    await chat_of(environment).serve_due()
    return status != 0


async def drawn(environment: Environment, user: str) -> tuple[int, int, int]:
    """Return the number of plans in the database, of what was drawn from them, and of the draws whose calls were made."""
    at = environment.clock.now()
    views = await environment.database.read(lambda connection: list_mandates(connection, at, user_id=user))
    is_its = (call_operations.c.decision_id == mandate_draws.c.decision_id) & (
        call_operations.c.sequence == mandate_draws.c.sequence
    )
    wanted = select(call_operations.c.state).join(mandate_draws, is_its).where(call_operations.c.user_id == user)
    states = await environment.database.read(lambda connection: connection.execute(wanted).scalars().all())
    return len(views), sum(sum(view.drawn) for view in views), [str(state) for state in states].count("done")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
async def test_a_plan_is_drawn_within_its_line_whichever_commit_kills_the_process_that_runs_it(
    tmp_path: Path, template: Path, request: pytest.FixtureRequest, kind: str, when: str
) -> None:
    url = request.getfixturevalue("migrated_postgresql_url") if kind == "postgresql" else ""
    async with open_environment(tmp_path, template, SystemClock(), url) as environment:
        seen = set()
        for number in itertools.count(1):
            user = f"user{number}"
            asked = await chat_of(environment, PLAN).send(user, "add bread and milk")
            assert asked.decision.pending_action is not None
            question = asked.decision.pending_action.id
            killed = await agree_and_die(environment, user, question, number, when)

            found = await drawn(environment, user)
            made = len(await environment.descriptions(user))
            # A draw counts exactly if its call was made: what was not sent is free again.
            assert found[1:] == (made, made), (number, when)
            seen.add(found)
            waiting = (await chat_of(environment).questions.inbox(Person(user))).questions
            assert [one.id for one in waiting] == ([] if found[0] else [question]), (number, when)
            if waiting:
                yes = ConfirmationAnswer(pending_action=question, yes=True)
                await chat_of(environment, says("Agreed.")).send(user, answers=yes)
            again = chat_of(environment, adds("milk"), says("One."), adds("bread"), says("Two."), adds("milk"))
            last = [
                (await again.send(user, "more", conversation_id=asked.conversation_id)).decision.pending_action is not None
                for _ in range(3 - made)
            ]
            assert last == [*[False] * (2 - made), True], (number, when)
            assert len(await environment.descriptions(user)) == 2, (number, when)
            if not killed:
                break
        # The claim, the mint, two draws with their effects, and the end.
        assert number > 5
        assert {(1, 2, 2), (1, 1, 1)} <= seen
