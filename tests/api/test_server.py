"""The API on a real server: clients that disconnect, endless bodies, and a shutdown."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.reply.fixed import FAILURE_REPLY
from graph_agent.testing import says
from tests.api.live_server import LiveServer, live_server


class WaitingModel(ScriptedAdapter):
    """A model that never answers. `asked` is set, for other threads, when it is called."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = threading.Event()

    async def generate(self, messages: list[LLMMessage], tools: list[ToolDeclaration], *_: object, **__: object) -> LLMResponse:
        self.asked.set()
        await asyncio.Event().wait()
        return says(f"never, to {len(messages)} and {len(tools)}")


@pytest.fixture
def model() -> WaitingModel:
    return WaitingModel()


@pytest.fixture
def server(tmp_path: Path, template: Path, model: WaitingModel) -> Iterator[LiveServer]:
    with live_server(tmp_path, template, lambda environment: environment.runtime(model)) as server:
        yield server


def test_a_shutdown_closes_the_record_of_a_disconnected_client(tmp_path: Path, server: LiveServer, model: WaitingModel) -> None:
    address = httpx.URL(server.url)
    with closing(socket.create_connection((address.host, address.port))) as caller:
        body = b'{"content": "hello"}'
        head = ("POST /api/chat HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}")
        caller.sendall("\r\n".join((*head, "", "")).encode() + body)
        assert model.asked.wait(60)
    server.stop()
    assert server.ended.wait(60)
    assert _rows(tmp_path / "graph_agent.db", "SELECT status, outcome_category FROM decision_logs") == [
        ("interrupted", "ERROR:RESPONSE_GENERATION")
    ]
    assert _rows(tmp_path / "graph_agent.db", "SELECT state FROM turns") == [("done",)]
    assert _rows(tmp_path / "graph_agent.db", "SELECT content FROM messages") == [("hello",), (FAILURE_REPLY,)]


def test_a_request_that_a_shutdown_cancels_is_answered_with_its_decision(
    tmp_path: Path, server: LiveServer, model: WaitingModel
) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(server.post, "/api/chat", json={"content": "hello"})
        assert model.asked.wait(60)
        server.stop()
        answer = waiting.result()
    assert server.ended.wait(60)
    assert (answer.status_code, answer.json()["reply"]) == (200, FAILURE_REPLY)
    decisions = "SELECT decision_id FROM decision_logs WHERE status = 'interrupted'"
    assert _rows(tmp_path / "graph_agent.db", decisions) == [(answer.json()["decision_id"],)]


def test_a_client_that_disconnects_while_sending_its_body_is_not_logged_as_an_error(
    server: LiveServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = httpx.URL(server.url)
    with closing(socket.create_connection((address.host, address.port))) as caller:
        head = ("POST /api/chat HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 50")
        caller.sendall("\r\n".join((*head, "", "")).encode() + b'{"content"')
        assert server.get("/healthz").status_code == 200
    server.stop()
    assert server.ended.wait(60)
    assert [entry for entry in caplog.records if entry.levelname in ("ERROR", "CRITICAL")] == []
    assert _rows(tmp_path / "graph_agent.db", "SELECT status FROM decision_logs") == []


def test_a_body_of_twenty_megabytes_is_refused_early(server: LiveServer) -> None:
    answer = server.post("/api/chat", content=b"[" * 20_000_000, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert server.get("/healthz").status_code == 200


def _rows(file: Path, query: str) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()
