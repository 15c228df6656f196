"""Each surface says a call by its `Said`: the question, and what became of it."""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import graph_agent
from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.questions import GivenAnswer, Person
from graph_agent.cli.questions import text_of
from graph_agent.cli.show import print_answer, whole_action
from graph_agent.integrations.langchain import as_node
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import AgentDecision, PendingAction
from tests.chat.environment import Environment
from tests.chat.test_approval_notices import Receiver, notices_of, send_due
from tests.gateway.test_gateway import YES, User, add, connect, opened, value
from tests.integrations.langchain.chat_model import graph_with, said
from tests.integrations.test_agui import run, run_input, state_of
from tests.loan_desk import APPROVED, CONSTITUTION, EXTEND, LoanDesk, conditions
from tests.scripted_turns import calls

SENTENCE = "Delete task 'milk'"
DONE = f"Done: {SENTENCE}."


async def test_each_surface_of_the_runtime_says_a_call_by_its_sentence(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient], capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(environment.runtime()) as client:

        async def say(**body: Any) -> dict[str, Any]:
            answer: dict[str, Any] = (await client.post("/api/chat", json=body)).json()
            print_answer(AgentDecision.model_validate(answer["decision"]))
            return answer

        async def card(conversation: str) -> dict[str, Any]:
            page = (await client.get(f"/api/conversations/{conversation}")).json()
            [found] = [one["card"] for one in page["messages"] if one.get("card")]
            return dict(found)

        first = await say(content="add a task: milk")
        conversation = first["conversation_id"]
        asked = await say(content="delete the milk task", conversation_id=conversation)
        pending = PendingAction.model_validate(asked["decision"]["pending_action"])
        [waiting] = (await client.get("/api/questions")).json()["questions"]
        shown = await card(conversation)
        assert asked["reply"].startswith(f"{SENTENCE}. Should I go ahead?")
        assert (pending.description, waiting["title"], waiting["brief"]) == (SENTENCE,) * 3
        assert "".join(part["text"] for part in shown["calls"][0]["said"]["parts"]) == SENTENCE
        assert whole_action(pending).startswith(SENTENCE)
        done = await say(answers={"pending_action": pending.id, "yes": True})
        assert (done["reply"], done["decision"]["effects"]) == (DONE, [SENTENCE])
        after = await card(conversation)
        assert (after["state"], after["calls"][0]["said"]) == ("done", shown["calls"][0]["said"])
        printed = capsys.readouterr().out
        assert f"{SENTENCE}. Should I go ahead?" in printed
        assert f"{DONE}\n  ✓ {SENTENCE}\n" in printed
        saved = await client.post(f"/api/decisions/{done['decision_id']}/proof", json={})
        [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', saved.text, re.DOTALL)
        assert SENTENCE in base64.b64decode(json.loads(data)["record"]).decode()


async def test_an_interrupt_of_ag_ui_says_a_call_by_its_sentence(client: httpx.AsyncClient) -> None:
    first = state_of(await run(client, run_input("add a task: milk")))
    asked = (await run(client, run_input("delete the milk task", run_id="r2", state=first)))[-1]
    assert [one.message for one in asked.outcome.interrupts] == [SENTENCE]


async def test_an_elicitation_says_a_call_by_its_sentence(environment: Environment) -> None:
    user = User(YES)
    async with opened(environment) as (gateway, _), connect(gateway, "legacy", user) as client:
        await client.call_tool("delete_task", {"task_id": await add(client, "milk")})
    assert user.asked == [f"{SENTENCE}. Should I go ahead? Please answer yes or no."]


LOAN = "Extend 'camera' until 15 January 2027 for a fee of 2 at city 'Kiel', floor none by letter"
DETAILS = ("  Loan: 1", "  Loan record status now: 'open'")
WHOLE = "\n".join([LOAN, *DETAILS])
RAW = ("2027-01-15", "loan_record", "extend(", "{", "description", "=")
"""The notation of developers, of which a text for people has nothing."""
MANAGER = Person("bob", ("manager",))

Surface = Callable[[Environment, LoanDesk], AsyncGenerator[str]]


async def chat_asks(environment: Environment, desk: LoanDesk) -> AsyncGenerator[str]:
    asked = await environment.chat(conditions=conditions()).send("ann", "extend it")
    assert asked.decision.pending_action is not None
    yield asked.reply
    yield whole_action(asked.decision.pending_action)
    questions = environment.chat(conditions=conditions()).questions
    shown = await questions.view(asked.decision.pending_action.id, Person("ann"))
    yield text_of(shown)
    [listed] = (await questions.inbox(Person("ann"))).questions
    yield f"{listed.title}\n{listed.description}"
    del desk


async def elicitation(environment: Environment, desk: LoanDesk) -> AsyncGenerator[str]:
    user = User(YES)
    async with opened(environment, conditions=conditions()) as (gateway, _), connect(gateway, "legacy", user) as client:
        await client.call_tool(*EXTEND)
    assert desk.extended == 1
    yield user.asked[0]


async def question_status(environment: Environment, desk: LoanDesk) -> AsyncGenerator[str]:
    """While the call waits its client reads no word of it, and then what its user has read."""
    async with opened(environment, conditions=conditions()) as (gateway, runtime), connect(gateway, "auto") as client:
        waits = value(await client.call_tool(*EXTEND))
        status = value(await client.call_tool("question_status", {"id": waits["id"]}))
        assert not any(word in text for text in (waits["error"], status["error"]) for word in ("camera", *RAW))
        [listed] = (await runtime.chat.questions.inbox(Person("ann"))).questions
        given = GivenAnswer(yes=False, digest=listed.digest)
        await runtime.chat.questions.answer(listed.id, Person("ann"), given)
        ended = value(await client.call_tool("question_status", {"id": waits["id"]}))
        assert ended["error"] == "OK, I won't do that. Nothing was changed."
    assert desk.extended == 0
    approved = conditions(APPROVED, roles=("manager",))
    async with opened(environment, conditions=approved) as (gateway, _), connect(gateway, "auto", User(YES)) as client:
        requested = value(await client.call_tool(*EXTEND))
        yield requested["error"]


async def interrupt_of_ag_ui(environment: Environment, desk: LoanDesk) -> AsyncGenerator[str]:
    del desk
    transport = httpx.ASGITransport(create_app(environment.runtime(conditions=conditions())))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        events = await run(client, run_input("extend it"))
    yield "\n".join(one.message for one in events[-1].outcome.interrupts)
    yield "".join(event.delta for event in events if event.type == "TEXT_MESSAGE_CONTENT")


async def interrupt_of_langgraph(environment: Environment, desk: LoanDesk) -> AsyncGenerator[str]:
    del desk
    graph = graph_with(as_node(environment.engine(conditions=conditions()), user="ann"))
    [asked] = (await graph.ainvoke(said("extend it"), {"configurable": {"thread_id": "1"}}))["__interrupt__"]
    yield asked.value["question"]


async def request_for_approval(environment: Environment, desk: LoanDesk) -> AsyncGenerator[str]:
    """The reply to the requester, the card, the line of the list, and the notice of a webhook."""
    rules = conditions(APPROVED, roles=("manager",))
    environment.constitution = CONSTITUTION.replace("(requires confirmation)", "(without confirmation)")
    asked = await environment.chat(conditions=rules).send("ann", "extend it")
    assert asked.decision.approval is not None, desk
    yield asked.reply.partition("This waits for")[0]
    chat = environment.chat(conditions=rules)
    view = await chat.questions.view(asked.decision.approval.id, MANAGER)
    yield f"{view.title}\n{view.description}"
    receiver = Receiver()
    async with receiver.url() as url:
        assert await send_due(environment, notices_of(environment, url, texts=True))
    [(_, body)] = receiver.posted
    yield str(json.loads(body)["data"]["description"])


SURFACES: tuple[Surface, ...] = (
    chat_asks,
    elicitation,
    question_status,
    interrupt_of_ag_ui,
    interrupt_of_langgraph,
    request_for_approval,
)


@pytest.mark.parametrize("surface", SURFACES, ids=lambda one: one.__name__)
async def test_a_surface_says_of_a_call_its_sentence_and_its_details_and_nothing_else(
    environment: Environment, surface: Surface
) -> None:
    desk = LoanDesk()
    environment.tools = desk  # type: ignore[assignment]  # a server in place of the group of them
    environment.constitution, environment.model = CONSTITUTION, lambda: ScriptedAdapter([calls(EXTEND)] * 3)
    texts = [text async for text in surface(environment, desk)]
    assert texts
    for text in texts:
        assert LOAN in text, text
        assert [line for line in DETAILS if line not in text] == [], text
        assert [one for one in RAW if one in text] == [], text


TITLES = {
    # The list of tools, a draft of a line, and the progress of a call whose arguments are shown beside it.
    *("api/rules.py", "cli/tools.py", "gateway/server.py", "turn/events.py"),
    # An MCP server has titles, and no sentences.
    "testing/desk_server.py",
    *("tools/plain_executor.py", "policy/compiled.py", "policy/tool_rule.py", "policy/constitution.py", "policy/plan_check.py"),
}


def test_no_surface_composes_the_words_of_a_call_from_the_title_of_its_tool() -> None:
    package = Path(graph_agent.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr == "title"
        and isinstance(node.value, ast.Name | ast.Attribute)
        and ast.unparse(node.value).rpartition(".")[2] in ("rule", "grant", "traits")
    }
    assert {one for one in found if not one.startswith("words/")} <= TITLES
