"""Stops over HTTP: operators stop and resume, and users learn that their turns are stopped."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from graph_agent.bootstrap.runtime import Runtime
from tests.api.test_approvals import SIGN_IN, headers
from tests.chat.environment import Environment

OPERATOR, USER = headers("olga"), headers("ann")


@pytest.fixture
def http(environment: Environment, served: Callable[[Runtime], httpx.AsyncClient]) -> httpx.AsyncClient:
    return served(environment.runtime(settings={**SIGN_IN, "operators": ("olga",)}))


async def test_an_operator_stops_everything_and_resumes_it(http: httpx.AsyncClient) -> None:
    asked = {"reason": "wrong refunds", "say": "We look into it."}
    stopped = await http.post("/api/stops", json=asked, headers=OPERATOR)
    assert (stopped.status_code, stopped.json()["number"], stopped.json()["by"]) == (200, 1, "olga")

    refused = await http.post("/api/chat", json={"content": "add milk"}, headers=USER)
    error = {"code": "STOPPED", "message": "We look into it. Nothing was done."}
    assert (refused.status_code, refused.json()["error"], refused.headers["retry-after"]) == (503, error, "30")
    seen = (await http.get("/api/stops", headers=USER)).json()
    assert (seen["may_stop"], [(stop["say"], stop["reason"], stop["by"]) for stop in seen["stops"]]) == (
        False,
        [("We look into it.", "", "")],
    )
    assert (await http.get("/api/stops", headers=OPERATOR)).json()["stops"][0]["reason"] == "wrong refunds"

    resumed = await http.delete("/api/stops/1?reason=fixed", headers=OPERATOR)
    assert (resumed.status_code, resumed.json()["ended_by"]) == (200, "olga")
    assert (await http.post("/api/chat", json={"content": "add milk"}, headers=USER)).status_code == 200
    again = await http.delete("/api/stops/1?reason=fixed", headers=OPERATOR)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "STOP_NOT_FOUND")


async def test_a_user_neither_stops_nor_resumes_nor_sees_the_stops_of_others(http: httpx.AsyncClient) -> None:
    assert (await http.post("/api/stops", json={"reason": "x"}, headers=USER)).status_code == 403
    bobs = {"scope": "user", "name": "bob", "reason": "x"}
    assert (await http.post("/api/stops", json=bobs, headers=OPERATOR)).status_code == 200
    assert (await http.delete("/api/stops/1?reason=x", headers=USER)).status_code == 403
    assert (await http.get("/api/stops", headers=USER)).json() == {"stops": [], "may_stop": False}
    assert (await http.post("/api/chat", json={"content": "add milk"}, headers=USER)).status_code == 200


@pytest.mark.parametrize("body", [{}, {"reason": " "}, {"scope": "tool", "reason": "x"}, {"name": "refund", "reason": "x"}])
async def test_a_stop_without_what_it_needs_is_refused(http: httpx.AsyncClient, body: dict[str, str]) -> None:
    assert (await http.post("/api/stops", json=body, headers=OPERATOR)).status_code == 422
