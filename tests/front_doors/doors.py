"""The front doors: each asks Ann whether a task of hers is to be deleted, or others whether one is to be added.

Every door takes the answers of people, and returns what the person is told, as a text, also if it is an error.
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
from langgraph.types import Command
from mcp import MCPError
from mcp.types import InputRequiredResult

from graph_agent.agent_service import AgentResponse, AgentServices
from graph_agent.agent_service.run import AgentRequest, converse
from graph_agent.api.app import create_app
from graph_agent.bootstrap.secret import launch_token
from graph_agent.chat.questions import GivenAnswer, Person
from graph_agent.chat.service import ChatService
from graph_agent.errors import ServiceError
from graph_agent.gateway.server import Gateway
from graph_agent.integrations.langchain import GovernedTools, as_node
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import ConfirmationAnswer, ShownQuestion
from graph_agent.models.llm import FunctionCall
from graph_agent.policy.cedar.conditions import ConditionsFile
from tests import fork_server
from tests.agent_service.environment import at
from tests.agent_service.environment import said as said_by_user
from tests.api.test_approvals import SIGN_IN, headers
from tests.chat.environment import Environment
from tests.chat.test_approvals import requests_of
from tests.gateway.test_gateway import NO, PAGE, YES, User, connect, value
from tests.integrations.langchain.chat_model import ScriptedChatModel, graph_with, requests, said
from tests.permission import permitted

TASK = "call mom"


class FrontDoor:
    """A question of Ann's or about a call of hers, and the place where people answer it.

    Without another door they answer at the same one, and others approve in a program.
    """

    has_clock: ClassVar[bool] = True
    """False if its processes have the real clock."""
    late: ClassVar[str] = "expired"
    """The word by which the user of a late yes is told that it did nothing."""
    done: ClassVar[str] = f"Add task '{TASK}'"
    """The words by which Ann reads that what she requested was done."""
    question: str = ""
    """The id of the question."""
    conversation: str

    def __init__(self, environment: Environment, conditions: ConditionsFile | None = None) -> None:
        self.environment = environment
        self.conditions = conditions

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        yield

    async def ask(self) -> None:
        """Ask Ann whether her task is to be deleted."""
        added = await self.environment.tools.execute(permitted("add_task", {"description": TASK}, "ann", "adds"))
        assert added.success
        await self.ask_about(f"delete the {TASK} task", "delete_task", {"task_id": await self.environment.task_id(TASK)})

    async def ask_others(self) -> None:
        """Ask for the approval of a task that Ann adds."""
        await self.ask_about(f"add a task to {TASK}", "add_task", {"description": TASK})

    async def ask_about(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        await self.request(text, tool_name, arguments)
        # The gateway also records that its client was shown what the question says.
        for asked in await self.environment.records():
            if (question := asked.decision.pending_action or asked.decision.approval) is not None:
                self.question, self.conversation = question.id, asked.header.context.conversation_id
        assert self.question

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        """Request a call as Ann, in words or by its name."""
        raise NotImplementedError

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        """Answer the question to Ann as a user, and return what the user is told."""
        raise NotImplementedError

    async def answer_elsewhere(self) -> str:
        """Say yes as Ann at another door."""
        return await self.answer(yes=True)

    async def approve(self, *, yes: bool = True, user: str = "bob", role: str = "manager") -> str:
        """Answer the question to others as a user with a role, and return what the user is told."""
        chat, given = self.environment.chat(conditions=self.conditions), GivenAnswer(yes=yes, **await self._evidence(yes=yes))
        try:
            await chat.questions.answer(self.question, Person(user, (role,)), given)
        except ServiceError as exc:
            return exc.message
        await requests_of(chat).closings()
        return str((await chat.questions.view(self.question, Person("bob", ("manager",)))).state)

    async def approve_elsewhere(self) -> str:
        """Approve as Carol in a program."""
        return await FrontDoor.approve(self, user="carol")

    async def _evidence(self, *, yes: bool) -> dict[str, Any]:
        shown = await self.environment.chat(conditions=self.conditions).questions.view(
            self.question, Person("bob", ("manager",))
        )
        return {"digest": shown.digest, "identity": ApproverIdentity.TOKEN, "reason": "" if yes else "not now"}

    async def read(self) -> str:
        """Return what Ann reads here about what became of her request; without another door in a program."""
        return str((await self.environment.chat(conditions=self.conditions).questions.view(self.question, Person("ann"))).state)


class InChat(FrontDoor):
    """The chat of a program: the id of the question says what is answered."""

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        del text
        await self._chat().call("ann", [FunctionCall(tool_name, arguments)])

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        return await self._told(user, answers=ConfirmationAnswer(pending_action=self.question, yes=yes))

    async def answer_elsewhere(self) -> str:
        return await self._told("ann", answers=ConfirmationAnswer(pending_action=self.question, yes=True))

    async def read(self) -> str:
        return (await self._chat().conversation("ann", self.conversation)).messages[-1].content

    async def _told(self, user: str, content: str | None = None, **fields: Any) -> str:
        try:
            return (await self._chat().send(user, content, **fields)).reply
        except ServiceError as exc:
            return exc.message

    def _chat(self) -> ChatService:
        return self.environment.chat(conditions=self.conditions)


class Typed(InChat):
    """A message that is typed below the question."""

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        shown = ShownQuestion(pending_action=self.question)
        return await self._told(user, "yes" if yes else "no", conversation_id=self.conversation, shown=shown)


class OverHttp(InChat):
    """The API, as the inbox of the page uses it."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        self.runtime = self.environment.runtime(settings=SIGN_IN, conditions=self.conditions)
        transport = httpx.ASGITransport(create_app(self.runtime))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as self.http:
            yield

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        del tool_name, arguments
        (await self.http.post("/api/chat", json={"content": text}, headers=headers("ann"))).raise_for_status()

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        answered = await self._answer(headers("ann"), headers(user), yes=yes)
        return str(answered["error"]["message"] if "error" in answered else answered["reply"]["reply"])

    async def approve(self, *, yes: bool = True, user: str = "bob", role: str = "manager") -> str:
        given = {} if yes else {"reason": "not now"}
        answered = await self._answer(headers("bob", "manager"), headers(user, role), yes=yes, **given)
        await requests_of(self.runtime.chat).closings()
        return str(answered["error"]["message"] if "error" in answered else answered["question"]["state"])

    async def _answer(self, reader: dict[str, str], writer: dict[str, str], **given: Any) -> dict[str, Any]:
        path = f"/api/questions/{self.question}"
        digest = (await self.http.get(path, headers=reader)).json()["digest"]
        answered: dict[str, Any] = (
            await self.http.post(f"{path}/answer", json={"digest": digest, **given}, headers=writer)
        ).json()
        return answered

    async def read(self) -> str:
        return (await self.http.get(f"/api/conversations/{self.conversation}", headers=headers("ann"))).text


