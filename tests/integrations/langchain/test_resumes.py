"""Values of resumes that LangGraph gives to another question than the one that they answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentState
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command, Interrupt, RetryPolicy, Send, interrupt

from graph_agent.clock import ManualClock
from graph_agent.integrations.langchain import GovernedTools, as_node
from graph_agent.models.llm import LLMMessage, LLMResponse
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.reply.fixed import NO_ANSWER_TO_THIS
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.integrations.langchain.chat_model import THREAD, ScriptedChatModel, answer_to, graph_with, requests, resume, said
from tests.scripted_turns import TableServer, calls, done, engine_of


@pytest.fixture(params=["memory", "sqlite"])
async def saver(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncGenerator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as sqlite:
        yield sqlite


def deletion(task: str) -> LLMResponse:
    return calls(("delete_task", {"task_id": task}))


def confirming() -> TableServer:
    return TableServer(previews={"delete_task": done({"description": "call mom"})})


def deleted(server: TableServer) -> list[str]:
    return [parameters["task_id"] for name, parameters, *_ in server.sent if name == "delete_task"]


def question(ended: dict[str, Any]) -> Interrupt:
    (asked,) = ended["__interrupt__"]
    assert isinstance(asked, Interrupt)
    return asked


def action(asked: Interrupt) -> str:
    return str(asked.value["pending_action"]["id"])


def messages_of(engine: LLMAgentEngine) -> list[str]:
    assert isinstance(engine.audit, MemoryAuditWriter)
    assert engine.audit.open == {}
    return [record.header.context.message for record in engine.audit.records.values()]


Make = Callable[[LLMAgentEngine, Any], Any]


def node_graph(engine: LLMAgentEngine, saver: Any) -> Any:
    return graph_with(as_node(engine), saver)


def agent_graph(engine: LLMAgentEngine, saver: Any) -> Any:
    model = ScriptedChatModel(script=[requests(("delete_task", {"task_id": "t1"})), AIMessage("Done.")])
    return create_agent(model, middleware=[GovernedTools(engine)], checkpointer=saver)


@pytest.fixture(params=[node_graph, agent_graph])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


BARE: list[Any] = [
    *(True, False, "yes", "no", 7, "  ", ["yes"], {"yes": True}, {"text": "yes"}, {"pending_action": "other", "yes": True}),
    *({"pending_action": None, "yes": True}, {"pending_action": {}, "yes": True}),
]


async def test_a_value_that_does_not_name_the_question_answers_none(make: Make, saver: Any) -> None:
    server = confirming()
    engine = engine_of(deletion("t1"), server=server)
    graph = make(engine, saver)
    first = asked = question(await graph.ainvoke(said("delete it"), THREAD))
    own = action(first)
    unreadable: list[Any] = [{"pending_action": own}, {"pending_action": own, "yes": "perhaps"}]
    both = {"pending_action": own, "yes": True, "text": "no"}
    for value in (*BARE, *unreadable, both):
        asked = question(await graph.ainvoke(Command(resume=value), THREAD))
        assert asked.value == {"notice": NO_ANSWER_TO_THIS, **first.value}
        asked = question(await graph.ainvoke(Command(resume={asked.id: value}), THREAD))
        assert asked.value == {"notice": NO_ANSWER_TO_THIS, **first.value}
    assert (server.sent, len(messages_of(engine))) == ([], 1)
    await graph.ainvoke(resume(asked, True), THREAD)
    assert deleted(server) == ["t1"]


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_late_yes_does_not_answer_the_next_question_when_the_graph_goes_on(make: Make, saver: Any, by_id: bool) -> None:
    clock, server = ManualClock(), confirming()
    graph = make(engine_of(deletion("t1"), server=server, clock=clock), saver)
    first = question(await graph.ainvoke(said("delete it"), THREAD))
    clock.advance(seconds=301)
    late = resume(first, True) if by_id else Command(resume=answer_to(first, True))
    second = question(await graph.ainvoke(late, THREAD))
    assert action(second) != action(first)
    for _ in range(3):
        again = question(await graph.ainvoke(None, THREAD))
        assert (action(again), server.sent) == (action(second), [])
    # The client sends its first answer again, also under the id of the second interrupt.
    for value in (late, Command(resume={again.id: answer_to(first, True)}), Command(resume={first.id: answer_to(first, True)})):
        again = question(await graph.ainvoke(value, THREAD))
        assert (action(again), again.value["notice"], server.sent) == (action(second), NO_ANSWER_TO_THIS, [])
    await graph.ainvoke(resume(again, True), THREAD)
    assert [sent[3] for sent in server.sent] == [action(second)]


async def test_a_text_that_was_answered_is_no_second_message(saver: Any) -> None:
    server = confirming()
    engine = engine_of(deletion("t1"), deletion("t2"), says("It is sunny."), server=server)
    graph = graph_with(as_node(engine), saver)
    first = question(await graph.ainvoke(said("delete it"), THREAD))
    text: Command[Any] = Command(resume=answer_to(first, "delete the second one instead, I meant that one"))
    second = question(await graph.ainvoke(text, THREAD))
    assert second.value["pending_action"]["arguments"] == {"task_id": "t2"}
    for given in (None, text, Command(resume={second.id: answer_to(first, "and the third one, please, of that list")})):
        again = question(await graph.ainvoke(given, THREAD))
        assert action(again) == action(second)
    assert messages_of(engine) == ["delete it", "delete the second one instead, I meant that one"]
    await graph.ainvoke(resume(again, True), THREAD)
    assert deleted(server) == ["t2"]


async def test_an_unclear_text_counts_once_however_often_it_is_given(saver: Any) -> None:
    engine = engine_of(deletion("t1"), server=confirming())
    graph = graph_with(as_node(engine), saver)
    asked = question(await graph.ainvoke(said("delete it"), THREAD))
    unclear: Command[Any] = Command(resume=answer_to(asked, "yes but not now"))
    for given in (unclear, None, unclear, None):
        asked = question(await graph.ainvoke(given, THREAD))
        assert asked.value["pending_action"]["asked"] == 2
    assert messages_of(engine) == ["delete it", "yes but not now"]


async def test_a_yes_without_the_digest_of_a_long_action_asks_again_once(saver: Any) -> None:
    server = TableServer(previews={"delete_task": done({"description": "x" * 5_000})})
    engine = engine_of(deletion("t1"), server=server)
    graph = graph_with(as_node(engine), saver)
    asked = question(await graph.ainvoke(said("delete it"), THREAD))
    unread: Command[Any] = Command(resume=answer_to(asked, True, read="\ud800"))
    for given in (unread, None, None):
        asked = question(await graph.ainvoke(given, THREAD))
        assert (asked.value["pending_action"]["asked"], server.sent) == (2, [])
    whole = asked.value["pending_action"]["whole_digest"]
    await graph.ainvoke(Command(resume={asked.id: answer_to(asked, True, read=whole)}), THREAD)
    assert deleted(server) == ["t1"]


async def test_a_used_yes_does_not_answer_the_first_question_of_the_next_node_of_a_subgraph(saver: Any) -> None:
    server = confirming()
    node = as_node(engine_of(deletion("t1"), deletion("t2"), server=server))

    async def says_more(_: Any) -> Any:
        return {"messages": [HumanMessage("and the other")]}

    steps: Any = StateGraph(MessagesState)
    for name, step in (("a", node), ("more", says_more), ("b", node)):
        steps.add_node(name, step)
    steps.add_edge(START, "a").add_edge("a", "more").add_edge("more", "b")
    graph = graph_with(steps.compile(), saver)
    first = question(await graph.ainvoke(said("delete it"), THREAD))
    second = question(await graph.ainvoke(Command(resume=answer_to(first, True)), THREAD))
    again = question(await graph.ainvoke(None, THREAD))
    assert (action(again), deleted(server)) == (action(second), ["t1"])
    await graph.ainvoke(resume(again, True), THREAD)
    assert deleted(server) == ["t1", "t2"]


async def test_an_answer_does_not_reach_another_branch(make: Make, saver: Any) -> None:
    server = confirming()
    engine = engine_of(deletion("t1"), deletion("t2"), server=server)
    graph = make(engine, saver)
    first = question(await graph.ainvoke(said("delete it"), THREAD))
    # A fork of the interrupted state: the node runs there for the first time, with the value of the resume.
    if make is agent_graph:
        await graph.aupdate_state(THREAD, {"messages": [requests(("delete_task", {"task_id": "t2"}))]}, as_node="model")
    else:
        await graph.aupdate_state(THREAD, {"messages": [HumanMessage("no, delete the second one")]}, as_node=START)
    forked = question(await graph.ainvoke(Command(resume=answer_to(first, True)), THREAD))
    assert (forked.value["pending_action"]["arguments"], forked.value["notice"]) == ({"task_id": "t2"}, NO_ANSWER_TO_THIS)
    assert deleted(server) == []
    await graph.ainvoke(resume(forked, True), THREAD)
    assert deleted(server) == ["t2"]


async def test_an_older_checkpoint_asks_anew(saver: Any) -> None:
    server = confirming()
    engine = engine_of(deletion("t1"), deletion("t1"), server=server)
    graph = graph_with(as_node(engine), saver)
    first = question(await graph.ainvoke(said("delete it"), THREAD))
    asking = (await graph.aget_state(THREAD)).config
    await graph.ainvoke(Command(resume=answer_to(first, False)), THREAD)
    # The same checkpoint with another answer: the action is used up.
    ended = await graph.ainvoke(Command(resume=answer_to(first, True)), asking)
    assert server.sent == []
    assert ended["messages"][-1].text != "Done."
    again = question(await graph.ainvoke(None, asking))
    assert (action(again) != action(first), server.sent) == (True, [])
    assert question(await graph.ainvoke(Command(resume=answer_to(first, True)), THREAD)).value["notice"] == NO_ANSWER_TO_THIS
    assert server.sent == []


async def test_questions_of_parallel_tasks_are_answered_by_their_own_ids(saver: Any) -> None:
    class State(MessagesState):
        answered: Annotated[list[Any], add_messages]

    tasks = {"delete one": "t1", "delete two": "t2", "delete three": "t3"}

    def by_message(messages: list[LLMMessage], _: Any) -> LLMResponse:
        return deletion(tasks[messages[-1].content or ""])

    server = confirming()
    node = as_node(engine_of(by_message, by_message, by_message, server=server))

    async def one(state: Any, config: RunnableConfig) -> Any:
        return {"answered": (await node(state, config))["messages"]}

    def spread(_: Any) -> list[Send]:
        return [Send("one", said(message)) for message in tasks]

    builder: Any = StateGraph(State).add_node("one", one).add_conditional_edges(START, spread, ["one"])
    graph: Any = builder.compile(checkpointer=saver)
    asked = {
        one.value["pending_action"]["arguments"]["task_id"]: one
        for one in (await graph.ainvoke(said("delete all"), THREAD))["__interrupt__"]
    }
    assert set(asked) == {"t1", "t2", "t3"}
    # Each value under the id of another interrupt.
    crossed = {
        asked["t1"].id: answer_to(asked["t2"], True),
        asked["t2"].id: answer_to(asked["t1"], True),
        asked["t3"].id: True,
    }
    left = (await graph.ainvoke(Command(resume=crossed), THREAD))["__interrupt__"]
    assert ({one.value["notice"] for one in left}, server.sent) == ({NO_ANSWER_TO_THIS}, [])
    asked = {one.value["pending_action"]["arguments"]["task_id"]: one for one in left}
    chosen = {asked["t1"].id: answer_to(asked["t1"], True), asked["t2"].id: answer_to(asked["t2"], False)}
    third = question(await graph.ainvoke(Command(resume=chosen), THREAD))
    assert (action(third), deleted(server)) == (action(asked["t3"]), ["t1"])
    assert action(question(await graph.ainvoke(None, THREAD))) == action(third)
    assert deleted(server) == ["t1"]


async def test_an_answer_does_not_reach_a_parallel_node_that_failed_before_it_asked(saver: Any) -> None:
    server = confirming()
    node = as_node(engine_of(deletion("t1"), deletion("t2"), deletion("t3"), server=server))
    failures = [RuntimeError("not yet")]

    async def failing(state: Any, config: RunnableConfig) -> Any:
        if failures:
            raise failures.pop()
        return await node(state, config)

    builder: Any = StateGraph(MessagesState)
    graph = (
        builder.add_node("a", node).add_node("b", failing).add_edge(START, "a").add_edge(START, "b").compile(checkpointer=saver)
    )
    with pytest.raises(RuntimeError, match="not yet"):
        await graph.ainvoke(said("delete it"), THREAD)
    ended = await graph.ainvoke(Command(resume={"pending_action": "the one of a", "yes": True}), THREAD)
    assert NO_ANSWER_TO_THIS in [one.value.get("notice") for one in ended["__interrupt__"]]
    assert server.sent == []


@pytest.mark.parametrize("times", [1, 2])
async def test_a_retry_after_an_answer_neither_asks_nor_calls_again(make: Make, saver: Any, times: int) -> None:
    server = confirming()
    engine = engine_of(deletion("t1"), server=server)
    failures = [OSError("after the turn")] * times
    governed, node = GovernedTools(engine), as_node(engine)

    async def failing(state: Any, config: RunnableConfig) -> Any:
        ended = await (governed.aafter_model(state, Runtime()) if make is agent_graph else node(state, config))
        if failures:
            raise failures.pop()
        return ended

    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2, retry_on=OSError)
    builder: Any = StateGraph(MessagesState).add_node("n", failing, retry_policy=policy).add_edge(START, "n")
    graph: Any = builder.compile(checkpointer=saver)
    messages = [requests(("delete_task", {"task_id": "t1"}))] if make is agent_graph else [HumanMessage("delete it")]
    asked = question(await graph.ainvoke({"messages": messages}, THREAD))
    if times == 1:
        await graph.ainvoke(Command(resume=answer_to(asked, True)), THREAD)
    else:
        with pytest.raises(OSError, match="after the turn"):
            await graph.ainvoke(Command(resume=answer_to(asked, True)), THREAD)
        await graph.ainvoke(None, THREAD)
    assert (deleted(server), len(messages_of(engine))) == (["t1"], 2)


async def test_two_messages_in_one_task_have_two_turns_and_two_questions(saver: Any) -> None:
    server = confirming()
    engine = engine_of(deletion("t1"), deletion("t2"), server=server)
    node = as_node(engine)

    async def twice(state: Any, config: RunnableConfig) -> Any:
        first = await node(state, config)
        both = {"messages": [*state["messages"], *first["messages"], HumanMessage("and the other")]}
        return {"messages": [*first["messages"], *(await node(both, config))["messages"]]}

    graph = graph_with(twice, saver)
    first = question(await graph.ainvoke(said("delete it"), THREAD))
    second = question(await graph.ainvoke(Command(resume=answer_to(first, True)), THREAD))
    assert (second.value["pending_action"]["arguments"], deleted(server)) == ({"task_id": "t2"}, ["t1"])
    assert action(question(await graph.ainvoke(None, THREAD))) == action(second)
    ended = await graph.ainvoke(Command(resume=answer_to(second, False)), THREAD)
    replies = [message.text for message in ended["messages"][1:]]
    assert (len(replies), replies[-1], deleted(server)) == (2, "OK, I won't do that. Nothing was changed.", ["t1"])
    assert messages_of(engine) == ["delete it", "Yes.", "and the other", "No."]


async def test_the_same_message_in_one_task_is_one_turn() -> None:
    server = TableServer()
    node = as_node(engine_of(calls(("add_task", {"description": "call mom"})), says("Added."), server=server))

    async def twice(state: Any, config: RunnableConfig) -> Any:
        await node(state, config)
        return await node(state, config)

    ended = await graph_with(twice).ainvoke(said("add a task to call mom"), THREAD)
    assert (ended["messages"][-1].text, len(server.sent)) == ("Added.", 1)


async def test_two_model_responses_in_one_task_are_two_decisions(saver: Any) -> None:
    server = confirming()
    engine = engine_of(server=server)
    governed = GovernedTools(engine)

    async def twice(state: Any) -> Any:
        messages = list(state["messages"])
        for task in ("t1", "t2", "t2"):
            messages.append(requests(("delete_task", {"task_id": task})))
            answered = await governed.aafter_model(AgentState(messages=messages), Runtime())
            assert answered is not None
            messages += answered["messages"]
        return {"messages": messages[1:]}

    graph = graph_with(twice, saver)
    first = question(await graph.ainvoke(said("delete both"), THREAD))
    second = question(await graph.ainvoke(Command(resume=answer_to(first, True)), THREAD))
    assert (second.value["pending_action"]["arguments"], deleted(server)) == ({"task_id": "t2"}, ["t1"])
    third = question(await graph.ainvoke(Command(resume=answer_to(second, False)), THREAD))
    assert (action(third) != action(second), deleted(server)) == (True, ["t1"])
    await graph.ainvoke(Command(resume=answer_to(third, True)), THREAD)
    assert deleted(server) == ["t1", "t2"]


async def test_a_value_for_a_question_of_your_own_answers_none_of_ours(saver: Any) -> None:
    server = confirming()
    node = as_node(engine_of(deletion("t1"), server=server))

    async def own_first(state: Any, config: RunnableConfig) -> Any:
        assert interrupt("May I?") is True
        return await node(state, config)

    graph = graph_with(own_first, saver)
    assert question(await graph.ainvoke(said("delete it"), THREAD)).value == "May I?"
    asked = question(await graph.ainvoke(Command(resume=True), THREAD))
    for _ in range(2):
        asked = question(await graph.ainvoke(None, THREAD))
    assert server.sent == []
    await graph.ainvoke(resume(asked, True), THREAD)
    assert deleted(server) == ["t1"]
