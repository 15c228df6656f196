"""The question of a graph waits in the inbox of its user, and whatever resumes the graph reads what became of it there."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.types import Command

from graph_agent.chat.questions import GivenAnswer, Person, QuestionService
from graph_agent.errors import ServiceError
from graph_agent.integrations.langchain import as_node
from graph_agent.question.inbox import Which
from tests.chat.environment import Environment
from tests.integrations.langchain.chat_model import graph_with, resume, said
from tests.permission import permitted

ANN, BOB = Person("ann"), Person("bob")


async def asked_in_graph(environment: Environment, *threads: str) -> tuple[Any, QuestionService]:
    """Ask ann in each thread whether a task is to be deleted; return the graph, and the questions of another process."""
    graph = graph_with(as_node(environment.engine(), user="ann"))
    for thread in threads:
        assert (await environment.tools.execute(permitted("add_task", {"description": thread}, "ann", thread))).success
        await graph.ainvoke(said(f"delete the {thread} task"), of(thread))
    return graph, environment.chat().questions


def of(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.mark.parametrize(
    ("yes", "reply", "left"), [(True, "Done: Delete task 'milk'.", []), (False, "OK, I won't do that.", ["milk"])]
)
@pytest.mark.parametrize("given", [True, {"pending_action": "other", "yes": True}])
async def test_an_answer_in_the_inbox_counts_and_any_resume_goes_on_with_it(
    environment: Environment, yes: bool, reply: str, left: list[str], given: Any
) -> None:
    graph, questions = await asked_in_graph(environment, "milk")
    [question] = (await questions.inbox(ANN)).questions
    assert (await questions.inbox(BOB)).questions == []
    with pytest.raises(ServiceError, match="no such question"):
        await questions.answer(question.id, BOB, GivenAnswer(yes=True, digest=question.digest))
    first, second = [
        (await questions.answer(question.id, ANN, GivenAnswer(yes=yes, digest=question.digest))).reply for _ in range(2)
    ]
    assert first is not None
    assert first == second
    assert first.reply.startswith(reply)
    assert await environment.descriptions() == left
    with pytest.raises(ServiceError, match="An answer is final"):
        await questions.answer(question.id, ANN, GivenAnswer(yes=not yes, digest=question.digest))
    ended = await graph.ainvoke(Command(resume=given), of("milk"))
    assert ended["messages"][-1].text == first.reply
    assert ended["messages"][-1].id == first.decision_id
    assert await environment.descriptions() == left
    assert [one.id for one in (await questions.inbox(ANN, Which.ENDED)).questions] == [question.id]


async def test_an_answer_in_the_graph_ends_the_question_of_the_inbox(environment: Environment) -> None:
    graph, questions = await asked_in_graph(environment, "milk")
    (interrupt,) = (await graph.aget_state(of("milk"))).interrupts
    ended = await graph.ainvoke(resume(interrupt, True), of("milk"))
    assert ended["messages"][-1].text == "Done: Delete task 'milk'."
    assert (await questions.inbox(ANN)).waiting == 0
    [question] = (await questions.inbox(ANN, Which.ENDED)).questions
    assert (question.id, question.state) == (interrupt.value["pending_action"]["id"], "approved")


async def test_the_questions_of_several_threads_wait_beside_each_other(environment: Environment) -> None:
    graph, questions = await asked_in_graph(environment, "milk", "bread")
    milk, bread = (await questions.inbox(ANN)).questions
    await questions.answer(bread.id, ANN, GivenAnswer(yes=True, digest=bread.digest))
    assert [one.id for one in (await questions.inbox(ANN)).questions] == [milk.id]
    ended = await graph.ainvoke(Command(resume=True), of("bread"))
    assert ended["messages"][-1].text == "Done: Delete task 'bread'."
    assert await environment.descriptions() == ["milk"]


@pytest.mark.parametrize("named", [True, False])
async def test_a_graph_goes_on_after_its_question_was_withdrawn_and_does_nothing(environment: Environment, named: bool) -> None:
    graph, questions = await asked_in_graph(environment, "milk")
    (interrupt,) = (await graph.aget_state(of("milk"))).interrupts
    [question] = (await questions.inbox(ANN)).questions
    assert (await questions.cancel(question.id, ANN)).state == "cancelled"
    ended = await graph.ainvoke(resume(interrupt, True) if named else Command(resume=True), of("milk"))
    assert ended["messages"][-1].text == "You have withdrawn that question, so nothing was done."
    assert await environment.descriptions() == ["milk"]
