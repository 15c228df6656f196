"""The exchange of an authorization code for a bearer token, at an issuer on loopback."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from graph_agent.api import oidc_issuer as issuer_module
from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.clock import ManualClock
from graph_agent.policy.cedar.conditions import ConditionsFile
from tests.api.oidc_server import Issuer
from tests.chat.environment import Environment
from tests.frozen_clock import freeze_loop_time

Served = Callable[[Runtime], httpx.AsyncClient]

ADDRESS = "http://localhost/signed-in"


@pytest.fixture
def client(issuer: Issuer, environment: Environment, served: Served) -> httpx.AsyncClient:
    return served(environment.runtime(settings=issuer.settings))


async def begin(client: httpx.AsyncClient, issuer: Issuer) -> dict[str, str]:
    """Begin a sign-in, let the user sign in at the issuer, and return what the page then sends."""
    started = (await client.get("/api/sign-in")).json()
    asked = {name: started[name] for name in ("client_id", "scope", "state", "code_challenge")}
    code = issuer.authorize({**asked, "response_type": "code", "redirect_uri": ADDRESS, "code_challenge_method": "S256"})
    return {"code": code, "state": started["state"], "redirect_uri": ADDRESS}


async def error_of(client: httpx.AsyncClient, sent: Any) -> tuple[int, str]:
    answer = await client.post("/api/sign-in", json=sent)
    return answer.status_code, answer.json()["error"]["code"]


async def test_a_code_becomes_a_session_in_a_cookie_and_works_once(client: httpx.AsyncClient, issuer: Issuer) -> None:
    sent = await begin(client, issuer)
    answer = await client.post("/api/sign-in", json=sent)
    assert (answer.status_code, answer.content, answer.headers["cache-control"]) == (204, b"", "no-store")
    (session,) = (cookie for cookie in answer.headers.get_list("set-cookie") if cookie.startswith("graph_agent_session="))
    assert {part.split("=")[0] for part in session.split("; ")[1:]} == {"HttpOnly", "Path", "SameSite"}
    assert (await client.get("/api/session")).json() == {"user_id": "ann", "auditor": False}
    assert (await client.get("/api/session", headers={"Authorization": "Bearer nonsense"})).status_code == 401
    # The browser has forgotten the sign-in, and the issuer the code.
    assert await error_of(client, sent) == (401, "UNAUTHENTICATED")
    assert await error_of(client, {**await begin(client, issuer), "code": sent["code"]}) == (401, "UNAUTHENTICATED")

    await client.delete("/api/session")
    assert (await client.get("/api/session")).status_code == 401


async def test_a_session_is_accepted_by_the_next_process_and_only_with_the_secret(
    client: httpx.AsyncClient, issuer: Issuer, environment: Environment, served: Served
) -> None:
    await client.post("/api/sign-in", json=await begin(client, issuer))
    for secret, status in (({}, 200), ({"secret": SecretStr("x" * 32)}, 401), ({"oidc_issuer": None}, 401)):
        other = served(environment.runtime(settings={**issuer.settings, **secret}))
        cookie = {"Cookie": f"graph_agent_session={client.cookies['graph_agent_session']}"}
        assert (await other.get("/api/session", headers=cookie)).status_code == status
    # A session is no bearer token, and the issuer's token is no session.
    session = client.cookies["graph_agent_session"]
    client.cookies.clear()
    for headers in ({"Authorization": f"Bearer {session}"}, {"Cookie": f"graph_agent_session={issuer.token()}"}):
        assert (await client.get("/api/session", headers=headers)).status_code == 401


async def test_a_secret_that_is_not_utf_8_signs_sessions(issuer: Issuer, environment: Environment, served: Served) -> None:
    secret = SecretStr(os.fsdecode(b"\xff\xfe" * 20))
    client = served(environment.runtime(settings={**issuer.settings, "secret": secret}))
    assert (await client.post("/api/sign-in", json=await begin(client, issuer))).status_code == 204
    assert (await client.get("/api/session")).json() == {"user_id": "ann", "auditor": False}


async def test_over_https_the_cookie_is_never_sent_in_the_clear(client: httpx.AsyncClient, issuer: Issuer) -> None:
    client.headers.update({"host": "agent.example", "origin": "https://agent.example"})
    answer = await client.post("/api/sign-in", json=await begin(client, issuer))
    assert all("; Secure" in cookie for cookie in answer.headers.get_list("set-cookie") if "session=" in cookie)


async def test_an_auditor_who_signs_in_is_one_for_the_session(issuer: Issuer, environment: Environment, served: Served) -> None:
    client = served(environment.runtime(settings={**issuer.settings, "auditor_claim": "groups=auditors"}))
    for groups, expected in (("auditors", True), (["staff", "auditors"], True), (["staff"], False)):
        issuer.claims = {"groups": groups, "scope": "openid auditors auditor"}
        await client.post("/api/sign-in", json=await begin(client, issuer))
        assert (await client.get("/api/session")).json()["auditor"] is expected


async def test_a_session_has_the_roles_of_the_token(issuer: Issuer, environment: Environment, served: Served) -> None:
    rules = 'permit (principal in Role::"support", action, resource);'
    settings = {**issuer.settings, "roles": "groups=support,manager"}
    client = served(environment.runtime(settings=settings, conditions=ConditionsFile(rules, roles=("support", "manager"))))
    for groups, effects in ((["staff", "support"], ["Add task 'call mom'"]), ("manager", []), (None, [])):
        issuer.claims = {"groups": groups, "scope": "openid support"}
        await client.post("/api/sign-in", json=await begin(client, issuer))
        answer = await client.post("/api/chat", json={"content": "add a task to call mom"})
        assert answer.json()["decision"]["effects"] == effects


async def test_a_code_without_the_cookie_of_its_sign_in_reaches_no_issuer(client: httpx.AsyncClient, issuer: Issuer) -> None:
    sent = await begin(client, issuer)
    number = client.cookies["graph_agent_sign_in"]
    client.cookies.clear()
    for cookie, status in (("", 401), ("guessed", 401), (f"{number}x", 401), (number, 204)):
        assert "/token" not in issuer.asked
        headers = {"Cookie": f"graph_agent_sign_in={cookie}"}
        assert (await client.post("/api/sign-in", json=sent, headers=headers)).status_code == status


@pytest.mark.parametrize("with_cookies", [True, False])
async def test_junk_of_many_clients_keeps_nobody_from_signing_in(
    issuer: Issuer, environment: Environment, with_cookies: bool
) -> None:
    # Junk that waits for its turn is refused after a while; on a busy machine that would be before the issuer answers.
    freeze_loop_time(ManualClock())
    app = create_app(environment.runtime(settings=issuer.settings))

    def client_at(address: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app, client=(address, 1)), base_url="http://localhost")

    # The issuer answers none of the junk until the user is signed in.
    issuer.unknown_codes.clear()
    sent: list[asyncio.Task[httpx.Response]] = []
    junk = [client_at("203.0.113.7") for _ in range(16)] + [client_at(f"2001:db8::{n:x}") for n in range(16)]
    for client in junk:
        state = (await client.get("/api/sign-in")).json()["state"] if with_cookies else "guessed"
        body = {"code": "junk", "state": state, "redirect_uri": ADDRESS}
        sent.append(asyncio.create_task(client.post("/api/sign-in", json=body)))
    user = client_at("198.51.100.1")
    try:
        assert (await user.post("/api/sign-in", json=await begin(user, issuer))).status_code == 204
    finally:
        issuer.unknown_codes.set()
    assert {answer.status_code for answer in await asyncio.gather(*sent)} == {401}


async def test_a_code_for_another_address_is_refused(client: httpx.AsyncClient, issuer: Issuer) -> None:
    elsewhere = "http://evil.example/signed-in"
    assert await error_of(client, {**await begin(client, issuer), "redirect_uri": elsewhere}) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"iss": "http://other.example"}, {"sub": ""}, {"exp": 1}])
async def test_a_token_that_the_api_would_refuse_is_not_given_out(
    client: httpx.AsyncClient, issuer: Issuer, claims: dict[str, Any]
) -> None:
    issuer.claims = claims
    assert await error_of(client, await begin(client, issuer)) == (401, "UNAUTHENTICATED")


async def test_an_opaque_access_token_leaves_the_id_token(client: httpx.AsyncClient, issuer: Issuer) -> None:
    issuer.tokens = {"access_token": "opaque", "id_token": issuer.token()}
    assert (await client.post("/api/sign-in", json=await begin(client, issuer))).status_code == 204
    assert (await client.get("/api/session")).json()["user_id"] == "ann"


async def test_only_tokens_of_the_issuer_are_accepted(client: httpx.AsyncClient, issuer: Issuer) -> None:
    for token, status in ((issuer.token(), 200), (issuer.token(iss="http://other.example"), 401)):
        answer = await client.get("/api/conversations", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == status


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "http://other.example"},
        {"token_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": None},
    ],
)
async def test_metadata_that_do_not_fit_are_not_used(
    client: httpx.AsyncClient, issuer: Issuer, metadata: dict[str, Any]
) -> None:
    issuer.metadata = metadata
    answer = await client.get("/api/sign-in")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
    issuer.metadata = {}
    assert (await client.get("/api/sign-in")).status_code == 200


async def test_a_token_endpoint_at_a_link_local_address_is_not_asked(client: httpx.AsyncClient, issuer: Issuer) -> None:
    issuer.metadata = {"token_endpoint": "http://169.254.169.254/token"}
    assert await error_of(client, await begin(client, issuer)) == (503, "SERVICE_UNAVAILABLE")


async def test_a_long_answer_is_not_read(client: httpx.AsyncClient, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = await begin(client, issuer)
    # The answer of the fixture is above this limit.
    monkeypatch.setattr(issuer_module, "MAX_ANSWER_BYTES", 10)
    assert await error_of(client, sent) == (503, "SERVICE_UNAVAILABLE")


@pytest.mark.parametrize("sent", [{}, {"code": "c", "state": "", "redirect_uri": ADDRESS}, {"code": 1}])
async def test_an_incomplete_request_reaches_no_issuer(client: httpx.AsyncClient, issuer: Issuer, sent: Any) -> None:
    assert await error_of(client, sent) == (422, "VALIDATION_ERROR")
    assert issuer.asked == []


async def test_without_an_issuer_there_is_no_sign_in(environment: Environment, served: Served) -> None:
    client = served(environment.runtime())
    assert (await client.get("/api/sign-in")).status_code == 404
