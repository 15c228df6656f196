"""The cost of an adapter per call beside the bare SDK and bare HTTP, and the event loop under a hundred calls at once.

The server answers at once and runs in another process, so that only the client's work is measured; the sides take turns.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, ToolDeclaration

MODEL = "gemini-3.8-flash"
CALLS = 60
AT_ONCE = 100
LAG_LIMIT_MS = 200

CASES = {"no tools": (0, 0), "ten tools": (10, 0), "ten tools, ten rounds": (10, 10)}
"""Name -> number of tools, number of tool rounds of history."""

Side = Callable[[], Awaitable[Any]]

GEMINI_SAYS = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Done."}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11},
}
OPENAI_SAYS = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}


class _Instant(asyncio.Protocol):
    """An HTTP server that answers every complete request at once, in the protocol its path asks for."""

    def __init__(self) -> None:
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, rest = self._read.partition(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
            if len(rest) < length:
                return
            self._read = rest[length:]
            says = OPENAI_SAYS if b"/chat/completions" in head.split(b"\r\n", 1)[0] else GEMINI_SAYS
            body = json.dumps(says).encode()
            answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            self._transport.write(answer % (len(body), body))


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Instant, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def declarations(count: int) -> list[ToolDeclaration]:
    schema = {
        "type": "object",
        "properties": {
            "task_id": {"type": "string", "format": "uuid", "description": "Which one"},
            "description": {"type": "string", "minLength": 1, "maxLength": 1000},
            "status": {"type": "string", "enum": ["pending", "completed", "all"]},
        },
        "required": ["task_id"],
        "additionalProperties": False,
    }
    return [ToolDeclaration(name=f"tool_{n}", description=f"Does the thing {n}.", parameters=schema) for n in range(count)]


def conversation(rounds: int) -> list[LLMMessage]:
    messages = [LLMMessage(role="user", content="do ten things")]
    for n in range(rounds):
        call = FunctionCall(name=f"tool_{n}", arguments={"task_id": str(n)}, id=f"id{n}")
        part = {"functionCall": {"name": call.name, "args": call.arguments, "id": call.id}, "thoughtSignature": "QUJD" * 50}
        stored = {"provider": "gemini", "model": MODEL, "content": [part]}
        answer = FunctionResponse(name=call.name, response={"ok": True, "n": n}, id=call.id)
        messages.append(LLMMessage(role="assistant", function_calls=[call], provider_parts=stored))
        messages.append(LLMMessage(role="function", function_response=answer))
    return messages


def gemini_adapter(url: str, tools: int, rounds: int) -> Side:
    adapter = GeminiAdapter("k", MODEL, base_url=url)
    messages, declared = conversation(rounds), declarations(tools)
    return lambda: adapter.generate(messages, declared, system_instruction="Be brief.")


def openai_adapter(url: str, tools: int, rounds: int) -> Side:
    adapter = OpenAICompatibleAdapter("k", MODEL, base_url=url)
    messages, declared = conversation(rounds), declarations(tools)
    return lambda: adapter.generate(messages, declared, system_instruction="Be brief.")


def bare_httpx(url: str, tools: int, rounds: int) -> Side:
    """The same body, sent and read as JSON."""
    import httpx

    from graph_agent.llm.families import family_of
    from graph_agent.llm.gemini import build_contents, build_tools

    body = {"contents": build_contents(conversation(rounds), family_of(MODEL)), "tools": build_tools(declarations(tools))}
    client = httpx.AsyncClient(base_url=url)

    async def call() -> Any:
        response = await client.post(f"/v1beta/models/{MODEL}:generateContent", json=body)
        return response.json()

    return call


def bare_sdk(url: str, tools: int, rounds: int) -> Side:
    """google-genai, with its own types for contents and tools, built beforehand."""
    from google.genai import Client, types

    from graph_agent.llm.families import family_of
    from graph_agent.llm.gemini import build_contents

    client = Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    declared = [
        types.FunctionDeclaration(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in declarations(tools)
    ]
    config = types.GenerateContentConfig(
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=declared)] if declared else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    contents: Any = [types.Content.model_validate(one) for one in build_contents(conversation(rounds), family_of(MODEL))]
    return lambda: client.aio.models.generate_content(model=MODEL, contents=contents, config=config)


def bare_langchain(url: str, tools: int, rounds: int) -> Side:
    """ChatGoogleGenerativeAI as it is, with tools built beforehand."""
    from google.genai import types
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_google_genai import ChatGoogleGenerativeAI
    from pydantic import SecretStr

    model = ChatGoogleGenerativeAI(model=MODEL, api_key=SecretStr("k"), base_url=url, max_retries=1)
    declared = [
        types.FunctionDeclaration(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in declarations(tools)
    ]
    messages: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("do ten things")]
    for n in range(rounds):
        called = {"name": f"tool_{n}", "args": {"task_id": str(n)}, "id": f"id{n}", "type": "tool_call"}
        messages.append(AIMessage(content="", tool_calls=[called]))
        messages.append(ToolMessage(content=json.dumps({"ok": True, "n": n}), tool_call_id=f"id{n}", name=f"tool_{n}"))
    settings: dict[str, Any] = {"tools": [types.Tool(function_declarations=declared)]} if declared else {}
    return lambda: model.ainvoke(messages, **settings)


SIDES: dict[str, Callable[[str, int, int], Side]] = {
    "bare httpx": bare_httpx,
    "bare google-genai": bare_sdk,
    "bare ChatGoogleGenerativeAI": bare_langchain,
    "GeminiAdapter": gemini_adapter,
    "OpenAICompatibleAdapter": openai_adapter,
}
CONCURRENT = ("bare google-genai", "GeminiAdapter", "OpenAICompatibleAdapter")


async def per_call(url: str) -> dict[str, dict[str, float]]:
    """CPU milliseconds of one call, the median: case -> side -> figure."""
    figures: dict[str, dict[str, float]] = {}
    for case, (tools, rounds) in CASES.items():
        sides = {name: make(url, tools, rounds) for name, make in SIDES.items()}
        spent: dict[str, list[float]] = {name: [] for name in sides}
        for n in range(CALLS + 5):
            for name, call in sides.items():
                began = time.process_time()
                await call()
                if n >= 5:
                    spent[name].append((time.process_time() - began) * 1000)
        figures[case] = {name: statistics.median(values) for name, values in spent.items()}
    return figures


async def lag(url: str, name: str) -> tuple[float, float]:
    """The longest time in milliseconds that the loop was late while `AT_ONCE` calls ran, and what they took altogether."""
    call = SIDES[name](url, *CASES["ten tools"])
    await call()
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - began - 0.001)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0.01)
    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(AT_ONCE)))
    took = time.perf_counter() - began
    watching.cancel()
    return worst * 1000, took * 1000


async def measure(url: str) -> None:
    import importlib.metadata as metadata

    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("langchain-google-genai", "google-genai", "httpx"))
    print(f"CPU per call against a server that answers at once ({versions}), in ms\n")
    figures = await per_call(url)
    print(f"{'':30}" + "".join(f"{case:>24}" for case in CASES))
    for name in SIDES:
        print(f"{name:30}" + "".join(f"{figures[case][name]:24.1f}" for case in CASES))
    print(f"\n{AT_ONCE} calls at once, ten tools: how late the event loop was (at most {LAG_LIMIT_MS} ms for an adapter)\n")
    for name in CONCURRENT:
        worst, took = await lag(url, name)
        print(f"{name:30}{worst:10.0f} ms late{took:10.0f} ms in all")


def main() -> None:
    warnings.simplefilter("ignore")
    with subprocess.Popen([sys.executable, "-m", "benchmarks.adapters", "serve"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            asyncio.run(measure(f"http://127.0.0.1:{server.stdout.readline().strip()}"))
        finally:
            server.kill()


if __name__ == "__main__":
    asyncio.run(_serve()) if sys.argv[1:] == ["serve"] else main()