class AgUi(OverHttp):
    """A front end that speaks AG-UI: it resumes an interrupted run. What ends later it reads over HTTP."""

    runs = 0

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        del tool_name, arguments
        await self._run("ann", messages=[{"id": "m1", "role": "user", "content": text}])

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        resumed = [{"interruptId": self.question, "status": "resolved", "payload": {"yes": yes}}]
        return await self._run(user, state={"conversation_id": self.conversation}, messages=[], resume=resumed)

    async def _run(self, user: str, **given: Any) -> str:
        self.runs += 1
        run = {"threadId": "t1", "runId": f"r{self.runs}", "state": {}, "tools": [], "context": [], **given}
        return (await self.http.post("/agui", json=run, headers=headers(user, "manager"))).text


class AgentService(FrontDoor):
    """A program that keeps the messages of its conversation itself: an answer is the next message."""

    done = "approved"

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        del tool_name, arguments
        self.messages = (await self._run([said_by_user(text)], "ann")).messages

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        return (await self._run([*self.messages, said_by_user("yes" if yes else "no")], user)).final_response or ""

    async def _run(self, messages: list[Any], user: str) -> AgentResponse:
        engine = self.environment.engine(conditions=self.conditions)
        services = AgentServices(engine.constitution.text, self.environment.tools, engine.ports, conditions=self.conditions)
        return await converse(services, self.environment.model(), AgentRequest(messages, user, at("http://127.0.0.1:9/")))


class McpClient(InChat):
    """A client of the gateway, which shows a form and sends the call again with what its user did."""

    done = f"'preview': '{TASK}'"

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        runtime = self.environment.runtime(conditions=self.conditions)
        self.gateways = {
            user: Gateway(runtime.engine, runtime.chat, user_id=user, page=PAGE, announce=lambda _: None)
            for user in ("ann", "bob")
        }
        async with self.gateways["ann"].maintained():
            yield

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        del text
        self.call = (tool_name, arguments)
        async with connect(self.gateways["ann"], "auto", User()) as client:
            self.asked = await client.session.call_tool(tool_name, arguments, allow_input_required=True)

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        if isinstance(self.asked, InputRequiredResult):
            forms, state = tuple(self.asked.input_requests or ()), self.asked.request_state
        else:
            # Nobody was asked anything: the client makes its answer up.
            forms, state = ("confirmation",), json.dumps(self.question)
        responses: Any = dict.fromkeys(forms, YES if yes else NO)
        async with connect(self.gateways[user], "auto", User()) as client:
            try:
                told = await client.session.call_tool(
                    *self.call, request_state=state, input_responses=responses, allow_input_required=True
                )
            except MCPError as exc:
                return str(exc)
        return told.model_dump_json()

    async def read(self) -> str:
        assert not isinstance(self.asked, InputRequiredResult)
        async with connect(self.gateways["ann"], "auto") as client:
            told = await client.call_tool("question_status", {"id": value(self.asked)["id"]})
        return str(value(told))


