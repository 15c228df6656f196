"""Approval by another person over HTTP: the caller is the approver, a link changes nothing, and each refusal has its status."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import jwt
import pytest
from pydantic import SecretStr

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.service import ChatService
from graph_agent.llm.scripted import ScriptedAdapter
from tests.chat.environment import Environment
from tests.chat.test_approvals import ADD, requests_of, rules

KEY = "a key of thirty-two bytes and more"
SIGN_IN = {
    "jwt_secret": SecretStr(KEY),
    "jwt_audience": "agent",
    "secret": SecretStr("a secret for tests"),
    "roles": "groups=finance,manager",
}


def headers(user: str, *groups: str) -> dict[str, str]:
    # The tests of a whole run may come to this file an hour after it was imported.
    claims = {"sub": user, "aud": "agent", "exp": time.time() + 86400, "groups": list(groups)}
    return {"Authorization": f"Bearer {jwt.encode(claims, KEY, algorithm='HS256')}"}


BOB, EVE, ANN = headers("bob", "manager"), headers("eve", "finance"), headers("ann", "manager")


@pytest.fixture
def runtime(environment: Environment) -> Runtime:
    return environment.runtime(ScriptedAdapter([ADD]), conditions=rules(), settings=SIGN_IN)


@pytest.fixture
def http(runtime: Runtime, served: Callable[[Runtime], httpx.AsyncClient]) -> httpx.AsyncClient:
    return served(runtime)


async def asked(http: httpx.AsyncClient) -> dict[str, Any]:
    answer = await http.post("/api/chat", json={"content": "add bread"}, headers=ANN)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["decision"]["approval"]
    return found


async def closed(chat: ChatService) -> None:
    await requests_of(chat).closings()


async def test_a_manager_lists_reads_and_approves_and_the_call_is_made(
    http: httpx.AsyncClient, runtime: Runtime, environment: Environment
) -> None:
    request_id = (await asked(http))["action"]["id"]
    (listed,) = (await http.get("/api/questions", headers=BOB)).json()["questions"]
    assert (listed["id"], listed["requester"], listed["state"]) == (request_id, "ann", "open")
    assert (await http.get("/api/questions", headers=ANN)).json() == {"questions": [], "next": None, "waiting": 0}
    (own,) = (await http.get("/api/questions?which=own", headers=ANN)).json()["questions"]
    assert own["id"] == request_id

    shown = (await http.get(f"/api/questions/{request_id}", headers=BOB)).json()
    assert shown["arguments"] == {"description": "bread"}
    assert shown["message"] == "add bread"
    assert shown["earlier_messages"] == []
    assert shown["named_in_message"] == {"description": True}
    assert shown["rules"] == ["additions need a manager"]
    assert [one["became"] for one in shown["calls"]] == ["waits"]
    effect = {"effect": "runs", "effect_words": "If you approve it, it is done at once.", "why": ""}
    assert shown["yours"] == {"roles": ["manager"], "to_sign": [], "answer": None, **effect}
    assert await environment.descriptions("ann") == []

    answer = {"yes": True, "digest": shown["digest"]}
    answered = await http.post(f"/api/questions/{request_id}/answer", json=answer, headers=BOB)
    assert (answered.status_code, answered.json()["question"]["approvals"]) == (200, {"manager": 1})
    await closed(runtime.chat)
    assert await environment.descriptions("ann") == ["bread"]
    again = await http.post(f"/api/questions/{request_id}/answer", json=answer, headers=BOB)
    assert (again.status_code, again.json()["question"]["state"]) == (200, "approved")
    (ended,) = (await http.get("/api/questions?which=ended", headers=BOB)).json()["questions"]
    assert ended["state"] == "approved"
    shown = (await http.get(f"/api/questions/{request_id}", headers=ANN)).json()
    assert [(one["approver"], one["identity"]) for one in shown["answers"]] == [("bob", "token")]
    assert shown["yours"] is None


async def test_each_refusal_has_its_status(http: httpx.AsyncClient, environment: Environment) -> None:
    request = await asked(http)
    path = f"/api/questions/{request['action']['id']}"
    digest = (await http.get(path, headers=BOB)).json()["digest"]

    async def refused(who: dict[str, str], **answer: Any) -> tuple[int, str]:
        response = await http.post(f"{path}/answer", json={"yes": True, "digest": digest, **answer}, headers=who)
        return response.status_code, response.json()["error"]["code"]

    assert await refused(ANN) == (403, "ACCESS_DENIED")
    assert await refused(EVE) == (404, "QUESTION_NOT_FOUND")
    assert (await http.get(path, headers=EVE)).status_code == 404
    assert (await http.get(path)).status_code == 401
    assert await refused({}) == (401, "UNAUTHENTICATED")
    assert await refused(BOB, yes=False) == (422, "VALIDATION_ERROR")
    assert await refused(BOB, approver="eve") == (422, "VALIDATION_ERROR")
    assert await refused(BOB, digest="0" * 64) == (409, "QUESTION_CONFLICT")
    # To withdraw a request of another user reads as to withdraw one that does not exist.
    others = await http.post(f"{path}/cancel", headers=BOB)
    unknown = await http.post("/api/questions/00000000-0000-0000-0000-000000000000/cancel", headers=BOB)
    assert (others.status_code, others.json()) == (404, unknown.json())
    assert (await http.post(f"{path}/cancel", headers=ANN)).json()["state"] == "cancelled"
    assert await refused(BOB) == (409, "QUESTION_CLOSED")
    assert (await http.get("/api/questions/nothing", headers=BOB)).status_code == 400
    assert await environment.descriptions("ann") == []


async def test_opening_a_link_changes_nothing(http: httpx.AsyncClient, runtime: Runtime, environment: Environment) -> None:
    """A scanner of links in messages reads every address, with the approver's own session."""
    path = f"/api/questions/{(await asked(http))['action']['id']}"
    for address in ("", "/answer", "/cancel"):
        for method in ("GET", "HEAD"):
            await http.request(method, f"{path}{address}", headers=BOB)
    await runtime.chat.serve_due()
    assert (await http.get(path, headers=BOB)).json()["state"] == "open"
    assert await environment.descriptions("ann") == []


async def test_an_answer_from_another_site_is_refused(http: httpx.AsyncClient) -> None:
    request = await asked(http)
    path = f"/api/questions/{request['action']['id']}/answer"
    elsewhere = {**BOB, "Origin": "https://evil.example"}
    assert (await http.post(path, json={"yes": True, "digest": "0" * 64}, headers=elsewhere)).status_code == 403


async def test_without_sign_in_nobody_approves_over_http(
    environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]
) -> None:
    """Every client is the one local user, whose own requests these are."""
    http = served(environment.runtime(ScriptedAdapter([ADD]), conditions=rules()))
    answer = (await http.post("/api/chat", json={"content": "add bread"})).json()
    path = f"/api/questions/{answer['decision']['approval']['action']['id']}"
    digest = (await http.get(path)).json()["digest"]
    refused = await http.post(f"{path}/answer", json={"yes": True, "digest": digest})
    assert refused.status_code == 403
