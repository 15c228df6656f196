"""Bearer tokens, and which data each user can read."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ConfigurationError
from graph_agent.net import bearer_tokens
from tests.chat.environment import Environment

Served = Callable[[Runtime], httpx.AsyncClient]

SECRET = "a secret of sixty-four bytes or more, so that no algorithm complains of it"
AUDIENCE = "graph-agent"
_LATER = int(time.time()) + 12 * 3600
"""The module is imported when the run of the tests begins, and a slow machine needs more than an hour for all of them."""


def _token(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, str] | None = None, **claims: Any) -> str:
    given = {"sub": "ann", "aud": AUDIENCE, "exp": _LATER, **claims}
    kept = {name: value for name, value in given.items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers=headers)


def _raw(header: dict[str, Any], payload: str, key: bytes = SECRET.encode()) -> str:
    """Return a token with a valid signature and arbitrary header and payload, which no library would create."""
    signed = b".".join(_base64(part) for part in (json.dumps(header).encode(), payload.encode()))
    return (signed + b"." + _base64(hmac.new(key, signed, hashlib.sha256).digest())).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(environment: Environment, served: Served) -> httpx.AsyncClient:
    """The settings of an API with bearer tokens, which accepts every Host header."""
    settings = {"jwt_secret": SecretStr(SECRET), "jwt_audience": AUDIENCE}
    client = served(environment.runtime(settings=settings))
    client.base_url = "http://agent.example"
    return client


_HS256 = {"alg": "HS256", "typ": "JWT"}

BAD_TOKENS = {
    "none at all": "",
    "no token": "x",
    "three dots": "...",
    "no signature": _token().rpartition(".")[0] + ".",
    "another key": _token("another secret of thirty-two bytes or more"),
    "another algorithm of the family": _token(algorithm="HS512"),
    "algorithm none": jwt.encode({"sub": "ann", "aud": AUDIENCE, "exp": _LATER}, "", algorithm="none"),
    "algorithm none, signed": _raw({"alg": "none"}, json.dumps({"sub": "ann", "aud": AUDIENCE, "exp": _LATER})),
    "expired": _token(exp=int(time.time()) - 1),
    "no exp": _token(exp=None),
    "no aud": _token(aud=None),
    "wrong aud": _token(aud="somebody-else"),
    "no sub": _token(sub=None),
    "empty sub": _token(sub=""),
    "blank sub": _token(sub=" \t"),
    "long sub": _token(sub="x" * 256),
    "NUL in sub": _token(sub="a\x00b"),
    "sub a number": _raw(_HS256, json.dumps({"sub": 1, "aud": AUDIENCE, "exp": _LATER})),
    "surrogate in sub": _raw(_HS256, f'{{"sub": "\\ud800", "aud": "{AUDIENCE}", "exp": {_LATER}}}'),
    "exp beyond time": _token(exp=10**30),
    "exp in three days": _token(exp=_LATER + 3 * 86_400),
    "exp infinite": _raw(_HS256, f'{{"sub": "ann", "aud": "{AUDIENCE}", "exp": Infinity}}'),
    "exp a list": _raw(_HS256, f'{{"sub": "ann", "aud": "{AUDIENCE}", "exp": []}}'),
    "deep": _raw(_HS256, "[" * 20_000),
    "not before its end": _token(nbf=_LATER),
}


@pytest.mark.parametrize("name", BAD_TOKENS)
async def test_an_invalid_token_is_unauthenticated(environment: Environment, client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/api/chat", json={"content": "hi"}, headers=_bearer(BAD_TOKENS[name]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert await environment.decisions() == []


@pytest.mark.parametrize("header", ["", "Basic YW5uOmFubg==", "Bearer", "{}", "Token {}"])
async def test_only_the_bearer_scheme_is_read(client: httpx.AsyncClient, header: str) -> None:
    assert (await client.get("/api/conversations", headers={"Authorization": header.format(_token())})).status_code == 401


@pytest.mark.parametrize(("scheme", "audience"), [("Bearer ", AUDIENCE), ("bearer ", ["x", AUDIENCE]), ("BEARER  ", AUDIENCE)])
async def test_a_valid_token_authenticates_its_subject(
    client: httpx.AsyncClient, scheme: str, audience: str | list[str]
) -> None:
    header = scheme + _token(aud=audience)
    assert (await client.get("/api/conversations", headers={"Authorization": header})).status_code == 200


async def test_authentication_comes_before_reading_the_body(client: httpx.AsyncClient) -> None:
    assert (await client.post("/api/chat", content=b"{", headers={"Content-Type": "text/plain"})).status_code == 401


async def test_every_route_distinguishes_owner_other_user_and_unauthenticated(
    environment: Environment, client: httpx.AsyncClient
) -> None:
    ann, bob = _bearer(_token()), _bearer(_token(sub="bob"))
    body = (await client.post("/api/chat", json={"content": "add milk"}, headers=ann)).json()
    conversation, decision = body["conversation_id"], body["decision_id"]
    says = {"content": "hi", "conversation_id": conversation}
    expected = [
        ("POST", "/api/chat", says, (200, 403, 401)),
        ("GET", f"/api/conversations/{conversation}", None, (200, 403, 401)),
        ("GET", "/api/conversations", None, (200, 200, 401)),
        ("GET", f"/api/conversations?before={conversation}", None, (200, 403, 401)),
        ("GET", f"/api/decisions/{decision}", None, (200, 404, 401)),
        ("GET", "/healthz", None, (200, 200, 200)),
        ("GET", "/readyz", None, (200, 200, 200)),
        ("GET", "/openapi.json", None, (200, 200, 200)),
    ]
    for method, path, body, statuses in expected:
        found = [(await client.request(method, path, json=body, headers=who)).status_code for who in (ann, bob, {})]
        assert (path, tuple(found)) == (path, statuses)
    assert (await client.get("/api/conversations", headers=bob)).json()["conversations"] == []
    assert await environment.descriptions("bob") == []
    assert await environment.descriptions("ann") == ["milk"]


async def test_the_idempotency_key_of_another_user_gives_no_access(client: httpx.AsyncClient) -> None:
    sent: dict[str, Any] = {"json": {"content": "add milk"}}
    mine = await client.post("/api/chat", **sent, headers={**_bearer(_token()), "Idempotency-Key": "k"})
    theirs = await client.post("/api/chat", **sent, headers={**_bearer(_token(sub="bob")), "Idempotency-Key": "k"})
    assert mine.json()["decision_id"] != theirs.json()["decision_id"]


@pytest.fixture
def key_server() -> Iterator[dict[str, Any]]:
    """A JWKS server: it publishes the list in "keys" at the address in "url"."""
    published: dict[str, Any] = {"keys": [], "asked": 0}

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            published["asked"] += 1
            body = json.dumps({"keys": published["keys"]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keys)
    published["url"] = f"http://127.0.0.1:{server.server_port}/keys"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield published
    server.shutdown()
    thread.join()
    server.server_close()


async def test_published_keys_are_fetched_once_and_only_they_sign(
    environment: Environment, served: Served, key_server: dict[str, Any]
) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    public_text = private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    key = jwt.algorithms.ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    key_server["keys"] = [{**key, "kid": "one", "use": "sig", "alg": "ES256"}]
    client = served(environment.runtime(settings={"jwks_url": key_server["url"], "jwt_audience": AUDIENCE}))

    async def status(token: str) -> int:
        return (await client.get("/api/conversations", headers=_bearer(token))).status_code

    good = _token(private, "ES256", {"kid": "one"})
    assert [await status(good) for _ in range(3)] == [200, 200, 200]
    assert key_server["asked"] == 1
    # The public key taken for a shared secret: the confusion that pinned algorithms prevent.
    payload = json.dumps({"sub": "ann", "aud": AUDIENCE, "exp": _LATER})
    assert await status(_raw({"alg": "HS256", "kid": "one"}, payload, public_text)) == 401
    assert await status(_token(ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})) == 401
    for _ in range(3):
        assert await status(_token(private, "ES256", {"kid": "unknown"})) == 401
    assert key_server["asked"] == 1
    assert await status(_token(private, "ES256", {"kid": "one"}, aud="other")) == 401
    assert await status(_token()) == 401


async def test_keys_that_cannot_be_fetched_are_a_503(environment: Environment, served: Served) -> None:
    client = served(environment.runtime(settings={"jwks_url": "http://127.0.0.1:1/keys", "jwt_audience": AUDIENCE}))
    private = ec.generate_private_key(ec.SECP256R1())
    answer = await client.get("/api/conversations", headers=_bearer(_token(private, "ES256", {"kid": "one"})))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")


async def test_a_redirect_of_the_key_server_is_not_followed(
    environment: Environment, served: Served, key_server: dict[str, Any]
) -> None:
    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", key_server["url"])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirect) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/keys"
        client = served(environment.runtime(settings={"jwks_url": url, "jwt_audience": AUDIENCE}))
        token = _token(ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})
        answer = await client.get("/api/conversations", headers=_bearer(token))
        thread.join()
    assert (answer.status_code, key_server["asked"]) == (503, 0)


async def test_a_key_server_that_trickles_is_a_503(
    environment: Environment, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The key server trickles until the limit, which takes seconds.
    monkeypatch.setattr(bearer_tokens, "FETCH_SECONDS", 0.3)
    ended = threading.Event()

    class Trickle(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not ended.wait(0.05):
                self.wfile.write(b" ")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Trickle) as server:
        server.timeout = 5.0  # A process that is slow to connect does not ask at all.
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/keys"
        client = served(environment.runtime(settings={"jwks_url": url, "jwt_audience": AUDIENCE}))
        token = _token(ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})
        answer = await client.get("/api/conversations", headers=_bearer(token))
        ended.set()
        thread.join()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")


async def test_keys_of_any_length_are_not_read(
    environment: Environment, served: Served, key_server: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The keys of the fixture are above this limit.
    monkeypatch.setattr(bearer_tokens, "MAX_KEYS_BYTES", 10)
    client = served(environment.runtime(settings={"jwks_url": key_server["url"], "jwt_audience": AUDIENCE}))
    token = _token(ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})
    assert (await client.get("/api/conversations", headers=_bearer(token))).status_code == 503


async def test_keys_are_not_fetched_from_a_link_local_address(environment: Environment, served: Served) -> None:
    url = "http://169.254.169.254/latest/meta-data"
    client = served(environment.runtime(settings={"jwks_url": url, "jwt_audience": AUDIENCE}))
    token = _token(ec.generate_private_key(ec.SECP256R1()), "ES256", {"kid": "one"})
    assert (await client.get("/api/conversations", headers=_bearer(token))).status_code == 503


async def test_keys_are_not_read_from_files(environment: Environment, served: Served) -> None:
    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_JWKS_URL"):
        served(environment.runtime(settings={"jwks_url": "file:///etc/passwd", "jwt_audience": AUDIENCE}))


async def test_a_browser_exchanges_a_token_for_a_session_that_ends_with_the_token(
    environment: Environment, served: Served
) -> None:
    settings: dict[str, Any] = {"jwt_secret": SecretStr(SECRET), "jwt_audience": AUDIENCE, "secret": SecretStr("s" * 32)}
    client = served(environment.runtime(settings={**settings, "auditors": ("ann",)}))
    expires = int(time.time()) + 100
    answer = await client.post("/api/session", headers=_bearer(_token(exp=expires)))
    assert answer.status_code == 204
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in answer.headers["set-cookie"].split(";")}
    name, _, session = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert jwt.decode(session, options={"verify_signature": False})["exp"] == expires

    # The session is the user of the token, and is not longer if it is exchanged again.
    cookie = {"Cookie": f"{name}={session}"}
    client.cookies.clear()
    assert (await client.get("/api/session", headers=cookie)).json() == {"user_id": "ann", "auditor": True}
    again = await client.post("/api/session", headers=cookie)
    renewed = again.headers["set-cookie"].partition(";")[0].partition("=")[2]
    assert jwt.decode(renewed, options={"verify_signature": False})["exp"] == expires
    client.cookies.clear()
    # It is no bearer token, and a token is no session.
    assert (await client.get("/api/session", headers=_bearer(session))).status_code == 401
    assert (await client.get("/api/session", headers={"Cookie": f"{name}={_token()}"})).status_code == 401
    assert (await client.post("/api/session")).status_code == 401
    other_site = {**_bearer(_token()), "Sec-Fetch-Site": "cross-site"}
    assert (await client.post("/api/session", headers=other_site)).status_code == 403


async def test_only_operators_have_the_views_of_operators(environment: Environment, served: Served) -> None:
    settings: dict[str, Any] = {"jwt_secret": SecretStr(SECRET), "jwt_audience": AUDIENCE, "auditors": ("ann",)}
    client = served(environment.runtime(settings=settings))
    for user, sees in (("ann", True), ("bob", False)):
        views = (await client.get("/api/about", headers=_bearer(_token(sub=user)))).json()["views"]
        assert [{"lab", "behavior"} <= set(views), {"chat", "decisions"} <= set(views)] == [sees, True]
