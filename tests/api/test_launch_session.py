"""A server without sign-in, whose clients need the launch token."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.static_page import VIEWS, Page
from tests.chat.environment import Environment

TOKEN = "t" * 43
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
NOT_IN_THE_DOCUMENT = ("/agui", "/openapi.json", "/docs", "/redoc", "/none", "//api/tasks", "/page/../api/tasks", "*")
PAGE = Page({"index.html": b"SIGN-IN", "app.js": b"1"})


@pytest.mark.parametrize("page", [None, PAGE], ids=["api alone", "with the page"])
async def test_every_route_but_the_probes_and_the_files_of_the_page_needs_the_token(
    environment: Environment, page: Page | None
) -> None:
    app = create_app(environment.runtime(), page, LaunchSession(TOKEN))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")

    async def statuses(path: str, **options: Any) -> set[int]:
        return {(await client.request(method, path, **options)).status_code for method in METHODS}

    probes = {"/healthz", "/readyz"}
    paths = {re.sub(r"[{}]", "", path) for path in app.openapi()["paths"]} - probes
    assert {"/api/chat", "/api/chat/stream", "/api/tasks", "/api/replay", "/api/verify", "/api/session"} <= paths
    for path in sorted(paths):
        assert await statuses(path) == {401}, path
        for guess in ("Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[1:]}", f"Basic {TOKEN}", TOKEN, "Bearer \u00e9"):
            assert (await client.get(path, headers={b"Authorization": guess.encode("latin-1")})).status_code == 401
    for path in NOT_IN_THE_DOCUMENT:
        assert not await statuses(path) & {200, 500}, path
    for path in probes:
        assert 200 in await statuses(path)
    views = {re.sub(r"[{}]", "", view) for view in VIEWS} | {"/page/app.js"}
    for path in views:
        assert (401 in await statuses(path)) is (page is None), path
    assert (await client.get("/api/tasks", headers={"Authorization": f"bearer {TOKEN}"})).status_code == 200


async def test_the_metrics_are_on_their_own_port_and_nothing_else_is(environment: Environment) -> None:
    app = create_app(environment.runtime(), None, LaunchSession(TOKEN), metrics_port=9100)

    async def status(port: int, path: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://localhost:{port}") as client:
            return (await client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})).status_code

    for path in ("/metrics", "/healthz", "/api/tasks"):
        assert (await status(8000, path) == 200) is (path != "/metrics")
        assert (await status(9100, path) == 200) is (path == "/metrics")
