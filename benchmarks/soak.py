"""A long run of a server, which fails if its memory, descriptors, tasks or threads grow.

    python -m benchmarks.soak [MINUTES]

Several visitors (simulated users) at a time send the same mix of requests: changes, questions, confirmations, repeated keys,
invalid requests, streams that are read to their end and streams that are closed early. The server measures itself every second.
The exit code is 1 if one of the four figures is not flat after the warm-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import jwt

VISITORS = 4
"""The number of visitors at the same time."""
_WARM_UP_VISITS = 4
"""Visits of each visitor before the run, so that thread pools fill up also on a slow machine."""
_WARM_UP = 0.3
"""The part of the run that is not measured: caches and the allocator fill up."""
_WINDOW = 10
"""The number of samples of which the smallest counts: what a turn uses while it runs is no growth."""
_AUDIENCE = "soak"

FIGURES = {"memory": "MB", "descriptors": "", "tasks": "", "threads": ""}
MAX_GROWTH = {"memory": 5.0, "descriptors": 5.0, "tasks": 10.0, "threads": 5.0}
"""How much a figure may grow while it is measured, or, if there are more, in 10,000 turns. A running turn has several tasks."""


@dataclass(frozen=True)
class Slope:
    """The line through the samples of one figure."""

    figure: str
    start: float
    per_minute: float
    growth: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed

    def __str__(self) -> str:
        unit = FIGURES[self.figure]
        verdict = "flat" if self.is_flat else f"NOT FLAT (more than {self.allowed:g} {unit}".rstrip() + ")"
        return f"{self.figure:<12} {self.start:8.1f} {unit:2} {self.per_minute:+8.3f} {unit}/min  {verdict}"


def slopes(samples: list[dict[str, float]], turns: int) -> list[Slope]:
    """Return the slope of every figure after the warm-up; `samples` have their time in seconds as `at`."""
    measured = samples[int(len(samples) * _WARM_UP) :]
    windows = [measured[at : at + _WINDOW] for at in range(0, len(measured) - _WINDOW + 1, _WINDOW)]
    at = [window[0]["at"] for window in windows]
    found = []
    for figure, allowed in MAX_GROWTH.items():
        line = statistics.linear_regression(at, [min(sample[figure] for sample in window) for window in windows])
        growth = line.slope * (at[-1] - at[0])
        start = line.intercept + line.slope * at[0]
        scale = max(1.0, turns * (1 - _WARM_UP) / 10_000)
        found.append(Slope(figure, start, line.slope * 60, growth, round(allowed * scale, 1)))
    return found


async def drive(port: int, secret: str, seconds: float) -> tuple[int, float]:
    """Send the requests of visitors for `seconds` after a warm-up; return the number of turns, and when the warm-up ended."""
    turns, began = 0, 0.0

    async def warm_up(client: httpx.AsyncClient) -> None:
        for _ in range(_WARM_UP_VISITS):
            await _visit(client, secret)

    async def visit_again_and_again(client: httpx.AsyncClient) -> None:
        nonlocal turns
        while time.monotonic() < began + seconds:
            turns += await _visit(client, secret)

    limits = httpx.Limits(max_keepalive_connections=VISITORS)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=limits) as client:
        await asyncio.gather(*(warm_up(client) for _ in range(VISITORS)))
        began = time.monotonic()
        await asyncio.gather(*(visit_again_and_again(client) for _ in range(VISITORS)))
    return turns, began


async def _visit(client: httpx.AsyncClient, secret: str) -> int:
    """Send the requests of one visitor, who is a new user; return the number of turns. Raises if an answer is not expected."""
    claims = {"sub": f"visitor-{uuid.uuid4()}", "aud": _AUDIENCE, "exp": datetime.now(UTC) + timedelta(minutes=10)}
    user = {"Authorization": f"Bearer {jwt.encode(claims, secret, 'HS256')}"}

    async def send(content: str, expected: int = 200, key: str | None = None, **more: object) -> dict[str, object]:
        headers = user if key is None else {**user, "Idempotency-Key": key}
        answer = await client.post("/api/chat", json={"content": content, **more}, headers=headers)
        if answer.status_code != expected:
            raise RuntimeError(f"'{content}' was answered with {answer.status_code} instead of {expected}: {answer.text}")
        found: dict[str, object] = answer.json()
        return found

    for content in ("add a task to call mom", "add buy milk and then add pay the rent", "show my tasks", "what's the weather?"):
        await send(content)
    await send("mark buy milk as done")
    await send("rename pay the rent to pay the landlord")
    await send("groceries")
    key = str(uuid.uuid4())
    first = await send("add a task to water the plants", key=key)
    if await send("add a task to water the plants", key=key) != first:
        raise RuntimeError("a repeated request got another answer")
    await send("add something else", 422, key=key)
    for answer in ("yes", "no", "by id"):
        asked = await send("delete the call mom task" if answer != "by id" else "delete the pay the landlord task")
        if answer == "by id":
            decision = asked["decision"]
            assert isinstance(decision, dict)
            await send("yes", answers={"pending_action": decision["pending_action"]["id"], "yes": True})
        else:
            await send(answer, conversation_id=asked["conversation_id"])
    for read_all in (True, False):
        body = {"content": "show my tasks"}
        async with client.stream("POST", "/api/chat/stream", json=body, headers=user) as stream:
            async for _ in stream.aiter_lines():
                if not read_all:
                    break
    for path, status in (("decisions", 200), ("conversations", 200), (f"decisions/{first['decision_id']}", 200)):
        answered = await client.get(f"/api/{path}", headers=user)
        assert answered.status_code == status, answered.text
    refused = await client.post("/api/chat", content=b"{", headers={**user, "Content-Type": "application/json"})
    assert refused.status_code == 422, refused.text
    assert (await client.get("/api/decisions")).status_code == 401
    return 16


@contextmanager
def serving(home: Path, secret: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """Run a server that writes samples; yield its process, its port and the file of the samples."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GEMINI", "OPENAI", "GRAPH_"))}
    environment |= {
        "GRAPH_AGENT_HOME": str(home),
        "GRAPH_AGENT_MODEL": "embedded",
        "GRAPH_AGENT_SECRET": secrets.token_hex(32),
        "GRAPH_AGENT_JWT_SECRET": secret,
        "GRAPH_AGENT_JWT_AUDIENCE": _AUDIENCE,
    }
    command = [sys.executable, "-m", "benchmarks.soak", "--serve", str(home / "samples")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as server:
        assert server.stderr is not None
        try:
            for line in server.stderr:
                if found := re.search(rb"serving http://\S+:(\d+)", line):
                    break
            else:
                raise RuntimeError("the server did not start")
            # Read the rest of stderr: a full pipe would block the server.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield server, int(found[1]), home / "samples"
        finally:
            server.kill()


def serve_with_samples(file: Path) -> None:
    """Run `graph-agent serve` in this process, and write one line with every figure each second."""
    from graph_agent.cli import serve
    from graph_agent.cli.main import main as run_command

    class SamplingServer(serve.Server):
        async def serve(self, sockets: object = None) -> None:
            sampling = asyncio.create_task(_write_samples(file))
            try:
                await super().serve(sockets)  # type: ignore[arg-type]  # as uvicorn declares it
            finally:
                sampling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sampling

    serve.Server = SamplingServer  # type: ignore[misc]  # `graph-agent serve` then constructs this class
    run_command(["serve", "--port", "0", "--no-page"])


async def _write_samples(file: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    with file.open("w", encoding="utf-8") as out:
        for second in itertools.count():
            sample = {
                "at": time.monotonic(),
                "memory": int(Path("/proc/self/statm").read_text().split()[1]) * page / 1e6,  # noqa: ASYNC240 (no disk)
                "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 (no Path for each of them)
                "tasks": len(asyncio.all_tasks()),
                "threads": len(os.listdir("/proc/self/task")),  # noqa: PTH208 (as above)
            }
            out.write(json.dumps(sample) + "\n")
            if second % _WINDOW == 0:
                out.flush()
            await asyncio.sleep(1)


def main(minutes: float) -> int:
    """Run for this many minutes and print the slopes; return 1 if a figure is not flat."""
    secret = secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as folder:
        with serving(Path(folder), secret) as (server, port, file):
            turns, began = asyncio.run(drive(port, secret, minutes * 60))
            server.send_signal(signal.SIGTERM)
            exit_code = server.wait(120)
        sampled = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        # Both processes read the same monotonic clock of the machine.
        samples = [sample for sample in sampled if sample["at"] >= began]
    print(f"{turns} turns in {minutes:g} min by {VISITORS} visitors at a time; the server exited with {exit_code}")
    found = slopes(samples, turns)
    print(*found, sep="\n")
    return int(exit_code != 0 or not all(slope.is_flat for slope in found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_with_samples(Path(sys.argv[2]))
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 5))
