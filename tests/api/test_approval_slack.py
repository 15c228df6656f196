"""A program as it stands between this server and Slack: it takes signed notices, and answers with the approver's own token."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import standardwebhooks

from graph_agent.api.app import create_app
from graph_agent.api.static_page import Page
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.approval_notices import Webhook
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from tests.api.test_approvals import ANN, BOB, SIGN_IN, asked, closed
from tests.chat.environment import Environment
from tests.chat.test_approval_notices import KEY, Receiver, send_due
from tests.chat.test_approvals import ADD, rules

PAGE = "http://localhost"


class Slack(Receiver):
    """Fails twice, then takes notices; when Bob clicks, his token approves the first request."""

    http: httpx.AsyncClient
    """A client of the server, which is started when the address of this program is known."""

    def __init__(self) -> None:
        super().__init__(500, 503)
        self.answers: list[tuple[int, str]] = []
        self._checks = standardwebhooks.Webhook(f"whsec_{base64.b64encode(KEY).decode()}")

    async def status(self, reader: asyncio.StreamReader) -> int:
        headers, body = self.posted[-1]
        notice = self._checks.verify(body, headers)
        if len(self.posted) == 3:
            await self.click(notice["data"])
        return await super().status(reader)

    async def click(self, request: dict[str, Any]) -> None:
        """Approve as Bob, who has clicked twice."""
        answer = {"yes": True, "digest": request["digest"]}
        for _ in range(2):
            answered = await self.http.post(f"/api/questions/{request['id']}/answer", json=answer, headers=BOB)
            self.answers.append((answered.status_code, answered.json()["question"]["state"]))


@pytest.fixture
def clock(environment: Environment) -> ManualClock:
    # The library compares the time of a notice with its own.
    clock = ManualClock(datetime.now(UTC))
    environment.use_clock(clock)
    return clock


def served(environment: Environment, url: str) -> tuple[Runtime, httpx.AsyncClient]:
    webhook = Webhook(url, KEY, page=PAGE)
    runtime = environment.runtime(ScriptedAdapter([ADD]), conditions=rules(), settings=SIGN_IN, webhook=webhook)
    transport = httpx.ASGITransport(create_app(runtime, Page({"index.html": b"<html></html>", "app.js": b"", "app.css": b""})))
    return runtime, httpx.AsyncClient(transport=transport, base_url=PAGE)


async def test_a_program_that_fails_twice_gets_the_notice_again_and_its_answer_has_one_effect(
    environment: Environment, clock: ManualClock
) -> None:
    slack = Slack()
    async with slack.url() as url:
        runtime, slack.http = served(environment, url)
        request = await asked(slack.http)
        notices = runtime.chat.notices
        assert notices is not None
        for _ in range(2):
            assert await send_due(environment, notices)
            clock.advance(minutes=1)
        assert await send_due(environment, notices)
        # The clock is not advanced after Bob's answer: a minute is more than the closing decision may take.
        await closed(runtime.chat)
        # Unless the notice was due before the other was answered.
        await send_due(environment, notices)
    assert notices.deliveries == {"sent": 2, "failed": 2}
    assert [headers["webhook-id"] for headers, _ in slack.posted] == [
        *[f"{request['action']['id']}.requested"] * 3,
        f"{request['action']['id']}.closed",
    ]
    assert json.loads(slack.posted[-1][1])["data"]["state"] == "approved"
    assert [status for status, _ in slack.answers] == [200, 200]
    assert await environment.descriptions("ann") == ["bread"]


async def test_a_scanner_that_opens_the_link_of_a_notice_changes_nothing(environment: Environment, clock: ManualClock) -> None:
    """It opens every link of a message, as nobody, and from the browser of the approver with all that is sent there."""
    receiver = Receiver()
    async with receiver.url() as url:
        runtime, http = served(environment, url)
        await asked(http)
        notices = runtime.chat.notices
        assert notices is not None
        assert await send_due(environment, notices)
        data = json.loads(receiver.posted[0][1])["data"]
        assert data["link"] == f"{PAGE}/inbox/{data['id']}"
        for headers in ({}, BOB):
            for method in ("GET", "HEAD"):
                opened = await http.request(method, data["link"], headers=headers)
                assert opened.status_code == 200
        clock.advance(minutes=5)
        await runtime.chat.serve_due()
        assert not await send_due(environment, notices)
    assert (await http.get(f"/api/questions/{data['id']}", headers=ANN)).json()["state"] == "open"
    assert await environment.descriptions("ann") == []
