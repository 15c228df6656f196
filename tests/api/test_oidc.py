"""The exchange of an authorization code for a bearer token, at an issuer on loopback."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from graph_agent.api import oidc
from graph_agent.bootstrap.runtime import Runtime
from tests.api.oidc_server import CLIENT, Issuer, oidc_issuer
from tests.chat.environment import Environment

Served = Callable[[Runtime], httpx.AsyncClient]

VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
ADDRESS = "http://localhost/signed-in"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with oidc_issuer() as issuer:
        yield issuer


@pytest.fixture
def client(issuer: Issuer, environment: Environment, served: Served) -> httpx.AsyncClient:
    return served(environment.runtime(settings=issuer.settings))


def code_of(issuer: Issuer) -> dict[str, str]:
    """Let the user sign in, and return what the page then sends."""
    asked = {"response_type": "code", "client_id": CLIENT, "scope": "openid", "redirect_uri": ADDRESS}
    code = issuer.authorize({**asked, "code_challenge": CHALLENGE, "code_challenge_method": "S256"})
    return {"code": code, "code_verifier": VERIFIER, "redirect_uri": ADDRESS}


async def error_of(client: httpx.AsyncClient, sent: Any) -> tuple[int, str]:
    answer = await client.post("/api/sign-in", json=sent)
    return answer.status_code, answer.json()["error"]["code"]


async def test_a_code_becomes_a_token_that_the_api_accepts_and_works_once(client: httpx.AsyncClient, issuer: Issuer) -> None:
    assert (await client.get("/api/sign-in")).json() == {
        "authorization_endpoint": f"{issuer.url}/authorize",
        "client_id": CLIENT,
        "scope": "openid",
    }
    sent = code_of(issuer)
    answer = await client.post("/api/sign-in", json=sent)
    token = answer.json()["token"]
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert (await client.get("/api/conversations", headers={"Authorization": f"Bearer {token}"})).status_code == 200
    assert (await client.get("/api/conversations")).status_code == 401
    assert await error_of(client, sent) == (401, "UNAUTHENTICATED")


async def test_a_code_without_its_verifier_is_refused(client: httpx.AsyncClient, issuer: Issuer) -> None:
    assert await error_of(client, {**code_of(issuer), "code_verifier": "w" * 43}) == (401, "UNAUTHENTICATED")


async def test_a_code_for_another_address_is_refused(client: httpx.AsyncClient, issuer: Issuer) -> None:
    elsewhere = "http://evil.example/signed-in"
    assert await error_of(client, {**code_of(issuer), "redirect_uri": elsewhere}) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"iss": "http://other.example"}, {"sub": ""}, {"exp": 1}])
async def test_a_token_that_the_api_would_refuse_is_not_given_out(
    client: httpx.AsyncClient, issuer: Issuer, claims: dict[str, Any]
) -> None:
    issuer.claims = claims
    assert await error_of(client, code_of(issuer)) == (401, "UNAUTHENTICATED")


async def test_an_opaque_access_token_leaves_the_id_token(client: httpx.AsyncClient, issuer: Issuer) -> None:
    issuer.tokens = {"access_token": "opaque", "id_token": issuer.token()}
    assert (await client.post("/api/sign-in", json=code_of(issuer))).json() == {"token": issuer.tokens["id_token"]}


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
    assert (await client.get("/api/sign-in")).status_code == 503
    assert await error_of(client, code_of(issuer)) == (503, "SERVICE_UNAVAILABLE")
    assert "/token" not in issuer.asked


async def test_a_token_endpoint_at_a_link_local_address_is_not_asked(client: httpx.AsyncClient, issuer: Issuer) -> None:
    issuer.metadata = {"token_endpoint": "http://169.254.169.254/token"}
    assert await error_of(client, code_of(issuer)) == (503, "SERVICE_UNAVAILABLE")


async def test_a_long_answer_is_not_read(client: httpx.AsyncClient, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "MAX_ANSWER_BYTES", 10)
    assert await error_of(client, code_of(issuer)) == (503, "SERVICE_UNAVAILABLE")


@pytest.mark.parametrize("sent", [{}, {"code": "c", "code_verifier": "short", "redirect_uri": ADDRESS}, {"code": 1}])
async def test_an_incomplete_request_reaches_no_issuer(client: httpx.AsyncClient, issuer: Issuer, sent: Any) -> None:
    assert await error_of(client, sent) == (422, "VALIDATION_ERROR")
    assert issuer.asked == []


async def test_without_an_issuer_there_is_no_sign_in(environment: Environment, served: Served) -> None:
    client = served(environment.runtime())
    assert (await client.get("/api/sign-in")).status_code == 404
