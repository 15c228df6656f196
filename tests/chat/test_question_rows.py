"""A question and its answer in the log: one row, with the sentence of its call and how it came out."""

from __future__ import annotations

import pytest

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.queries import LogQueryService
from graph_agent.chat.answer import ChatAnswer
from graph_agent.clock import ManualClock
from graph_agent.models.decision import ConfirmationAnswer
from tests.chat.environment import Environment
from tests.chat.test_recovered_yes import asked_to_delete, yes_to


@pytest.fixture
def environment(each_environment: Environment) -> Environment:
    return each_environment


async def rows(environment: Environment, asked: ChatAnswer, search: str | None = None) -> list[tuple[str, str]]:
    filters = DecisionFilter.of(conversation_id=asked.conversation_id, search=search)
    page = await LogQueryService(environment.database).query_decisions(filters, together=True)
    assert page.total == len(page.items)
    # The messages before the question have added the tasks.
    return [(item.title, item.ending) for item in page.items if not item.title.startswith("add ")]


async def test_a_question_is_listed_by_its_sentence_and_its_answer_takes_its_place(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    assert await rows(environment, asked) == [("Delete task 'milk'", "asked first")]
    await environment.chat().send("ann", answers=yes_to(asked))
    assert await rows(environment, asked) == [("Delete task 'milk'", "done")]


@pytest.mark.parametrize(("answer", "ending"), [("no", "declined"), ("yes", "done")])
async def test_a_typed_answer_is_listed_like_one_by_its_button(environment: Environment, answer: str, ending: str) -> None:
    asked = await asked_to_delete(environment)
    await environment.chat().send("ann", answer, conversation_id=asked.conversation_id)
    assert await rows(environment, asked) == [("Delete task 'milk'", ending)]


async def test_the_row_is_found_by_the_words_of_the_question_and_of_the_answer(environment: Environment) -> None:
    asked = await asked_to_delete(environment)
    await environment.chat().send("ann", "yes", conversation_id=asked.conversation_id)
    for search in ("delete milk", "yes"):
        assert await rows(environment, asked, search) == [("Delete task 'milk'", "done")]


async def test_a_question_that_is_asked_again_or_set_aside_has_one_row(environment: Environment, clock: ManualClock) -> None:
    asked = await asked_to_delete(environment)
    await environment.chat().send("ann", "yes but why", conversation_id=asked.conversation_id)
    assert await rows(environment, asked) == [("Delete task 'milk'", "asked first")]
    clock.advance(minutes=6)
    await environment.chat().send("ann", "hello", conversation_id=asked.conversation_id)
    assert await rows(environment, asked) == [("hello", "answered"), ("Delete task 'milk'", "asked first")]


async def test_a_late_answer_is_a_row_of_its_own(environment: Environment, clock: ManualClock) -> None:
    asked = await asked_to_delete(environment)
    assert asked.decision.pending_action is not None
    clock.advance(minutes=6)
    late = ConfirmationAnswer(pending_action=asked.decision.pending_action.id, yes=True)
    await environment.chat().send("ann", answers=late)
    assert [title for title, _ in await rows(environment, asked)] == ["Yes.", "Delete task 'milk'"]
