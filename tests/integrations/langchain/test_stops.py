"""What an operator has stopped is not sent by a node or an agent of LangGraph."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage

from graph_agent.errors import StoppedError
from graph_agent.integrations.langchain import GovernedTools, as_node
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.stops import place_stop
from graph_agent.replays.replayer import replay
from graph_agent.testing import says
from tests.chat.environment import Environment
from tests.integrations.langchain.chat_model import THREAD, ScriptedChatModel, graph_with, requests, said
from tests.scripted_turns import TableServer

ADD = ("add_task", {"description": "bread"})
EVERYTHING = Stop(number=0, scope=StopScope.EVERYTHING, reason="wrong", say="We look into it.")


@pytest.mark.parametrize("governed", [True, False])
async def test_a_stop_reaches_a_node_and_an_agent(environment: Environment, governed: bool) -> None:
    server, adapter = TableServer(), ScriptedAdapter([says("Never said.")])
    engine = environment.engine(adapter, tools=server)
    model = ScriptedChatModel(script=[requests(ADD)])
    agent: Any = create_agent(model, middleware=[GovernedTools(engine, user="ann")])
    graph = agent if governed else graph_with(as_node(engine, user="ann"))
    await place_stop(environment.database, EVERYTHING)
    with pytest.raises(StoppedError) as refused:
        await graph.ainvoke(said("add bread"), THREAD)
    assert refused.value.message == "We look into it. Nothing was done."
    assert (server.sent, adapter.requests) == ([], [])


async def test_an_agent_reads_that_the_operator_has_stopped_a_tool(environment: Environment) -> None:
    server = TableServer()
    engine = environment.engine(ScriptedAdapter([]), tools=server)
    model = ScriptedChatModel(script=[requests(ADD), AIMessage("It is stopped.")])
    agent: Any = create_agent(model, middleware=[GovernedTools(engine, user="ann")])
    await place_stop(environment.database, Stop(number=0, scope=StopScope.TOOL, name="add_task", reason="wrong"))
    ended = await agent.ainvoke(said("add bread"), THREAD)
    (answer,) = [message for message in ended["messages"] if isinstance(message, ToolMessage)]
    assert json.loads(answer.text)["error"] == "not sent: the operator has stopped this"
    assert server.sent == []
    (record,) = await environment.records()
    assert (await replay(record, await engine.audit.texts(list(record.header.digests.values())))).identical
