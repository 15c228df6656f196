"""A provider that is strict about its protocol: it plays answers, and refuses a conversation that is not in order.

Held of every request: the address and the key; every call has exactly one result, in call order, under the call's name, its id
echoed exactly when one was given; what the model said with its calls comes back as it was said, signatures included.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.llm.wire_server import Reply, Request, WireServer, Writer, says, serving
from tests.llm.wire_speakers import Speaker

KEY = "secret-key"


@dataclass(frozen=True)
class Result:
    """A tool's result as it came over the wire; `name` is None where the protocol has only ids."""

    name: str | None
    id: str | None
    response: dict[str, Any]


@dataclass(frozen=True)
class AfterResults:
    """An answer that is made of the tool results so far."""

    make: Callable[[list[Result]], dict[str, Any]]


Answer = dict[str, Any] | AfterResults | Reply
"""An answer as JSON, one that depends on what was asked, or bytes of any kind."""


class DisorderError(Exception):
    """The request is not one that the protocol allows."""


@dataclass
class Provider:
    """Plays `answers` in order, and the last one for ever after."""

    speaker: Speaker
    answers: Sequence[Answer]
    wire: WireServer = field(default_factory=lambda: WireServer(()))
    said: list[Any] = field(default_factory=list)
    """The messages with calls that it has sent, in its protocol's form."""
    disorder: list[str] = field(default_factory=list)
    """What was wrong with requests; each of them was answered with status 400."""
    checked: bool = True
    """Whether it is strict: what looks whether it is there at all asks otherwise."""

    @property
    def url(self) -> str:
        """The base URL that a client is given: one with a path."""
        return f"{self.wire.url}/some/where"

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.wire.requests if request.method == "POST"]

    def results(self, number: int = -1) -> list[Result]:
        """The tool results in a request, in order."""
        return _PROTOCOLS[self.speaker.name].results(self.bodies[number])

    def spoken(self, number: int = -1) -> list[tuple[str, str]]:
        """Who said what in a request: `user` or `assistant`, without calls and their results."""
        return _PROTOCOLS[self.speaker.name].spoken(self.bodies[number])

    async def reply(self, writer: Writer) -> bool:
        answer = self.answers[min(len(self.wire.requests), len(self.answers)) - 1]
        protocol = _PROTOCOLS[self.speaker.name]
        try:
            if self.checked:
                protocol.check(self.wire.requests[-1], self.said)
        except DisorderError as exc:
            self.disorder.append(str(exc))
            return await says(self.speaker.error(400), 400)(writer)
        if isinstance(answer, AfterResults):
            answer = answer.make(self.results())
        if not isinstance(answer, dict):
            return await answer(writer)
        self.said += protocol.with_calls(answer)
        return await says(answer)(writer)


@asynccontextmanager
async def providing(speaker: Speaker, *answers: Answer) -> AsyncIterator[Provider]:
    """A provider on a free port of 127.0.0.1, for as long as the context lasts."""
    provider = Provider(speaker, answers)
    async with serving(provider.reply) as provider.wire:
        yield provider


@contextmanager
def providing_apart(speaker: Speaker, *answers: Answer) -> Iterator[Provider]:
    """The same in a thread of its own, for clients that have the event loop to themselves or none."""
    ready = threading.Event()
    started: list[tuple[Provider, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        async with providing(speaker, *answers) as provider:
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
        _hold(request.method == "POST", "the method is not POST")
        _hold(request.path.startswith("/some/where/v1beta/models/"), "the path is not the model's")
        _hold(request.path.endswith(":generateContent"), "the path is not the method's")
        _hold(request.headers.get("x-goog-api-key") == KEY, "the key is not in its header")
        contents = request.body["contents"]
        _hold(contents[0]["role"] == "user", "the conversation does not begin with the user")
        _hold(all(content["parts"] for content in contents), "a content is empty")
        _hold("candidateCount" not in request.body["generationConfig"], "candidateCount is deprecated")
        for before, content in zip([{"parts": []}, *contents], contents, strict=False):
            calls = [part["functionCall"] for part in before["parts"] if "functionCall" in part]
            results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            _hold(not results or content["role"] == "user", "a result that is not the user's")
            told = [(result["name"], result.get("id")) for result in results]
            _hold(told == [(call["name"], call.get("id")) for call in calls], f"{calls} answered by {results}")
            _hold(all(isinstance(result["response"], dict) for result in results), "a result that is no object")
        made = [content for content in contents if any("functionCall" in part for part in content["parts"])]
        _hold(all(content in said for content in made), "a call does not come back as it was made")

    def with_calls(self, answer: dict[str, Any]) -> list[Any]:
        contents = [candidate["content"] for candidate in answer.get("candidates", ()) if "content" in candidate]
        return [content for content in contents if any("functionCall" in part for part in content.get("parts", ()))]

    def results(self, body: Any) -> list[Result]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        told = [part["functionResponse"] for part in parts if "functionResponse" in part]
        return [Result(result["name"], result.get("id"), result["response"]) for result in told]

    def spoken(self, body: Any) -> list[tuple[str, str]]:
        who = {"user": "user", "model": "assistant"}
        told = [
            (who[content["role"]], "".join(part.get("text", "") for part in content["parts"])) for content in body["contents"]
        ]
        return [(role, text) for role, text in told if text]


class _OpenAI:
    """Chat completions."""

    def check(self, request: Request, said: Sequence[Any]) -> None:
        _hold(request.method == "POST", "the method is not POST")
        _hold(request.path == "/some/where/chat/completions", "the path is not the method's")
        _hold(request.headers.get("authorization") == f"Bearer {KEY}", "the key is not in its header")
        messages = request.body["messages"]
        _hold([message["role"] for message in messages[:2]] == ["system", "user"], "the conversation begins otherwise")
        waiting: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                _hold(
                    waiting[:1] == [message["tool_call_id"]], f"a result for {message['tool_call_id']}, not for {waiting[:1]}"
                )
                _hold(isinstance(json.loads(message["content"]), dict), "a result that is no object")
                waiting = waiting[1:]
                continue
            _hold(not waiting, f"no result for {waiting}")
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            if waiting:
                _hold(all(waiting) and len(set(waiting)) == len(waiting), "ids that are empty, or not different")
                _hold(any(_same(message, one) for one in said), "a call does not come back as it was made")
        _hold(not waiting, f"no result for {waiting}")

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
        told = [(message["role"], message.get("content") or "") for message in body["messages"]]
        return [(role, text) for role, text in told if role in ("user", "assistant") and text]


_PROTOCOLS: dict[str, _Gemini | _OpenAI] = {"gemini": _Gemini(), "openai": _OpenAI()}


def _same(message: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether `message` is `said`, but for ids: the protocol wants one where the model gave none."""
    if len(message["tool_calls"]) != len(said["tool_calls"]):
        return False
    pairs = zip(message["tool_calls"], said["tool_calls"], strict=True)
    calls_are = all(back == {**made, "id": made["id"] or back["id"]} for back, made in pairs)
    return calls_are and message.get("extra_content") == said.get("extra_content")


def _hold(condition: bool, otherwise: str) -> None:
    if not condition:
        raise DisorderError(otherwise)
