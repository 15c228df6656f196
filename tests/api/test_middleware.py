"""The middleware of every route."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from graph_agent.api.errors import STATUS
from graph_agent.api.middleware import AccessLog
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.errors import ServiceErrorCode
from tests.chat.environment import Environment

Served = Callable[[Runtime], httpx.AsyncClient]


@pytest.mark.parametrize("path", ["/healthz", "/api/conversations", "/nothing", "/api/chat", "/openapi.json"])
async def test_every_response_has_the_security_headers(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path, headers={"Origin": "https://evil.example"})).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert not [name for name in headers if name.startswith("access-control")]


async def test_a_preflight_request_is_refused(client: httpx.AsyncClient) -> None:
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = await client.options("/api/chat", headers=asks)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "evil@localhost", "localhost:x", ""],
)
async def test_without_authentication_other_host_names_are_refused(client: httpx.AsyncClient, host: str) -> None:
    for path in ("/api/conversations", "/healthz", "/openapi.json"):
        answer = await client.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ACCESS_DENIED")


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
async def test_loopback_host_names_are_accepted(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/api/conversations", headers={"Host": host})).status_code == 200


async def test_an_unexpected_exception_is_answered_without_details(
    environment: Environment, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = environment.runtime()

    class Broken:
        approvals = None

        async def check_writable(self) -> None: ...

        async def conversations(self, *_: object) -> None:
            raise RuntimeError("postgresql://user:password@host/name")

    client = served(_with_chat(runtime, Broken()))
    with caplog.at_level(logging.CRITICAL):
        answer = await client.get("/api/conversations")
    assert answer.status_code == 500
    error = {"code": "UNKNOWN_ERROR", "message": "Something went wrong. Please try again later."}
    assert answer.json() == {"error": error}
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_readiness_needs_the_database_and_liveness_does_not(environment: Environment, client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).json()["status"] == "ready"
    await asyncio.to_thread(environment.database.close_now)
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["error"]) == (
        503,
        {"code": "SERVICE_UNAVAILABLE", "message": "Not ready: database, log."},
    )
    assert "retry-after" in answer.headers


def test_every_code_of_the_services_has_a_status() -> None:
    assert set(STATUS) == set(ServiceErrorCode)


def _with_chat(runtime: Runtime, chat: object) -> Runtime:
    fields = {name: getattr(runtime, name) for name in runtime.__dataclass_fields__}
    return Runtime(**{**fields, "chat": chat})


async def test_a_client_cannot_begin_another_field_of_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("")(scope, receive, send)

    forwarded = ("10.0.0.1 POST /api/chat 200 1.0 ms", 1)
    with caplog.at_level(logging.INFO, logger="graph_agent.access"):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(AccessLog(nothing), client=forwarded), base_url="http://localhost"
        ) as client:
            await client.get("/x%20200%200.1%20ms%0aforged")
    (line,) = caplog.messages
    assert line.startswith("10.0.0.1%20POST%20%2Fapi%2Fchat%20200%201.0%20ms GET /x%20200%200.1%20ms%0Aforged 200 ")
