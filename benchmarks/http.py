"""CPU of `POST /api/chat` beside the bare turn and beside a watched turn; requests a second with 50 clients.

    python -m benchmarks.http

The server is a separate process, whose CPU time is read from `/proc` (Linux); the CPU of the client is not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.goals import against
from benchmarks.spin import spin_microseconds
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.models.decision import DecisionContext
from graph_agent.settings import Settings

MESSAGE = "add a task to call mom"
GOAL_RATIO = 1.3
GOAL_CROWDED_SPINS = 12.0
"""120 requests a second and core on a machine whose spin takes 0.69 ms."""
GOAL_WATCHED = 1.1
BATCH = 25
ROUNDS = 16
CLIENTS = 50
REQUESTS_EACH = 8
WAVES = 2

_BODY = json.dumps({"content": MESSAGE}).encode()
_HEAD = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY)
CHAT, _STREAM = (b"POST %s HTTP/1.1\r\n%s%s" % (path, _HEAD, _BODY) for path in (b"/api/chat", b"/api/chat/stream"))
_ADDRESS = re.compile(r"https?://[\d.]+:(\d+)")
_ECHO = """
from typing import Any
import fastapi, uvicorn
app = fastapi.FastAPI()
@app.post("/api/chat")
async def chat(body: dict[str, Any]) -> dict[str, Any]:
    return body
uvicorn.run(app, port=0, access_log=False)
"""
"""FastAPI alone, with the same request."""
_TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(home: Path, *more: str, url: str | None = None) -> Iterator[tuple[int, int]]:
    """Run a server with the embedded model in `home` or on the database at `url`; yield its process id and its port."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GEMINI", "OPENAI", "GRAPH_"))}
    environment |= {"GRAPH_AGENT_HOME": str(home), "GRAPH_AGENT_TURNS_PER_MINUTE": "1000000"}
    if url is not None:
        environment["DATABASE_URL"] = url
    options = ["--port", "0", "--no-page", "--no-token", "--model", "embedded", *more]
    with _started(f"from graph_agent.cli.main import main; main({['serve', *options]})", environment) as server:
        yield server


