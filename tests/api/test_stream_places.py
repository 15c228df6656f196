"""The places of event streams."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.api.sse import StreamPlaces
from graph_agent.errors import ServiceError
from tests.chat.environment import Environment

RUN = {"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "add a task to call mom"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [("/api/chat/stream", {"content": "add a task to call mom"}), ("/agui", RUN)],
)
async def test_no_turn_is_started_whose_events_cannot_be_sent(environment: Environment, path: str, body: Any) -> None:
    app = create_app(environment.runtime())
    app.state.services.streams = StreamPlaces(1, one_user=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        app.state.services.streams.take("local")
        refused = await client.post(path, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert (await client.get("/api/decisions")).json()["items"] == []
        app.state.services.streams.release("local")
        assert (await client.post(path, json=body)).status_code == 200
    assert app.state.services.streams.total == 0


async def test_a_replay_is_refused_if_no_place_is_free(environment: Environment) -> None:
    app = create_app(environment.runtime())
    app.state.services.replay_streams = StreamPlaces(0, one_user=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.post("/api/replay", json={})).status_code == 503
        assert (await client.get("/api/verify")).status_code == 503


def test_one_user_cannot_take_every_place() -> None:
    places = StreamPlaces(8, one_user=False)
    for _ in range(7):
        places.take("ann")
    with pytest.raises(ServiceError):
        places.require("ann")
    places.require("bob")
