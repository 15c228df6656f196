"""The front doors: each asks Ann whether a task of hers is to be deleted, and takes the answers of people.

Every door returns what the person is told, as a text, also if it is an error.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from mcp import MCPError
from mcp.types import InputRequiredResult

from graph_agent.api.app import create_app
from graph_agent.bootstrap.secret import launch_token
from graph_agent.chat.questions import GivenAnswer, Person
from graph_agent.chat.service import ChatService
from graph_agent.errors import ServiceError
from graph_agent.gateway.server import Gateway
from graph_agent.integrations.langchain import GovernedTools, as_node
from graph_agent.models.decision import ConfirmationAnswer, PendingAction, ShownQuestion
from graph_agent.models.llm import FunctionCall
from tests import fork_server
from tests.api.test_approvals import SIGN_IN, headers
from tests.chat.environment import Environment
from tests.gateway.test_gateway import NO, PAGE, YES, User, connect
from tests.integrations.langchain.chat_model import ScriptedChatModel, graph_with, requests, resume, said
from tests.permission import permitted

TASK = "call mom"


class FrontDoor:
    """A question of Ann's, and the place where people answer it. Without another door they answer at the same one."""

    has_clock: ClassVar[bool] = True
    """False if its processes have the real clock."""
    late: ClassVar[str] = "expired"
    """The word by which the user of a late yes is told that it did nothing."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        yield

    async def ask(self) -> None:
        """Ask Ann."""
        raise NotImplementedError

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        """Answer as a user, and return what the user is told."""
        raise NotImplementedError

    async def answer_elsewhere(self) -> str:
        """Say yes as Ann at another door."""
        return await self.answer(yes=True)

    async def have_task(self) -> str:
        added = await self.environment.tools.execute(permitted("add_task", {"description": TASK}, "ann", "adds"))
        assert added.success
        return await self.environment.task_id(TASK)


class InChat(FrontDoor):
    """The chat of a program: the id of the question says what is answered."""

    chat: ChatService
    pending: PendingAction
    conversation: str

    async def ask(self) -> None:
        self.chat = self.environment.chat()
        asked = await self.chat.call("ann", [FunctionCall("delete_task", {"task_id": await self.have_task()})])
        assert asked.decision.pending_action is not None
        self.pending, self.conversation = asked.decision.pending_action, asked.conversation_id

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        return await self._told(user, answers=ConfirmationAnswer(pending_action=self.pending.id, yes=yes))

    async def answer_elsewhere(self) -> str:
        answers = ConfirmationAnswer(pending_action=self.pending.id, yes=True)
        return await self._told("ann", answers=answers)

    async def _told(self, user: str, content: str | None = None, **fields: Any) -> str:
        try:
            return (await self.environment.chat().send(user, content, **fields)).reply
        except ServiceError as exc:
            return exc.message


class Typed(InChat):
    """A message that is typed below the question."""

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        shown = ShownQuestion(pending_action=self.pending.id)
        return await self._told(user, "yes" if yes else "no", conversation_id=self.conversation, shown=shown)


class OverHttp(InChat):
    """The API, as the inbox of the page uses it."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        app = create_app(self.environment.runtime(settings=SIGN_IN))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as self.http:
            yield

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        path = f"/api/questions/{self.pending.id}"
        shown = await self.http.get(path, headers=headers("ann"))
        answer = {"yes": yes, "digest": shown.json()["digest"]}
        answered = (await self.http.post(f"{path}/answer", json=answer, headers=headers(user))).json()
        return str(answered["error"]["message"] if "error" in answered else answered["reply"]["reply"])


class AgUi(OverHttp):
    """A front end that speaks AG-UI: it resumes an interrupted run."""

    runs = 0

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        self.runs += 1
        resumed = [{"interruptId": self.pending.id, "status": "resolved", "payload": {"yes": yes}}]
        state = {"conversation_id": self.conversation}
        run = {"threadId": "t1", "runId": f"r{self.runs}", "state": state, "messages": [], "tools": [], "context": []}
        return (await self.http.post("/agui", json={**run, "resume": resumed}, headers=headers(user))).text