@contextmanager
def _started(code: str, environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Run a server; yield its process id, and the port that it prints."""
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        try:
            yield server.pid, next(int(found[1]) for line in server.stderr if (found := _ADDRESS.search(line)))
        finally:
            server.terminate()


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process and of those that it has started, all threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    return (int(fields[11]) + int(fields[12])) / _TICK + sum(cpu_of(int(one)) for one in started)


async def send(port: int, requests: int, request: bytes = CHAT) -> None:
    """Send requests one after the other; one that is refused for lack of capacity is sent again, on a new connection."""
    while requests:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while requests and await is_answered(reader, writer, request):
                requests -= 1
        writer.close()
        if requests:
            await asyncio.sleep(1)


async def is_answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bool:
    """Send a request and read its response; return True unless it is refused."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    if length is None:
        # A stream of events, in chunks.
        await reader.readuntil(b"\r\n0\r\n\r\n")
    else:
        await reader.readexactly(int(length[1]))
    return head.startswith(b"HTTP/1.1 200")


@dataclass(frozen=True)
class Measured:
    """CPU in spins: of each way for a turn, and of a request with many clients."""

    spent: dict[str, float]
    crowded: float
    watched_ratios: list[float]
    """In each round the CPU of the watched turns to that of the turns that are not watched."""
    waited: dict[str, float]
    """The seconds until an answer, one request after the other."""


async def measure(home: Path) -> Measured:
    """Measure the ways by turns, so that a change of the machine's speed affects all of them."""
    settings = Settings(home=home / "bare", turns_per_minute=1_000_000)
    with serving(home / "served") as (server, port), _started(_ECHO, dict(os.environ)) as (echo, echo_port):
        async with open_runtime(settings, model="embedded") as runtime:

            async def engine() -> None:
                context = DecisionContext(user_id="local", message=MESSAGE, conversation_id="c")
                for _ in range(BATCH):
                    await runtime.engine.run(context)

            async def http() -> None:
                await send(port, BATCH)

            async def echoed() -> None:
                await send(echo_port, BATCH)

            async def watched() -> None:
                await send(port, BATCH, _STREAM)

            ways: dict[str, tuple[Callable[[], Awaitable[Any]], Callable[[], float]]] = {
                "bare turn": (engine, time.process_time),
                "echo": (echoed, lambda: cpu_of(echo)),
                "HTTP": (http, lambda: cpu_of(server)),
                "watched": (watched, lambda: cpu_of(server)),
            }
            spent: dict[str, list[float]] = {name: [] for name in ways}
            waited: dict[str, list[float]] = {name: [] for name in ways}
            ratios = []
            for round_number in range(ROUNDS + 1):
                taken_by = {}
                # Every other round in the opposite order: what comes later in a round finds more tasks.
                order = list(ways.items())
                for name, (work, cpu) in order if round_number % 2 else reversed(order):
                    before, unit = cpu(), spin_microseconds(20) / 1e6
                    after_spins = cpu() if cpu is time.process_time else before
                    started = time.perf_counter()
                    await work()
                    waited[name].append((time.perf_counter() - started) / BATCH)
                    taken_by[name] = cpu() - after_spins
                    # The first round warms both up.
                    if round_number:
                        spent[name].append(taken_by[name] / unit / BATCH)
                if round_number:
                    ratios.append(taken_by["watched"] / taken_by["HTTP"])
            crowded = []
            for _ in range(WAVES):
                before, unit = cpu_of(server), spin_microseconds(20) / 1e6
                await asyncio.gather(*(send(port, REQUESTS_EACH) for _ in range(CLIENTS)))
                taken = cpu_of(server) - before
                unit = (unit + spin_microseconds(20) / 1e6) / 2
                crowded.append(taken / unit / (CLIENTS * REQUESTS_EACH))
    medians = {name: statistics.median(times) for name, times in spent.items()}
    return Measured(
        medians, statistics.median(crowded), ratios, {name: statistics.median(times) for name, times in waited.items()}
    )


def main() -> None:
    """Print the CPU of a turn without and with HTTP."""
    with tempfile.TemporaryDirectory() as home:
        measured = asyncio.run(measure(Path(home)))
    spent, crowded = measured.spent, measured.crowded
    unit = spin_microseconds() / 1000
    ratio = spent["HTTP"] / spent["bare turn"]
    print("CPU of POST /api/chat with the embedded model, beside the bare turn (one task is added)")
    print(f"one spin = {unit * 1000:.0f} µs here\n")
    print(f"{'bare turn':18}{spent['bare turn'] * unit:8.1f} ms = {spent['bare turn']:5.1f} spins")
    line = f"{'HTTP, one client':18}{spent['HTTP'] * unit:8.1f} ms = {spent['HTTP']:5.1f} spins, ratio {ratio:.2f}"
    print(line + against("HTTP to the bare turn", ratio, GOAL_RATIO))
    echo, waited = spent["echo"] * unit, measured.waited
    line = f"{'FastAPI alone':18}{echo:8.1f} ms = {spent['echo']:5.1f} spins; an answer takes {waited['echo'] * 1000:.1f} ms"
    print(f"{line}, that of a turn {waited['HTTP'] * 1000:.1f} ms, without HTTP {waited['bare turn'] * 1000:.1f} ms")
    low, ratio, high = statistics.quantiles(measured.watched_ratios, n=4)
    line = f"{'with its events':18}{spent['watched'] * unit:8.1f} ms = {spent['watched']:5.1f} spins, ratio to HTTP {ratio:.2f}"
    print(line + against("a watched turn to one that is not", ratio, GOAL_WATCHED))
    print(f"{'':18}half of the {len(measured.watched_ratios)} rounds between {low:.2f} and {high:.2f}")
    text = f"= {crowded:5.1f} spins, {1000 / (crowded * unit):.0f} requests a second and core"
    line = f"{f'HTTP, {CLIENTS} clients':18}{crowded * unit:8.1f} ms {text}"
    print(line + against("HTTP with many clients", crowded, GOAL_CROWDED_SPINS, " spins"))


if __name__ == "__main__":
    main()
