"""The question that a chat asks its user: by whose clock it waits, and what became of it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.questions import Person
from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.db.backend import Work
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AnswerState, DecisionType, ShownQuestion
from graph_agent.models.llm import FunctionCall
from graph_agent.question.tables import answers, questions
from graph_agent.reply.fixed import void_answer_reply
from graph_agent.testing import says
from tests.chat.environment import Environment, GatedModel
from tests.chat.test_recovered_yes import asked_to_delete, yes_to


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


async def rows(environment: Environment, table: Any) -> list[Any]:
    return await environment.database.read(lambda connection: list(connection.execute(select(table))))


async def shown(environment: Environment, asked: ChatAnswer) -> list[str]:
    """Return the states of the cards of a conversation."""
    page = await environment.chat().conversation("ann", asked.conversation_id)
    return [str(message.card.state) for message in page.messages if message.card is not None]


@pytest.mark.parametrize("hours", [2, -2])
async def test_the_clock_of_a_host_decides_nothing_about_a_question(
    environment: Environment, clock: ManualClock, hours: int
) -> None:
    asked = await asked_to_delete(environment)
    environment.clock = ManualClock(clock.now())
    environment.clock.advance(hours=hours)
    answered = await environment.chat().send("ann", "yes", conversation_id=asked.conversation_id)
    assert answered.decision.decision_type is DecisionType.EXECUTE_PENDING
    late = await asked_to_delete(environment, "bob")
    assert late.decision.pending_action is not None
    assert late.decision.pending_action.created_at == clock.now()
    clock.advance(minutes=5)
    refused = await environment.chat().send("bob", answers=yes_to(late))
    assert refused.decision.void_answer is AnswerState.EXPIRED
    assert await environment.descriptions("bob") == ["milk", "bread"]


class SlowDatabase(Database):
    """A database before whose second commit the time of the question passes."""

    passes: ManualClock
    commits = 0

    async def write(self, work: Work[Any]) -> Any:
        self.commits += 1
        if self.commits == 2:
            self.passes.advance(minutes=5)
        return await super().write(work)


async def test_a_yes_that_was_read_in_time_is_not_followed_after_the_time_of_its_question(
    environment: Environment, clock: ManualClock
) -> None:
    asked = await asked_to_delete(environment)
    database = environment.open_database(SlowDatabase)
    database.passes = clock
    chat = environment.chat(database=database, timeout_seconds=3_600)
    answered = await chat.send("ann", answers=yes_to(asked))
    assert answered.decision.effects == []
    assert await environment.descriptions() == ["milk", "bread"]
    assert await shown(environment, asked) == ["expired"]
    [question] = await rows(environment, questions)
    assert (question.state, question.closed_by, await rows(environment, answers)) == ("expired", None, [])
    again = await environment.chat().send("ann", answers=yes_to(asked))
    assert again.reply == void_answer_reply(AnswerState.EXPIRED)
    await database.close()


async def test_a_message_says_what_became_of_its_question(environment: Environment, clock: ManualClock) -> None:
    chat = environment.chat()
    asked = await asked_to_delete(environment)
    assert await shown(environment, asked) == ["waiting"]
    for said, state, next_task in (("no", "declined", "oil"), ("yes", "done", "tea"), ("add jam", "set_aside", "salt")):
        await chat.send("ann", said, conversation_id=asked.conversation_id)
        assert (await shown(environment, asked))[-1] == state
        await chat.send("ann", f"add {next_task}", conversation_id=asked.conversation_id)
        await chat.send("ann", f"delete the {next_task} task", conversation_id=asked.conversation_id)
    clock.advance(minutes=5)
    assert await shown(environment, asked) == ["declined", "done", "set_aside", "expired"]
    given = {one.question_id: (one.person, bool(one.yes), one.evidence) for one in await rows(environment, answers)}
    assert list(given.values()) == [("ann", False, 1), ("ann", True, 1)]


async def test_an_unclear_answer_asks_the_same_question_at_most_three_times(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    for times in (2, 3):
        again = await environment.chat().send("ann", "yes but why", conversation_id=asked.conversation_id)
        assert again.decision.pending_action is not None
        [question] = await rows(environment, questions)
        assert (question.id, question.asked, question.state) == (again.decision.pending_action.id, times, "open")
    await environment.chat().send("ann", "yes but why", conversation_id=asked.conversation_id)
    assert await shown(environment, asked) == ["set_aside"]
    late = await environment.chat().send("ann", answers=yes_to(asked))
    assert late.decision.void_answer is AnswerState.SUPERSEDED
    assert await environment.descriptions() == ["milk", "bread"]


async def test_the_third_time_it_is_asked_a_question_can_still_be_confirmed(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    for said in ("yes but why", "yes but why", "yes"):
        answered = await environment.chat().send("ann", said, conversation_id=asked.conversation_id)
    assert answered.reply == "Done: Delete task 'milk'."
    assert await shown(environment, asked) == ["done"]


async def test_a_question_that_a_running_turn_reads_waits_nowhere_else(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    waiting = await environment.chat().questions.inbox(Person("ann"))
    assert [one.id for one in waiting.questions] == [yes_to(asked).pending_action]
    model = GatedModel([says("It is fine.")])
    turn = await environment.chat(model).start("ann", "how is the weather?", conversation_id=asked.conversation_id)
    assert not isinstance(turn, ChatAnswer)
    await model.asked.acquire()
    assert (await environment.chat().questions.inbox(Person("ann"))).questions == []
    model.gate.set()
    await turn.result()
    assert await shown(environment, asked) == ["set_aside"]


async def test_an_answer_to_a_withdrawn_question_does_nothing_and_says_so(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    yes = yes_to(asked)
    await environment.chat().questions.cancel(yes.pending_action, Person("ann"))
    late = await environment.chat().send("ann", answers=yes)
    assert late.reply == "You have withdrawn that question, so nothing was done."
    below = ShownQuestion(pending_action=yes.pending_action)
    typed = await environment.chat().send("ann", "yes", conversation_id=asked.conversation_id, shown=below)
    assert (typed.reply, await environment.descriptions()) == (late.reply, ["milk", "bread"])
    assert await shown(environment, asked) == ["cancelled"]


async def test_a_question_whose_row_was_changed_from_outside_is_not_followed(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    longer = "UPDATE questions SET expires_at = '2099-01-01T00:00:00.000000+00:00'"
    await environment.database.write(lambda connection: connection.exec_driver_sql(longer).close())
    refused = await environment.chat().send("ann", conversation_id=asked.conversation_id, answers=yes_to(asked))
    assert refused.decision.void_answer is AnswerState.UNKNOWN
    assert await environment.descriptions() == ["milk", "bread"]


async def test_calls_without_a_model_leave_a_question_waiting_unless_they_ask_another(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    chat = environment.chat(ScriptedAdapter([]))
    await chat.call("ann", [FunctionCall("list_tasks", {})], conversation_id=asked.conversation_id)
    assert await shown(environment, asked) == ["waiting"]
    bread = FunctionCall("delete_task", {"task_id": await environment.task_id("bread")})
    newer = await chat.call("ann", [bread], conversation_id=asked.conversation_id)
    assert await shown(environment, asked) == ["set_aside", "waiting"]
    older = await chat.send("ann", answers=yes_to(asked))
    assert older.decision.void_answer is AnswerState.SUPERSEDED
    assert (await chat.send("ann", answers=yes_to(newer))).decision.decision_type is DecisionType.EXECUTE_PENDING
    assert await environment.descriptions() == ["milk"]