class McpClient(InChat):
    """A client of the gateway, which shows a form and sends the call again with what its user did."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        runtime = self.environment.runtime()
        self.gateways = {
            user: Gateway(runtime.engine, runtime.chat, user_id=user, page=PAGE, announce=lambda _: None)
            for user in ("ann", "bob")
        }
        async with self.gateways["ann"].maintained():
            yield

    async def ask(self) -> None:
        self.arguments = {"task_id": await self.have_task()}
        async with connect(self.gateways["ann"], "auto", User()) as client:
            asked = await client.session.call_tool("delete_task", self.arguments, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        self.asked = asked
        decided = [one.decision for one in await self.environment.records()]
        [self.pending] = [one.pending_action for one in decided if one.pending_action is not None]

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        responses: Any = dict.fromkeys(self.asked.input_requests or (), YES if yes else NO)
        async with connect(self.gateways[user], "auto", User()) as client:
            try:
                told = await client.session.call_tool(
                    "delete_task", self.arguments, request_state=self.asked.request_state, input_responses=responses
                )
            except MCPError as exc:
                return str(exc)
        return told.model_dump_json()


class CommandLine(FrontDoor):
    """The commands of `graph-agent`, each in a process of its own."""

    has_clock = False

    async def ask(self) -> None:
        await self._run("ask", f"add a task to {TASK}", "--user", "ann")
        asked = await self._run("ask", f"delete the {TASK} task", "--user", "ann", "--json")
        self.pending_id = json.loads(asked)["decision"]["pending_action"]["id"]

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        launch_token(self.environment.settings)
        token = str(self.environment.settings.home / "authorization")
        answer = "--yes" if yes else "--no"
        return await self._run("questions", "answer", self.pending_id, answer, "--user", user, "--token-file", token)

    async def _run(self, *arguments: str) -> str:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GRAPH_AGENT")}
        home = str(self.environment.settings.home)
        process = await asyncio.create_subprocess_exec(
            fork_server.graph_agent(),
            *arguments,
            env={**own, "GRAPH_AGENT_HOME": home},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return (out or err).decode()


class Graph(FrontDoor):
    """A graph of LangGraph, whose interrupt is resumed at the checkpoint that asked. After a late yes it asks anew."""

    late = "Should I go ahead?"

    async def ask(self) -> None:
        await self.have_task()
        self.graph = self._compiled()
        asked = await self.graph.ainvoke(said(f"delete the {TASK} task"), _as("ann"))
        [self.interrupt] = asked["__interrupt__"]
        self.asked_at = (await self.graph.aget_state(_as("ann"))).config["configurable"]

    def _compiled(self) -> Any:
        return graph_with(as_node(self.environment.engine(), user=_caller))

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        at: RunnableConfig = {"configurable": {**self.asked_at, "caller": user}}
        ended = await self.graph.ainvoke(resume(self.interrupt, yes), at)
        again = ended.get("__interrupt__")
        return str(again[0].value["question"] if again else ended["messages"][-1].text)

    async def answer_elsewhere(self) -> str:
        questions, ann = self.environment.chat().questions, Person("ann")
        [waiting] = (await questions.inbox(ann)).questions
        try:
            answered = await questions.answer(waiting.id, ann, GivenAnswer(yes=True, digest=waiting.digest))
        except ServiceError as exc:
            return exc.message
        return "" if answered.reply is None else answered.reply.reply


class Middleware(Graph):
    """An agent of LangChain whose calls the middleware governs."""

    async def ask(self) -> None:
        self.call = requests(("delete_task", {"task_id": await self.have_task()}))
        self.graph = self._compiled()
        asked = await self.graph.ainvoke(said(f"delete the {TASK} task"), _as("ann"))
        [self.interrupt] = asked["__interrupt__"]
        self.asked_at = (await self.graph.aget_state(_as("ann"))).config["configurable"]

    def _compiled(self) -> Any:
        model = ScriptedChatModel(script=[self.call, *[AIMessage("That is the result.")] * 9])
        return create_agent(
            model, middleware=[GovernedTools(self.environment.engine(), user=_caller)], checkpointer=InMemorySaver()
        )

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        at: RunnableConfig = {"configurable": {**self.asked_at, "caller": user}}
        ended = await self.graph.ainvoke(resume(self.interrupt, yes), at)
        again = ended.get("__interrupt__")
        return str(again[0].value["question"] if again else [message.text for message in ended["messages"]])


def _caller(config: RunnableConfig) -> str:
    return str(config["configurable"]["caller"])


def _as(user: str) -> RunnableConfig:
    return {"configurable": {"thread_id": "1", "caller": user}}


DOORS: tuple[type[FrontDoor], ...] = (
    InChat,
    Typed,
    OverHttp,
    AgUi,
    McpClient,
    CommandLine,
    Graph,
    Middleware,
)
