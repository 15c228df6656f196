"""The metrics of approval requests: what waits, how and when it ended, and the notices that were not taken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.approval_notices import Webhook
from graph_agent.clock import ManualClock
from graph_agent.llm.scripted import ScriptedAdapter
from tests.chat.environment import Environment
from tests.chat.test_approval_notices import KEY, Receiver, send_due
from tests.chat.test_approvals import ADD, request_of, requests_of, respond, rules

PORT = 9100


@asynccontextmanager
async def served(runtime: Runtime) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve the metrics of a process from its start to its end."""
    app = create_app(runtime, metrics_port=PORT)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://localhost:{PORT}") as client:
            yield client


async def scraped(client: httpx.AsyncClient, family: str) -> dict[str, float]:
    """Return the samples of a family, by what follows its name."""
    text = (await client.get("/metrics")).text
    lines = [line.removeprefix(family) for line in text.splitlines() if line.startswith(family)]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def open_requests(runtime: Runtime) -> dict[str, float]:
    """Return the open requests as a process reports them that has just been started."""
    async with served(runtime) as client:
        return await scraped(client, "graph_agent_approval_requests_open")


async def test_every_replica_has_the_number_of_requests_that_wait(environment: Environment) -> None:
    clock = ManualClock(environment.clock.now())
    environment.use_clock(clock)
    replicas = [environment.runtime(ScriptedAdapter([ADD]), conditions=rules()) for _ in range(2)]
    assert [await open_requests(one) for one in replicas] == [{"": 0}, {"": 0}]
    first, second = [await one.chat.send(user, "add bread") for one, user in zip(replicas, ("ann", "eve"), strict=True)]
    assert [await open_requests(one) for one in replicas] == [{"": 2}, {"": 2}]
    await respond(replicas[1].chat, request_of(first))
    assert [await open_requests(one) for one in replicas] == [{"": 1}, {"": 1}]
    # What nobody answered in time waits no longer, whether or not a sweep has ended it.
    clock.advance(hours=25)
    assert await requests_of(replicas[0].chat).count_open() == 0
    assert (await requests_of(replicas[0].chat).state(request_of(second).id, "eve")).state == "open"


async def test_the_ends_and_the_times_of_the_answers_are_counted_once_among_the_replicas(environment: Environment) -> None:
    clock = ManualClock(environment.clock.now())
    environment.use_clock(clock)
    one, other = (environment.runtime(ScriptedAdapter([ADD] * 4), conditions=rules()) for _ in range(2))
    async with served(one) as here, served(other) as there:
        users = ("ann", "dan", "joe", "pam")
        approved, denied, cancelled, expired = [request_of(await one.chat.send(user, "add bread")) for user in users]
        clock.advance(seconds=20)
        await respond(one.chat, approved)
        clock.advance(minutes=30)
        await respond(other.chat, denied, approve=False)
        await requests_of(other.chat).cancel(cancelled.id, "joe")
        await requests_of(other.chat).closings()
        clock.advance(hours=25)
        ended = "graph_agent_approval_requests_ended_total"
        async with asyncio.timeout(60):
            while True:
                # Whichever of the workers takes the last one first.
                counts = Counter(await scraped(here, ended)) + Counter(await scraped(there, ended))
                if counts.total() == 4:
                    break
                await asyncio.sleep(0.1)
        assert counts == {'{end="approved"}': 1, '{end="denied"}': 1, '{end="cancelled"}': 1, '{end="expired"}': 1}
        seconds = "graph_agent_approval_answer_seconds_sum"
        assert await scraped(here, seconds) == {'{answer="approved"}': 20}
        assert await scraped(there, seconds) == {'{answer="denied"}': 1820}
        assert (await requests_of(one.chat).state(expired.id, "pam")).state == "expired"


async def test_notices_that_are_not_taken_are_counted(environment: Environment) -> None:
    receiver = Receiver(500)
    async with receiver.url() as url:
        runtime = environment.runtime(ScriptedAdapter([ADD]), conditions=rules(), webhook=Webhook(url, KEY))
        name = "graph_agent_approval_notices_total"
        async with served(runtime) as client:
            assert await scraped(client, name) == {'{outcome="sent"}': 0, '{outcome="failed"}': 0}
            await runtime.chat.send("ann", "add bread")
            notices = runtime.chat.notices
            assert notices is not None
            async with asyncio.timeout(20):
                while not notices.deliveries.total():
                    await send_due(environment, notices)
            assert await scraped(client, name) == {'{outcome="sent"}': 0, '{outcome="failed"}': 1}
