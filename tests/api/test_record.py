"""The record over HTTP: users read their own decisions, an auditor reads all."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import jwt
import pytest
from pydantic import SecretStr

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import LLMError
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import LLMErrorCause, LLMResponse
from graph_agent.models.record import DecisionOpening
from graph_agent.policy.constitution import Constitution
from graph_agent.reply.causes import CAUSES
from graph_agent.testing import says
from tests.chat.environment import Environment
from tests.scripted_turns import calls

SECRET = "a secret of sixty-four bytes or more, so that no algorithm complains of it"
Served = Callable[[Runtime], httpx.AsyncClient]


def headers(user: str, role: str | None = None, **more: Any) -> dict[str, str]:
    claims = {"sub": user, "aud": "graph-agent", "exp": int(time.time()) + 86_400, "roles": [role] if role else [], **more}
    return {"authorization": f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"}


@pytest.fixture
def guarded(environment: Environment, served: Served) -> httpx.AsyncClient:
    """A client of an API that requires bearer tokens."""
    settings = {
        "jwt_secret": SecretStr(SECRET),
        "jwt_audience": "graph-agent",
        "auditor_claim": "roles=auditor",
        "auditors": ("auditing@example.org",),
        "secret": SecretStr("signs confirmations, and is long enough"),
    }
    return served(environment.runtime(settings=settings))


async def said(client: httpx.AsyncClient, content: str, **more: Any) -> str:
    answer = await client.post("/api/chat", json={"content": content}, **more)
    return str(answer.json()["decision_id"])


@pytest.mark.parametrize(("answer", "type_"), [("yes", "EXECUTE_PENDING"), ("no", "CANCEL_PENDING")])
async def test_a_typed_answer_is_listed_with_the_action_that_it_is_about(
    client: httpx.AsyncClient, environment: Environment, answer: str, type_: str
) -> None:
    await said(client, "add a task to call mom")
    asked = (await client.post("/api/chat", json={"content": "delete call mom"})).json()
    await client.post("/api/chat", json={"content": answer, "conversation_id": asked["conversation_id"]})
    listed = (await client.get("/api/decisions")).json()["items"]
    ending = "done" if answer == "yes" else "declined"
    assert [(item["decision_type"], item["title"], item["ending"]) for item in listed] == [
        (type_, "Delete task 'call mom'", ending),
        ("REQUEST_CONFIRMATION", "Delete task 'call mom'", "asked first"),
        ("INVOKE_TOOL", "add a task to call mom", "done"),
    ]
    together = (await client.get("/api/decisions", params={"together": True})).json()
    assert (together["total"], [item["decision_type"] for item in together["items"]]) == (2, [type_, "INVOKE_TOOL"])
    # A row that was changed by hand is still listed.
    await environment.database.write(lambda connection: connection.exec_driver_sql("UPDATE decision_logs SET header = '{'"))
    titles = [item["title"] for item in (await client.get("/api/decisions")).json()["items"]]
    assert titles == [answer, "delete call mom", "add a task to call mom"]


async def test_decisions_are_listed_newest_first_by_filter(client: httpx.AsyncClient) -> None:
    first, second = await said(client, "add a task to call mom"), await said(client, "what's the weather?")
    page = (await client.get("/api/decisions")).json()
    assert [item["decision_id"] for item in page["items"]] == [second, first]
    assert {name: page[name] for name in page if name != "items"} == {
        "total": 2,
        "total_is_exact": True,
        "limit": 100,
        "offset": 0,
        "has_more": False,
    }
    refused = (await client.get("/api/decisions", params={"outcome": "REFUSAL", "limit": 1})).json()
    assert [item["decision_id"] for item in refused["items"]] == [second]
    assert (await client.get("/api/decisions", params={"since": "2100-01-01T00:00:00Z"})).json()["total"] == 0


async def test_a_turn_with_refused_calls_is_found_whatever_its_outcome(environment: Environment, served: Served) -> None:
    requests = calls(("add_task", {"description": "call mom"}), ("drop_database", {}), ("list_tasks", {"user_id": "bob"}))
    with ScriptedAdapter([requests, says("Added."), says("Hello.")]) as model:
        client = served(environment.runtime(model))
        first, second = await said(client, "add a task"), await said(client, "hello")
    listed = (await client.get("/api/decisions")).json()["items"]
    assert [(item["decision_id"], item["refused_calls"]) for item in listed] == [(second, 0), (first, 2)]
    for refused, found in (("true", first), ("false", second)):
        page = (await client.get("/api/decisions", params={"refused": refused})).json()
        assert ([item["decision_id"] for item in page["items"]], page["total"]) == ([found], 1)
    [item] = (await client.get("/api/decisions", params={"refused": "true"})).json()["items"]
    assert item["outcome_category"] == "SUCCESS:TASK_COMPLETED"
    # The tools of the model do not all exist; no condition refused the first refused call.
    assert (item["tools"], item["changed"], item["refused_by"]) == (["add_task", "drop_database", "list_tasks"], True, None)
    tools = (await client.get("/api/metrics")).json()["tools"]
    assert {name: (tool["calls"], tool["executed"], tool["refused"]) for name, tool in tools.items()} == {
        "add_task": (1, 1, 0),
        "drop_database": (1, 0, 1),
        "list_tasks": (1, 0, 1),
    }
    notices = (await client.get(f"/api/decisions/{first}")).json()["result"]["notices"]
    assert notices == [
        "Not done: 1 action. Not in the constitution.",
        "Not done: list tasks (user 'bob'). Only your own data can be used.",
    ]


async def test_a_decision_has_its_calls(client: httpx.AsyncClient) -> None:
    decision_id = await said(client, "add a task to call mom")
    decision = (await client.get(f"/api/decisions/{decision_id}")).json()
    assert (decision["message"], decision["outcome_category"]) == ("add a task to call mom", "SUCCESS:TASK_COMPLETED")
    assert [call["tool_name"] for call in decision["tool_invocations"]] == ["add_task"]
    assert [call["finish_reason"] for call in decision["llm_calls"]] == ["tool_calls", "tool_calls"]
    assert decision["cause"] is None


async def test_a_decision_whose_model_failed_has_the_cause_and_no_text_of_the_adapter(
    environment: Environment, served: Served
) -> None:
    own_text = LLMResponse(finish_reason="error", error="key sk-123 refused at 10.0.0.7")
    refused = LLMError(cause=LLMErrorCause.KEY_REFUSED)
    with ScriptedAdapter([own_text, refused]) as model:
        client = served(environment.runtime(model))
        first, second = await said(client, "hi"), await said(client, "hi")
    answers = [await client.get(f"/api/decisions/{decision_id}") for decision_id in (first, second)]
    causes = [answer.json()["cause"] for answer in answers]
    assert causes == [CAUSES[code].to_json() for code in (LLMErrorCause.UNAVAILABLE, LLMErrorCause.KEY_REFUSED)]
    assert "sk-123" not in answers[0].text + (await client.get(f"/api/decisions/{first}/states")).text
    assert answers[0].json()["llm_calls"][0]["error"] == "UNAVAILABLE"


async def test_the_states_of_a_decision_have_requests_responses_and_the_outcome_of_calls(client: httpx.AsyncClient) -> None:
    decision_id = await said(client, "add a task to call mom")
    states = (await client.get(f"/api/decisions/{decision_id}/states")).json()
    decision = (await client.get(f"/api/decisions/{decision_id}")).json()
    assert [one["state"] for one in states] == decision["states"]
    first, second = [one for one in states if one["state"] == "INVOKE_LLM"]
    request = first["request"]
    assert [(one["role"], one["content"]) for one in request["messages"]] == [("user", "add a task to call mom")]
    assert [one["role"] for one in second["request"]["messages"]] == ["user", "assistant", "function"]
    assert {"add_task", "delete_task", "answer", "ask_user", "decline"} <= set(request["tools"])
    assert (request["tool_choice"], request["system_digest"]) == ("required", Constitution.load(None).digest)
    assert Constitution.load(None).text.startswith(request["system_instruction"])
    assert [one["name"] for one in first["response"]["function_calls"]] == ["add_task"]
    assert (first["duration_ms"], second["duration_ms"]) == tuple(one["duration_ms"] for one in decision["llm_calls"])
    [executed] = [one for one in states if one["calls"]]
    [call], [logged] = executed["calls"], decision["tool_invocations"]
    assert executed["state"] == "EXECUTE_TOOLS"
    assert (call["verdict"], call["ledger"], call["reason"], call["success"]) == ("permitted", "done_once", None, True)
    assert {name: call[name] for name in ("tool_name", "result", "duration_ms")} == {
        name: logged[name] for name in ("tool_name", "result", "duration_ms")
    }


async def test_an_open_or_unknown_decision_has_no_states(environment: Environment, client: httpx.AsyncClient) -> None:
    unknown = await client.get("/api/decisions/00000000-0000-4000-8000-000000000000/states")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "DECISION_NOT_FOUND")
    engine = environment.engine()
    context = DecisionContext(user_id=LOCAL_USER, message="show my tasks", conversation_id="c")
    header = engine.header(context, await engine.prepare(), "00000000-0000-4000-8000-000000000001")
    await engine.audit.write_opening(DecisionOpening.of(header, (await engine.prepare()).texts))
    still_open = await client.get(f"/api/decisions/{header.decision_id}/states")
    assert (still_open.status_code, still_open.json()["error"]["code"]) == (404, "DECISION_NOT_FOUND")
    assert (await client.get(f"/api/decisions/{header.decision_id}")).json()["status"] == "PENDING"


async def test_metrics_add_up(client: httpx.AsyncClient) -> None:
    await said(client, "add a task to call mom")
    await said(client, "what's the weather?")
    metrics = (await client.get("/api/metrics")).json()
    assert (metrics["total"], metrics["success_rate"], metrics["categories"]) == (2, 0.5, {"REFUSAL": 1, "SUCCESS": 1})
    assert (await client.get("/api/metrics", params={"outcome": "REFUSAL"})).json()["total"] == 1


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 1001},
        {"offset": -1},
        {"outcome": "x"},
        {"since": "soon"},
        {"since": "9999-12-31T23:59:59-12:00"},
        {"colour": "red"},
    ],
)
@pytest.mark.parametrize("path", ["/api/decisions", "/api/metrics"])
async def test_an_invalid_filter_is_a_422(client: httpx.AsyncClient, path: str, params: dict[str, str]) -> None:
    answer = await client.get(path, params=params)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "VALIDATION_ERROR")


async def test_users_see_their_own_decisions_and_an_auditor_sees_all(guarded: httpx.AsyncClient) -> None:
    of_ann = await said(guarded, "add a task to call mom", headers=headers("ann"))
    await said(guarded, "hello", headers=headers("bob"))
    auditor = headers("eve", "auditor")

    async def totals(**options: Any) -> list[int]:
        paths = ("/api/decisions", "/api/metrics")
        return [(await guarded.get(path, **options)).json()["total"] for path in paths]

    assert await totals(headers=headers("ann")) == [1, 1]
    assert await totals(headers=headers("eve")) == [0, 0]
    assert await totals(headers=headers("eve", "not-an-auditor")) == [0, 0]
    assert await totals(headers=auditor) == [2, 2]
    assert await totals(headers=auditor, params={"user_id": "bob"}) == [1, 1]
    assert await totals(headers=headers("auditing@example.org")) == [2, 2]
    for path in ("/api/decisions", "/api/metrics"):
        foreign = await guarded.get(path, headers=headers("bob"), params={"user_id": "ann"})
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "ACCESS_DENIED")
        assert (await guarded.get(path)).status_code == 401
    assert (await guarded.get(f"/api/decisions/{of_ann}", headers=headers("bob"))).status_code == 404
    assert (await guarded.get(f"/api/decisions/{of_ann}", headers=auditor)).status_code == 200


async def test_a_scope_that_a_user_requests_makes_no_auditor(guarded: httpx.AsyncClient) -> None:
    of_ann = await said(guarded, "add a task to call mom", headers=headers("ann"))
    for claims in ({"scope": "openid auditor"}, {"scp": ["auditor"]}, {"roles": "no auditor"}, {"groups": ["auditor"]}):
        eve = headers("eve", **claims)
        assert (await guarded.get("/api/session", headers=eve)).json() == {"user_id": "eve", "auditor": False}
        assert (await guarded.get(f"/api/decisions/{of_ann}", headers=eve)).status_code == 404
        assert (await guarded.get("/api/verify", headers=eve)).status_code == 403


@pytest.mark.usefixtures("quick_processes")
async def test_a_saved_proof_is_of_an_own_decision_and_shows_what_other_rules_would_have_decided(
    guarded: httpx.AsyncClient,
) -> None:
    of_ann = await said(guarded, "add a task to call mom", headers=headers("ann"))
    text = Constitution.load().text
    address, unlisted = f"/api/decisions/{of_ann}/proof", text.replace('- add_task: "Add task[ {description}]"\n', "")
    for rules in ({}, {"constitution": unlisted}):
        answers = [
            await guarded.post(address, json=rules, headers=headers(*who)) for who in (["ann"], ["bob"], ["eve", "auditor"])
        ]
        assert [answer.status_code for answer in answers] == [200, 404, 200]
        assert answers[0].headers["content-type"].startswith("text/html")
    refused = await guarded.post(address, json={"constitution": "no constitution"}, headers=headers("ann"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "VALIDATION_ERROR")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', answers[0].text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert json.loads(base64.b64decode(data["record"]))["header"]["decision_id"] == of_ann
    assert data["proof"].startswith("c2sp.org/tlog-proof@v1\n")
    assert text in data["texts"].values()
    assert (data["what_if"]["rules"], data["what_if"]["identical"]) == ({"the other constitution": unlisted}, False)
