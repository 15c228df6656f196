"""`as_node`: turns inside a graph of LangGraph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.errors import ServiceError
from graph_agent.integrations.langchain import as_node
from graph_agent.models.decision import DecisionType
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.audit_writer import MemoryAuditWriter, MemoryConfirmations
from graph_agent.testing import says
from graph_agent.turn.engine import LLMAgentEngine
from tests.desk import ONLY_PENDING, cancel, conversation, forbid
from tests.integrations.langchain.chat_model import THREAD, answer_to, graph_with, resume, said
from tests.scripted_turns import TableServer, asks, calls, done, engine_of

DELETE = calls(("delete_task", {"task_id": "t1"}))
PREVIEWS = {"delete_task": done({"description": "call mom"})}
QUESTION = "Delete task 'call mom'. Should I go ahead? Please answer yes or no."


def records(engine: LLMAgentEngine) -> list[tuple[str, str]]:
    """The type and the status of every decision; none may be open."""
    audit = engine.audit
    assert isinstance(audit, MemoryAuditWriter)
    assert audit.open == {}
    return [(record.decision.decision_type, record.status) for record in audit.records.values()]


async def test_it_answers_the_last_message_and_a_thread_is_a_conversation() -> None:
    server = TableServer()
    engine = engine_of(calls(("add_task", {"description": "call mom"})), says("Added."), says("You said it."), server=server)
    graph = graph_with(as_node(engine, user="ann"))
    first = await graph.ainvoke(said("add a task to call mom"), THREAD)
    second = await graph.ainvoke(said("what did I say?"), THREAD)
    answers = [message for message in second["messages"] if isinstance(message, AIMessage)]
    assert [message.text for message in answers] == ["Added.", "You said it."]
    assert first["messages"][-1].response_metadata["decision"]["effects"] == ["Add task 'call mom'"]
    assert [sent[2] for sent in server.sent] == ["ann"]
    record = await engine.audit.load(answers[1].id or "")
    assert record is not None
    context = record.header.context
    assert context.conversation_id == "1"
    assert [message.content for message in context.message_history] == ["add a task to call mom", "Added."]
    assert context.message_history[1].decision_type is DecisionType.INVOKE_TOOL


@pytest.mark.parametrize("answer", [True, "yes", "Sí, por favor"])
@pytest.mark.parametrize("by_interrupt_id", [True, False])
async def test_a_resume_confirms_exactly_the_action_of_the_interrupt(answer: bool | str, by_interrupt_id: bool) -> None:
    server = TableServer(previews=PREVIEWS)
    engine = engine_of(DELETE, server=server)
    graph = graph_with(as_node(engine))
    (asked,) = (await graph.ainvoke(said("delete the call mom task"), THREAD))["__interrupt__"]
    action = asked.value["pending_action"]
    assert (asked.value["question"], action["arguments"], server.sent) == (QUESTION, {"task_id": "t1"}, [])
    assert "signature" not in action
    given = resume(asked, answer) if by_interrupt_id else Command(resume=answer_to(asked, answer))
    ended = await graph.ainvoke(given, THREAD)
    assert server.sent == [("delete_task", {"task_id": "t1"}, "local", action["id"])]
    assert ended["messages"][-1].text.startswith("Done")
    assert records(engine) == [("REQUEST_CONFIRMATION", "completed"), ("EXECUTE_PENDING", "completed")]


async def test_a_node_reads_the_facts_that_its_rules_name_and_a_refusal_names_them() -> None:
    run = conversation(ONLY_PENDING, calls(cancel("W1")), says("Done."), calls(cancel("W2")), says("Sorry."))
    graph = graph_with(as_node(run.engine))
    await graph.ainvoke(said("cancel W1"), THREAD)
    assert run.desk.made == ["get_order W1", "cancel_order W1"]
    refused = await graph.ainvoke(said("cancel W2"), THREAD)
    assert run.desk.made[2:] == ["get_order W2"]
    why = "Not done: cancel order (order 'W2'). Only a pending order (order 'W2': status = 'delivered')."
    assert refused["messages"][-1].response_metadata["decision"]["notices"] == [why]
    assert "delivered" not in str([one.content for one in refused["messages"][:-1]])


async def test_a_node_reads_the_facts_again_after_the_yes() -> None:
    asks_first = ONLY_PENDING + forbid("ask first", "cancel_order", "context.confirmed")
    run = conversation(asks_first, calls(cancel("W1")), says("Sorry."))
    graph = graph_with(as_node(run.engine))
    (asked,) = (await graph.ainvoke(said("cancel W1"), THREAD))["__interrupt__"]
    assert run.desk.made == ["get_order W1"]
    run.desk.orders["W1"]["status"] = "delivered"
    ended = await graph.ainvoke(resume(asked, True), THREAD)
    assert run.desk.made == ["get_order W1", "get_order W1"]
    (notice,) = ended["messages"][-1].response_metadata["decision"]["notices"]
    assert "order 'W1': status = 'delivered'" in notice


async def test_after_five_minutes_a_yes_asks_anew_with_a_new_preview() -> None:
    clock = ManualClock()
    server = TableServer(previews={**PREVIEWS})
    engine = engine_of(DELETE, server=server, clock=clock)
    graph = graph_with(as_node(engine))
    (first,) = (await graph.ainvoke(said("delete it"), THREAD))["__interrupt__"]
    clock.advance(seconds=301)
    server.previews["delete_task"] = done({"description": "call dad"})
    (second,) = (await graph.ainvoke(resume(first, True), THREAD))["__interrupt__"]
    assert (second.value["question"], server.sent) == (QUESTION.replace("mom", "dad"), [])
    assert second.value["pending_action"]["id"] != first.value["pending_action"]["id"]
    clock.advance(seconds=60)
    await graph.ainvoke(resume(second, True), THREAD)
    assert server.sent == [("delete_task", {"task_id": "t1"}, "local", second.value["pending_action"]["id"])]
    assert [kind for kind, _ in records(engine)] == [
        "REQUEST_CONFIRMATION",
        "RESPOND_ONLY",
        "REQUEST_CONFIRMATION",
        "EXECUTE_PENDING",
    ]


async def test_a_yes_in_a_process_with_other_rules_asks_anew_under_these() -> None:
    server, saver = TableServer(previews=PREVIEWS), InMemorySaver()
    shared: dict[str, Any] = {"audit": MemoryAuditWriter(), "confirmations": MemoryConfirmations(), "ids": RandomIds()}
    asking = graph_with(as_node(engine_of(DELETE, server=server, **shared)), saver)
    (first,) = (await asking.ainvoke(said("delete it"), THREAD))["__interrupt__"]
    stricter = ConditionsFile("permit (principal, action, resource);")
    graph = graph_with(as_node(engine_of(server=server, conditions=stricter, **shared)), saver)
    (second,) = (await graph.ainvoke(resume(first, True), THREAD))["__interrupt__"]
    assert (second.value["question"], server.sent) == (QUESTION, [])
    assert second.value["pending_action"]["id"] != first.value["pending_action"]["id"]
    await graph.ainvoke(resume(second, True), THREAD)
    assert server.sent == [("delete_task", {"task_id": "t1"}, "local", second.value["pending_action"]["id"])]


async def test_an_answer_that_is_neither_yes_nor_no_asks_again_or_is_a_message() -> None:
    server = TableServer(previews=PREVIEWS)
    engine = engine_of(DELETE, says("It is sunny."), server=server)
    graph = graph_with(as_node(engine))
    (asked,) = (await graph.ainvoke(said("delete it"), THREAD))["__interrupt__"]
    assert "notice" not in asked.value
    (asked,) = (await graph.ainvoke(resume(asked, "yes but not now"), THREAD))["__interrupt__"]
    assert asked.value["pending_action"]["asked"] == 2
    (asked,) = (await graph.ainvoke(resume(asked, "x" * 4_001), THREAD))["__interrupt__"]
    assert asked.value["notice"] == "The message is longer than 4000 characters."
    ended = await graph.ainvoke(resume(asked, "tell me about the weather in Vienna instead"), THREAD)
    assert (ended["messages"][-1].text, server.sent) == ("It is sunny.", [])


async def test_two_answers_at_once_make_one_call() -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def slow(_: dict[str, Any]) -> Any:
        begun.set()
        await finish.wait()
        return done({"preview": "call mom"})

    server = TableServer({"delete_task": slow}, previews=PREVIEWS, ledger=False)
    engine = engine_of(DELETE, server=server)
    graph = graph_with(as_node(engine))
    (asked,) = (await graph.ainvoke(said("delete it"), THREAD))["__interrupt__"]
    both = [asyncio.create_task(graph.ainvoke(resume(asked, True), THREAD)) for _ in range(2)]
    await begun.wait()
    finish.set()
    replies = [ended["messages"][-1].text for ended in await asyncio.gather(*both)]
    assert (len(server.sent), len(set(replies))) == (1, 1)
    assert len(records(engine)) == 2


async def test_a_retried_node_does_not_run_its_turn_again() -> None:
    server = TableServer()
    engine = engine_of(calls(("add_task", {"description": "call mom"})), says("Added."), server=server)
    node = as_node(engine)
    failures = [RuntimeError("after the turn")]

    async def failing(state: Any, config: RunnableConfig) -> Any:
        ended = await node(state, config)
        if failures:
            raise failures.pop()
        return ended

    graph = graph_with(failing)
    with pytest.raises(RuntimeError, match="after the turn"):
        await graph.ainvoke(said("add a task to call mom"), THREAD)
    ended = await graph.ainvoke(None, THREAD)
    assert (ended["messages"][-1].text, len(server.sent)) == ("Added.", 1)
    assert records(engine) == [("INVOKE_TOOL", "completed")]


async def test_a_turn_adds_no_checkpoints_and_a_plain_node_can_be_resumed() -> None:
    engine = engine_of(calls(("add_task", {"description": "call mom"})), says("Added."), says("Hello."))

    async def plain(_: Any) -> Any:
        decision = await engine.process_message(asks())
        return {"messages": [("ai", f"{decision.reply} {interrupt('and now?')}")]}

    saver = InMemorySaver()
    graph = graph_with(plain, saver)
    await graph.ainvoke(said("add a task to call mom"), THREAD)
    ended = await graph.ainvoke(Command(resume="fine"), THREAD)
    assert ended["messages"][-1].text == "Hello. fine"
    assert records(engine) == [("INVOKE_TOOL", "completed"), ("RESPOND_ONLY", "completed")]
    assert {namespace: len(kept) for namespace, kept in saver.storage["1"].items()} == {"": 3}


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([HumanMessage("x" * 4_001)], "longer than 4000"),
        ([HumanMessage(" ")], "empty"),
        ([AIMessage("mine")], "empty"),
        ([], "empty"),
    ],
)
async def test_a_last_message_that_cannot_be_a_turn_is_refused(messages: list[Any], problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        await graph_with(as_node(engine_of())).ainvoke({"messages": messages}, THREAD)


async def test_the_user_may_come_from_the_configuration_and_no_thread_is_needed() -> None:
    server = TableServer()
    engine = engine_of(calls(("add_task", {"description": "call mom"})), says("Added."), server=server)
    graph = graph_with(as_node(engine, user=lambda config: config["configurable"]["signed_in"]), saver=False)
    await graph.ainvoke(said("add a task to call mom"), {"configurable": {"signed_in": "bob"}})
    assert [sent[2] for sent in server.sent] == ["bob"]


class Calls(AsyncCallbackHandler):
    """Keeps the calls of models and tools."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def on_chat_model_start(self, serialized: Any, messages: Any, **_: Any) -> None:
        self.seen.append((serialized["name"], messages[0][-1].text))

    async def on_llm_end(self, response: Any, **_: Any) -> None:
        message = response.generations[0][0].message
        self.seen.append(("answered", message.text or message.tool_calls[0]["name"]))

    async def on_tool_start(self, serialized: Any, *_: Any, inputs: Any = None, **more: Any) -> None:  # noqa: ARG002 (LangChain's signature)
        self.seen.append((serialized["name"], inputs))

    async def on_tool_end(self, output: Any, **_: Any) -> None:
        self.seen.append(("returned", output.status))


async def test_callbacks_and_streams_show_model_and_tool_calls() -> None:
    engine = engine_of(calls(("add_task", {"description": "call mom"})), says("Added."))
    graph = graph_with(as_node(engine))
    calls_seen = Calls()
    streamed = [
        (mode, chunk)
        async for mode, chunk in graph.astream(
            said("add a task to call mom"), {**THREAD, "callbacks": [calls_seen]}, stream_mode=["custom", "messages"]
        )
    ]
    assert calls_seen.seen == [
        ("scripted", "add a task to call mom"),
        ("answered", "add_task"),
        ("add_task", {"description": "call mom"}),
        ("returned", "success"),
        ("scripted", '{"success":true,"data":{}}'),
        ("answered", "Added."),
    ]
    events = [chunk for mode, chunk in streamed if mode == "custom"]
    assert [event["type"] for event in events if event["type"] != "state"] == [
        "model_call",
        "tool_call",
        "receipt",
        "model_call",
    ]
    assert [event["state"] for event in events if event["type"] == "state"][0::7] == ["BUILD_REQUEST", "CHECK_RESPONSE"]
    texts = [chunk[0].text for mode, chunk in streamed if mode == "messages"]
    assert "Added." in texts
