"""Each surface says a call by its `Said`: the question, and what became of it."""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import graph_agent
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.cli.show import print_answer, whole_action
from graph_agent.models.decision import AgentDecision, PendingAction
from tests.chat.environment import Environment
from tests.gateway.test_gateway import YES, User, add, connect, opened
from tests.integrations.test_agui import run, run_input, state_of

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


TITLES = {
    # The list of tools, a draft of a line, and the progress of a call whose arguments are shown beside it.
    *("api/rules.py", "cli/tools.py", "gateway/server.py", "turn/events.py"),
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
