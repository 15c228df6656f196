"""A provider that plays answers and checks every request by the rules of its protocol.

It checks the address and the key; that every call has exactly one result, in call order, with the name of the call and with its
id if it has one; and that messages with calls are sent back unchanged, with their signatures.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.llm.wire_apis import API
from tests.llm.wire_server import Reply, Request, WireServer, Writer, says, serving

KEY = "secret-key"


@dataclass(frozen=True)
class Result:
    """A tool result in a request. `name` is None if the protocol has only ids."""

    name: str | None
    id: str | None
    response: dict[str, Any]


@dataclass(frozen=True)
class AfterResults:
    """An answer that is made from the tool results in the request."""

    make: Callable[[list[Result]], dict[str, Any]]


Answer = dict[str, Any] | AfterResults | Reply
"""An answer as JSON, one that depends on the request, or a reply of any other kind."""


class ProtocolViolationError(Exception):
    """A request breaks a rule of the protocol."""


@dataclass
class Provider:
    """Plays `answers` in order and repeats the last one."""

    api: API
    answers: Sequence[Answer]
    wire: WireServer = field(default_factory=lambda: WireServer(()))
    said: list[Any] = field(default_factory=list)
    """The messages with calls that the provider has sent, in the form of its protocol."""
    violations: list[str] = field(default_factory=list)
    """The violations found in requests, each of which was answered with status 400."""
    checked: bool = True
    """False if requests are not checked: a check of the endpoint is not a turn."""

    @property
    def url(self) -> str:
        """The base URL for a client. It has a path, which clients must keep."""
        return f"{self.wire.url}/some/where"

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.wire.requests if request.method == "POST"]

    def results(self, number: int = -1) -> list[Result]:
        """Return the tool results in a request, in order."""
        return _PROTOCOLS[self.api.name].results(self.bodies[number])

    def spoken(self, number: int = -1) -> list[tuple[str, str]]:
        """Return the texts in a request with their roles, `user` or `assistant`, without calls and results."""
        return _PROTOCOLS[self.api.name].spoken(self.bodies[number])

    async def reply(self, writer: Writer) -> bool:
        answer = self.answers[min(len(self.wire.requests), len(self.answers)) - 1]
        protocol = _PROTOCOLS[self.api.name]
        try:
            if self.checked:
                protocol.check(self.wire.requests[-1], self.said)
        except ProtocolViolationError as exc:
            self.violations.append(str(exc))
            return await says(self.api.error(400), 400)(writer)
        if isinstance(answer, AfterResults):
            answer = answer.make(self.results())
        if not isinstance(answer, dict):
            return await answer(writer)
        self.said += protocol.with_calls(answer)
        return await says(answer)(writer)


@asynccontextmanager
async def providing(api: API, *answers: Answer) -> AsyncIterator[Provider]:
    """Run a provider on a free port of 127.0.0.1 while the context is open."""
    provider = Provider(api, answers)
    async with serving(provider.reply) as provider.wire:
        yield provider


@contextmanager
def providing_in_thread(api: API, *answers: Answer) -> Iterator[Provider]:
    """Run a provider in its own thread, for clients that are synchronous or run their own event loop."""
    ready = threading.Event()
    started: list[tuple[Provider, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with providing(api, *answers) as provider:
            over = asyncio.Event()
            started.append((provider, asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    provider, loop, over = started[0]
    try:
        yield provider
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


class _Gemini:
    """`generateContent`."""

    def check(self, request: Request, said: Sequence[Any]) -> None:
        _require(request.method == "POST", "the method is not POST")
        _require(request.path.startswith("/some/where/v1beta/models/"), "the path is not the model's")
        _require(request.path.endswith(":generateContent"), "the path is not the method's")
        _require(request.headers.get("x-goog-api-key") == KEY, "the key is not in its header")
        contents = request.body["contents"]
        _require(contents[0]["role"] == "user", "the conversation does not begin with the user")
        _require(all(content["parts"] for content in contents), "a content is empty")
        _require("candidateCount" not in request.body["generationConfig"], "candidateCount is deprecated")
        for before, content in zip([{"parts": []}, *contents], contents, strict=False):
            calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
            results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            _require(not results or content["role"] == "user", "a result that is not the user's")
            answered = [(result["name"], result.get("id")) for result in results]
            _require(answered == [(call["name"], call.get("id")) for call in calls], f"{calls} answered by {results}")
            _require(all(isinstance(result["response"], dict) for result in results), "a result that is no object")
        with_calls = [content for content in contents if any("functionCall" in part for part in content["parts"])]
        _require(all(content in said for content in with_calls), "a call was changed")

    def with_calls(self, answer: dict[str, Any]) -> list[Any]:
        contents = [candidate["content"] for candidate in answer.get("candidates", ()) if "content" in candidate]
        return [content for content in contents if any("functionCall" in part for part in content.get("parts", ()))]

    def results(self, body: Any) -> list[Result]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        return [Result(result["name"], result.get("id"), result["response"]) for result in responses]

    def spoken(self, body: Any) -> list[tuple[str, str]]:
        who = {"user": "user", "model": "assistant"}
        texts = [
            (who[content["role"]], "".join(part.get("text", "") for part in content["parts"])) for content in body["contents"]
        ]
        return [(role, text) for role, text in texts if text]


class _OpenAI:
    """Chat completions."""

    def check(self, request: Request, said: Sequence[Any]) -> None:
        _require(request.method == "POST", "the method is not POST")
        _require(request.path == "/some/where/chat/completions", "the path is not the method's")
        _require(request.headers.get("authorization") == f"Bearer {KEY}", "the key is not in its header")
        messages = request.body["messages"]
        _require(
            [message["role"] for message in messages[:2]] == ["system", "user"],
            "the conversation does not begin with system and user",
        )
        waiting: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                _require(
                    waiting[:1] == [message["tool_call_id"]], f"a result for {message['tool_call_id']}, not for {waiting[:1]}"
                )
                _require(isinstance(json.loads(message["content"]), dict), "a result that is no object")
                waiting = waiting[1:]
                continue
            _require(not waiting, f"no result for {waiting}")
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            if waiting:
                _require(all(waiting) and len(set(waiting)) == len(waiting), "ids that are empty, or not different")
                _require(any(_same(message, one) for one in said), "a call was changed")
        _require(not waiting, f"no result for {waiting}")

    def with_calls(self, answer: dict[str, Any]) -> list[Any]:
        messages = [choice["message"] for choice in answer.get("choices", ()) if "message" in choice]
        return [message for message in messages if message.get("tool_calls")]

    def results(self, body: Any) -> list[Result]:
        return [
            Result(None, message["tool_call_id"], json.loads(message["content"]))
            for message in body["messages"]
            if message["role"] == "tool"
        ]

    def spoken(self, body: Any) -> list[tuple[str, str]]:
        texts = [(message["role"], message.get("content") or "") for message in body["messages"]]
        return [(role, text) for role, text in texts if role in ("user", "assistant") and text]


_PROTOCOLS: dict[str, _Gemini | _OpenAI] = {"gemini": _Gemini(), "openai": _OpenAI()}


def _same(message: dict[str, Any], said: dict[str, Any]) -> bool:
    """True if `message` equals `said`, except for ids of calls that the model sent without one."""
    if len(message["tool_calls"]) != len(said["tool_calls"]):
        return False
    pairs = zip(message["tool_calls"], said["tool_calls"], strict=True)
    same_calls = all(back == {**sent, "id": sent["id"] or back["id"]} for back, sent in pairs)
    return same_calls and message.get("extra_content") == said.get("extra_content")


def _require(condition: bool, violation: str) -> None:
    if not condition:
        raise ProtocolViolationError(violation)
