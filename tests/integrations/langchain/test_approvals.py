"""Approval by another person in a graph of LangGraph: an interrupt, whose resume only makes the graph look again."""

from __future__ import annotations

import json
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graph_agent.chat.approvals import ApprovalService
from graph_agent.integrations.langchain import GovernedTools
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.approval import ApproverIdentity
from graph_agent.turn.engine import LLMAgentEngine
from tests.chat.environment import Environment
from tests.chat.test_approvals import rules
from tests.integrations.langchain.chat_model import THREAD, ScriptedChatModel, requests, said
from tests.scripted_turns import TableServer

ADD = ("add_task", {"description": "bread"})


async def approve(engine: LLMAgentEngine, request_id: str, *, yes: bool = True) -> None:
    """Answer in another process."""
    service = ApprovalService.of_engine(engine)
    assert service is not None
    digest = (await service.view(request_id, "bob", ["manager"])).digest
    given: dict[str, Any] = {"digest": digest, "identity": ApproverIdentity.TOKEN, "reason": "" if yes else "no"}
    await service.answer(request_id, "bob", ["manager"], approve=yes, **given)
    await service.closings()


async def test_a_resume_of_an_old_checkpoint_after_the_end_makes_nothing_again(environment: Environment) -> None:
    """Whoever resumes the interrupt once more, or goes back to its checkpoint, reads the same closing decision."""
    server = TableServer()
    engine = environment.engine(ScriptedAdapter([]), tools=server, conditions=rules())
    model = ScriptedChatModel(script=[requests(ADD), *[AIMessage("Added.")] * 3])
    agent: Any = create_agent(model, middleware=[GovernedTools(engine, user="ann")], checkpointer=InMemorySaver())
    (waits,) = (await agent.ainvoke(said("add bread"), THREAD))["__interrupt__"]
    waiting = (await agent.aget_state(THREAD)).config
    await approve(engine, waits.value["approval"])
    await agent.ainvoke(Command(resume=True), THREAD)
    for config in (THREAD, waiting, waiting):
        ended = await agent.ainvoke(Command(resume={"approval": waits.value["approval"], "yes": True}), config)
        assert "__interrupt__" not in ended
        (answer,) = [message for message in ended["messages"] if isinstance(message, ToolMessage)]
        assert json.loads(answer.text)["success"]
        assert [name for name, *_ in server.sent] == ["add_task"]
