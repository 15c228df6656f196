"""Notices about approval requests: Standard Webhooks, sent at least once, without a text of the request."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest

from graph_agent.chat.approval_notices import ApprovalNotices, Webhook
from graph_agent.clock import ManualClock
from graph_agent.due.worker import DueWorker
from graph_agent.errors import ConfigurationError
from graph_agent.question.approvals import ApprovalStore
from graph_agent.settings import read_settings
from tests.chat.environment import Environment
from tests.chat.test_approvals import ADD, chat_of, request_of, respond
from tests.frozen_clock import freeze_loop_time

KEY = b"a key of more than twenty-four bytes"


class Receiver:
    """A program that takes notices: it answers with `statuses` in turn, then with 204."""

    def __init__(self, *statuses: int, location: str = "http://127.0.0.1:1/") -> None:
        """`location` is where a redirect leads."""
        self.statuses = list(statuses)
        self.posted: list[tuple[dict[str, str], bytes]] = []
        self._location = location

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self.posted.append((headers, body))
        status = await self.status(reader)
        location = f"Location: {self._location}\r\n" if 300 <= status < 400 else ""
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{location}Connection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async def status(self, reader: asyncio.StreamReader) -> int:  # noqa: ARG002 (a receiver that answers nothing reads to the end)
        """Return the status with which the last notice is answered."""
        return self.statuses.pop(0) if self.statuses else 204

    @asynccontextmanager
    async def url(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"

    def verified(self) -> list[dict[str, Any]]:
        """Return the bodies, each of which must have its signature."""
        for headers, body in self.posted:
            signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
            expected = base64.b64encode(hmac.new(KEY, signed, sha256).digest()).decode()
            assert headers["webhook-signature"] == f"v1,{expected}"
        return [json.loads(body) for _, body in self.posted]


class _Silent(Receiver):
    """Does not answer the first notice until its client has gone away."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    async def status(self, reader: asyncio.StreamReader) -> int:
        if len(self.posted) == 1:
            self._clock.advance(seconds=11)
            await reader.read()
        return await super().status(reader)


async def send_due(environment: Environment, notices: ApprovalNotices) -> bool:
    """Send what is due; False if nothing was."""
    before = notices.deliveries.total()
    await DueWorker(environment.database, [notices.handler], environment.clock).serve()
    return notices.deliveries.total() > before


def notices_of(environment: Environment, url: str, **more: Any) -> ApprovalNotices:
    store = ApprovalStore(environment.database, record_key=environment.record_key)
    return ApprovalNotices(store, Webhook(url, KEY, **more), environment.clock)


async def test_each_kind_is_sent_once_it_was_taken(each_environment: Environment, clock: ManualClock) -> None:
    environment, receiver = each_environment, Receiver(500, 302)
    chat = chat_of(environment, ADD)
    async with receiver.url() as url:
        notices = notices_of(environment, url, page="https://agent.example")
        assert not await send_due(environment, notices)
        request = request_of(await chat.send("ann", "add bread"))
        for _ in range(3):
            assert await send_due(environment, notices)
            assert not await send_due(environment, notices)
            clock.advance(minutes=1)
        clock.advance(hours=12)
        assert await send_due(environment, notices)
        assert not await send_due(environment, notices)
        await respond(chat, request)
        assert await send_due(environment, notices)
        clock.advance(hours=13)
        assert not await send_due(environment, notices)
    sent = receiver.verified()
    assert [one["type"] for one in sent] == [f"approval.{kind}" for kind in (*["requested"] * 3, "reminder", "closed")]
    # A receiver knows a repetition by the id.
    assert len({headers["webhook-id"] for headers, _ in receiver.posted}) == 3
    assert sent[0]["data"] == {
        "id": request.id,
        "state": "open",
        "tool": "add_task",
        "roles": ["manager"],
        "expires_at": request.action.expires_at.isoformat(),
        "digest": request.digest,
        "link": f"https://agent.example/inbox/{request.id}",
    }
    assert sent[-1]["data"]["state"] == "approved"
    assert b"bread" not in b"".join(body for _, body in receiver.posted)
    assert notices.deliveries == {"sent": 3, "failed": 2}


async def test_a_notice_that_is_not_answered_in_time_is_sent_again(environment: Environment, clock: ManualClock) -> None:
    await chat_of(environment, ADD).send("ann", "add bread")
    receiver = _Silent(clock)
    async with receiver.url() as url:
        notices = notices_of(environment, url)
        freeze_loop_time(clock)
        assert await send_due(environment, notices)
        clock.advance(minutes=1)
        assert await send_due(environment, notices)
    assert len(receiver.verified()) == 2
    assert notices.deliveries == {"sent": 1, "failed": 1}


async def test_texts_are_sent_only_if_the_operator_wants_them(environment: Environment) -> None:
    receiver = Receiver()
    await chat_of(environment, ADD).send("ann", "add bread")
    async with receiver.url() as url:
        assert await send_due(environment, notices_of(environment, url, texts=True))
    data = receiver.verified()[0]["data"]
    assert (data["requester"], data["rules"]) == ("ann", ["additions need a manager"])
    assert "bread" in data["description"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(environment: Environment, status: int) -> None:
    elsewhere = Receiver()
    await chat_of(environment, ADD).send("ann", "add bread")
    async with elsewhere.url() as location, Receiver(status, location=location).url() as url:
        notices = notices_of(environment, url)
        assert await send_due(environment, notices)
    assert (elsewhere.posted, notices.deliveries) == ([], {"sent": 0, "failed": 1})


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "100.100.100.200"])
async def test_an_address_of_a_metadata_service_gets_nothing(environment: Environment, host: str) -> None:
    """Nothing is connected: the sandbox of the tests would fail at any other address than that of this machine."""
    await chat_of(environment, ADD).send("ann", "add bread")
    notices = notices_of(environment, f"https://{host}/latest")
    assert await send_due(environment, notices)
    assert notices.deliveries == {"sent": 0, "failed": 1}


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://example.org/hook", f"whsec_{base64.b64encode(KEY).decode()}"),
        ("https://example.org/hook", ""),
        ("https://example.org/hook", "whsec_c2hvcnQ="),
        ("https://example.org/hook", "not a key"),
    ],
)
def test_a_webhook_that_is_not_safe_is_one_sentence(url: str, secret: str) -> None:
    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_WEBHOOK"):
        read_settings({"GRAPH_AGENT_WEBHOOK_URL": url, "GRAPH_AGENT_WEBHOOK_SECRET": secret})