class CommandLine(FrontDoor):
    """The commands of `graph-agent`, each in a process of its own."""

    has_clock = False

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        del tool_name, arguments
        await self._run("ask", text, "--user", "ann")

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        return await self._answer("--yes" if yes else "--no", "--user", user)

    async def approve(self, *, yes: bool = True, user: str = "bob", role: str = "manager") -> str:
        return await self._answer(*(("--yes",) if yes else ("--no", "--reason", "not now")), "--user", user, "--role", role)

    async def approve_elsewhere(self) -> str:
        # In another process: a program of the tests has not the keys of an installation.
        return await self.approve(user="carol")

    async def read(self) -> str:
        return await self._run("questions", "show", self.question, "--user", "ann")

    async def _answer(self, *given: str) -> str:
        launch_token(self.environment.settings)
        token = str(self.environment.settings.home / "authorization")
        return await self._run("questions", "answer", self.question, *given, "--token-file", token)

    async def _run(self, *arguments: str) -> str:
        own = {name: value for name, value in os.environ.items() if not name.startswith("GRAPH_AGENT")}
        home = self.environment.settings.home
        if self.conditions is not None:
            (home / "policy.cedar").write_text(self.conditions.text)
            own |= {"GRAPH_AGENT_CONDITIONS": str(home / "policy.cedar"), "GRAPH_AGENT_ROLES": "groups=finance,manager"}
        process = await asyncio.create_subprocess_exec(
            fork_server.graph_agent(),
            *arguments,
            env={**own, "GRAPH_AGENT_HOME": str(home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return (out or err).decode()


class Graph(FrontDoor):
    """A graph of LangGraph, whose interrupt is resumed at the checkpoint that asked. After a late yes it asks anew."""

    late = "Should I go ahead?"

    async def request(self, text: str, tool_name: str, arguments: dict[str, Any]) -> None:
        self.graph = self._compiled((tool_name, arguments))
        asked = await self.graph.ainvoke(said(text), _as("ann"))
        [self.interrupt] = asked["__interrupt__"]
        self.asked_at = (await self.graph.aget_state(_as("ann"))).config["configurable"]

    def _compiled(self, call: tuple[str, dict[str, Any]]) -> Any:
        del call
        return graph_with(as_node(self.environment.engine(conditions=self.conditions), user=_caller, roles=["manager"]))

    async def answer(self, *, yes: bool, user: str = "ann") -> str:
        return await self._resume({"pending_action": self.question, "yes": yes}, user)

    async def read(self) -> str:
        return await self._resume(True, "ann")

    async def _resume(self, given: Any, user: str) -> str:
        at: RunnableConfig = {"configurable": {**self.asked_at, "caller": user}}
        ended = await self.graph.ainvoke(Command(resume={self.interrupt.id: given}), at)
        again = ended.get("__interrupt__")
        return str(again[0].value) if again else "\n".join(message.text for message in ended["messages"])

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

    done = f'"preview": "{TASK}"'

    def _compiled(self, call: tuple[str, dict[str, Any]]) -> Any:
        model = ScriptedChatModel(script=[requests(call), *[AIMessage("That is the result.")] * 9])
        governed = GovernedTools(self.environment.engine(conditions=self.conditions), user=_caller, roles=["manager"])
        return create_agent(model, middleware=[governed], checkpointer=InMemorySaver())


def _caller(config: RunnableConfig) -> str:
    return str(config["configurable"]["caller"])


def _as(user: str) -> RunnableConfig:
    return {"configurable": {"thread_id": "1", "caller": user}}


DOORS: tuple[type[FrontDoor], ...] = (
    InChat,
    Typed,
    OverHttp,
    AgUi,
    AgentService,
    McpClient,
    CommandLine,
    Graph,
    Middleware,
)

APPROVING_DOORS: tuple[type[FrontDoor], ...] = (InChat, OverHttp, CommandLine)
"""The doors at which others answer; that of a program is its service of questions."""

WITHOUT_APPROVALS: dict[type[FrontDoor], str] = {
    Typed: "nobody approves by a word: an approval names the digest of what was read",
    AgUi: "a run has the conversation of its user, and the request is in no other; its front end uses the API",
    AgentService: "a program runs it with the messages of one user; it approves through the service of questions",
    McpClient: "a client calls tools for one user; `question_status` tells its user what became of the request",
    Graph: "a task is resumed by whoever runs the graph, which proves nobody: it only looks again",
    Middleware: "as in a graph: a resume only looks again",
}
"""The doors at which nobody can approve, each with the reason."""
