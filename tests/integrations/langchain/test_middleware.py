"""`GovernedTools`: the calls of an agent of LangChain are judged, confirmed, recorded and replayed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import after_model
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from mcp import StdioServerParameters
from pydantic import BaseModel

from graph_agent.integrations.langchain import GovernedTools
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.tools import ToolResult
from graph_agent.record.audit_writer import MemoryAuditWriter
from graph_agent.replays.replayer import replay
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from tests.integrations.langchain.chat_model import THREAD, ScriptedChatModel, requests, resume, said
from tests.scripted_turns import TableServer, done, engine_of

ADD = ("add_task", {"description": "call mom"})
LIST: tuple[str, dict[str, Any]] = ("list_tasks", {})
DELETE = ("delete_task", {"task_id": "t1"})
PREVIEWS = {"delete_task": done({"description": "call mom"})}


def agent_of(engine: LLMAgentEngine, *script: AIMessage | Exception, **options: Any) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(script=list(script))
    governed = GovernedTools(engine, user="ann")
    return create_agent(model, middleware=[governed], checkpointer=InMemorySaver(), **options), model


def answers(ended: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The call's id, the status and the error of every answer to a call."""
    found = [message for message in ended["messages"] if isinstance(message, ToolMessage)]
    return [(message.tool_call_id, message.status, json.loads(message.text).get("error", "")) for message in found]


async def records(engine: LLMAgentEngine) -> list[tuple[str, list[str]]]:
    """The type of every decision with the fates of its calls; each must replay."""
    audit = engine.audit
    assert isinstance(audit, MemoryAuditWriter)
    assert audit.open == {}
    for record in audit.records.values():
        assert (await replay(record, await audit.texts(list(record.header.digests.values())))).identical
        assert record.header.model == "none" or record.decision.decision_type != "INVOKE_TOOL"
    return [
        (record.decision.decision_type, [made.disposition for made in record.invocations]) for record in audit.records.values()
    ]


async def test_the_calls_of_one_response_are_one_decision() -> None:
    server = TableServer()
    engine = engine_of(server=server)
    agent, model = agent_of(engine, requests(LIST, ADD, ("drop_table", {}), ADD), AIMessage("Done."))
    ended = await agent.ainvoke(said("add a task to call mom"), THREAD)
    assert ended["messages"][-1].text == "Done."
    assert answers(ended) == [
        ("id1", "success", ""),
        ("id2", "success", ""),
        ("id3", "error", "there is no such tool"),
        ("id4", "success", ""),
    ]
    assert await records(engine) == [("INVOKE_TOOL", ["executed", "executed", "refused", "repeated"])]
    assert [sent[0] for sent in server.sent] == ["list_tasks", "add_task"]
    offered = [one["function"]["name"] for one in model.bound[0]["tools"]]
    assert offered == ["add_task", "list_tasks", "update_task", "complete_task", "delete_task"]


async def test_a_confirmation_is_an_interrupt_and_only_its_answer_makes_the_call() -> None:
    server = TableServer(previews=PREVIEWS)
    engine = engine_of(server=server)
    agent, _ = agent_of(engine, requests(LIST, DELETE, ADD), AIMessage("Deleted."))
    (asked,) = (await agent.ainvoke(said("delete it"), THREAD))["__interrupt__"]
    assert asked.value["question"].startswith("2 actions, in this order:\n1. Delete task 'call mom'\n2. Add task 'call mom'\n")
    assert [sent[0] for sent in server.sent] == ["list_tasks"]
    (asked,) = (await agent.ainvoke(resume(asked, "what is the weather?"), THREAD))["__interrupt__"]
    ended = await agent.ainvoke(resume(asked, "yes"), THREAD)
    assert [sent[0] for sent in server.sent] == ["list_tasks", "delete_task", "add_task"]
    identity = asked.value["pending_action"]["id"]
    assert [sent[3] for sent in server.sent[-2:]] == [identity, f"{identity}:2"]
    assert [status for _, status, _ in answers(ended)] == ["success", "success", "success"]
    assert await records(engine) == [
        ("REQUEST_CONFIRMATION", ["executed", "awaiting", "awaiting"]),
        ("EXECUTE_PENDING", ["executed", "executed"]),
    ]


@pytest.mark.parametrize("yes", [True, False])
async def test_each_call_of_a_card_that_is_asked_again_halfway_gets_its_own_answer(yes: bool) -> None:
    update = ("update_task", {"task_id": "t2", "description": "call dad"})
    server = TableServer(previews=PREVIEWS | {"update_task": done({"description": "call pa"})})

    def delete(_: dict[str, Any]) -> ToolResult:
        server.previews["update_task"] = done({"description": "call papa"})
        return done({"preview": "call mom"})

    server.answers = {"delete_task": delete}
    engine = engine_of(server=server)
    agent, model = agent_of(engine, requests(DELETE, update, ADD), AIMessage("Done."))
    (first,) = (await agent.ainvoke(said("tidy up"), THREAD))["__interrupt__"]
    (second,) = (await agent.ainvoke(resume(first, True), THREAD))["__interrupt__"]
    assert "call papa" in second.value["question"]
    await agent.ainvoke(resume(second, yes), THREAD)
    read = [json.loads(message.text) for message in model.asked[-1] if isinstance(message, ToolMessage)]
    rest = ["update_task", "add_task"] if yes else []
    assert [one["data"] for one in read if one["success"]] == [{"preview": "call mom"}, *[{}] * len(rest)]
    assert [sent[0] for sent in server.sent] == ["delete_task", *rest]


async def test_a_tool_of_the_agent_itself_is_not_offered_and_never_run() -> None:
    @tool
    def wipe() -> str:
        """Wipe the disk."""
        raise AssertionError

    engine = engine_of()
    agent, model = agent_of(engine, requests(("wipe", {})), AIMessage("I can't."), tools=[wipe])
    ended = await agent.ainvoke(said("wipe the disk"), THREAD)
    assert answers(ended) == [("id1", "error", "there is no such tool")]
    assert "wipe" not in [one["function"]["name"] for one in model.bound[0]["tools"]]


async def test_a_call_that_reaches_the_executor_of_the_agent_is_refused() -> None:
    @after_model(can_jump_to=["tools"])
    def skips_the_guard(state: Any, runtime: Any) -> Any:  # noqa: ARG001 (LangChain's signature)
        return {"jump_to": "tools"} if getattr(state["messages"][-1], "tool_calls", None) else None

    server = TableServer()
    model = ScriptedChatModel(script=[requests(ADD), AIMessage("Not done.")])
    agent: Any = create_agent(model, middleware=[GovernedTools(engine_of(server=server)), skips_the_guard])
    ended = await agent.ainvoke(said("add a task to call mom"))
    assert (answers(ended), server.sent) == ([("id1", "error", "this call was not judged")], [])


async def test_an_agent_with_structured_output_ends_as_usual() -> None:
    class Report(BaseModel):
        """What was done."""

        count: int

    engine = engine_of()
    agent, _ = agent_of(engine, requests(ADD), requests(("Report", {"count": 1})), response_format=ToolStrategy(Report))
    ended = await agent.ainvoke(said("add a task to call mom"), THREAD)
    assert ended["structured_response"] == Report(count=1)
    assert await records(engine) == [("INVOKE_TOOL", ["executed"])]


async def test_a_tool_of_a_server_with_a_dotted_name_has_a_name_that_providers_accept() -> None:
    (listed,) = [one for one in TableServer().declarations() if one.name == "list_tasks"]
    server = TableServer(served=(listed.replace(name="work.list_tasks"),))
    constitution = "You list.\n\n## Available Tools\n- work.list_tasks: List tasks\n"
    engine = LLMAgentEngine(ScriptedAdapter([]), server, constitution)
    model = ScriptedChatModel(script=[])
    agent: Any = create_agent(model, middleware=[GovernedTools(engine)])
    model.script.append(AIMessage("Which?"))
    await agent.ainvoke(said("list"))
    (name,) = [one["function"]["name"] for one in model.bound[0]["tools"]]
    assert "." not in name
    model.script += [requests((name, {})), AIMessage("None.")]
    ended = await agent.ainvoke(said("list"))
    assert (answers(ended)[0][1], server.sent[0][0]) == ("success", "work.list_tasks")


def test_an_agent_that_is_not_run_async_says_so() -> None:
    agent, _ = agent_of(engine_of(), AIMessage("Hello."))
    with pytest.raises(NotImplementedError, match="async"):
        agent.invoke(said("hello"), THREAD)


async def test_what_a_model_cannot_read_is_a_line_for_it_and_a_file_for_the_application() -> None:
    script = str(Path(__file__).parents[2] / "gateway" / "parts_server.py")
    server = StdioServerParameters(command=sys.executable, args=[script])
    tools = McpServerGroup([ServerConfig("parts", server, timeout=120)], granted=["show"])
    await tools.start()
    try:
        engine = LLMAgentEngine(ScriptedAdapter([]), tools, "## Available Tools\n- show: Show (reads)\n")
        shown = [("show", {"what": what}) for what in ("image", "pdf", "link")]
        agent, _ = agent_of(engine, requests(*shown), AIMessage("Done."))
        ended = await agent.ainvoke(said("show me"), THREAD)
    finally:
        await tools.aclose()
    found = [message for message in ended["messages"] if isinstance(message, ToolMessage)]
    assert [json.loads(message.text)["content"] for message in found] == [
        ["image: image/png, 2 bytes"],
        ["resource: file:///a.pdf, application/pdf, 4 bytes"],
        ["link: notes://today, today, text/plain"],
    ]
    assert [message.artifact.get("files") for message in found] == [
        [{"type": "image", "base64": "aGk=", "mime_type": "image/png"}],
        [{"type": "file", "base64": "JVBERg==", "mime_type": "application/pdf"}],
        None,
    ]
