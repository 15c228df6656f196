"""`make cluster`: three replicas with two workers each behind HAProxy, on PostgreSQL behind PgBouncer, under faults.

It first measures the throughput of one, two and three replicas. Then keyed clients add tasks and confirm deletions while
replicas, workers and the database are killed. At the end everything is stopped, and the answers that the clients got are
compared with the database.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.checks import find_problems
from tests.cluster.clients import AUDIENCE, JWT_SECRET, Client
from tests.cluster.faults import inject, supervise
from tests.cluster.services import PostgreSql, Replica, find_faketime, find_program, haproxy, pgbouncer
from tests.serving import free_ports

REPLICAS = 3
SKEWS = (0.0, 0.3, -10.0)
"""How many seconds the clock of each replica is ahead."""
CLIENTS = 12
"""The clients under faults, and those of each replica in a measurement: fewer turns at once would share fewer commits."""
MEASURED_TURNS = 15
"""The turns of each client in one measurement."""
MEASURED_SECONDS = 300.0
"""The longest time of a measurement."""
WARM_UP_TURNS = 20
ROUNDS = 2
FAULT_SECONDS = float(os.environ.get("SECONDS", "60"))
MIN_RATIO = 1.7
"""The turns that two replicas must serve, with the same processor time for each, for one turn that one replica serves."""


def main() -> int:
    missing = [name for name in ("haproxy", "pgbouncer") if find_program(name) is None]
    if missing:
        print(f"skipped: {' and '.join(missing)} not found; on Debian: apt-get install haproxy pgbouncer")
        return 0
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
    print(f"seed {seed}", flush=True)
    with ExitStack() as stack:
        # The path is short because the path of a unix socket is limited to 107 characters.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        database = PostgreSql(folder)
        stack.callback(database.close)
        pooled = stack.enter_context(pgbouncer(folder, database))
        environment = {
            "DATABASE_URL": pooled,
            "GRAPH_AGENT_SECRET": "the secret of this cluster only",
            "LOG_SIGNING_KEY": "the key of the log of this cluster only",
            "GRAPH_AGENT_JWT_SECRET": JWT_SECRET,
            "GRAPH_AGENT_JWT_AUDIENCE": AUDIENCE,
            "GRAPH_AGENT_TURNS_PER_MINUTE": "100000",
        }
        if find_faketime() is None:
            print("the replicas have the same clock: libfaketime not found; on Debian: apt-get install faketime")
        ports = enumerate(zip(free_ports(REPLICAS), SKEWS, strict=True), 1)
        replicas = [Replica(folder, n, port, environment, skew) for n, (port, skew) in ports]
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start()
        for replica in replicas:
            replica.wait_until_ready()
        proxies = [stack.enter_context(haproxy(folder, [one.port for one in replicas[:n]])) for n in range(1, REPLICAS + 1)]
        clients, passed = _measure(proxies, replicas)
        clients += asyncio.run(_survive_faults(random.Random(seed), proxies[-1], replicas, database))
        codes = [replica.stop() for replica in replicas]
        problems = find_problems(database.url, environment, clients)
        if any(codes):
            problems.append(f"the replicas have ended with {codes}")
        print(f"log: {sum(len(replica.lines()) for replica in replicas)} lines of the replicas")
    for problem in problems:
        print(f"  {problem}")
    print("nothing lost, doubled or left open" if not problems else f"{len(problems)} problems")
    return 1 if problems or not passed else 0


def _measure(proxies: Sequence[str], replicas: Sequence[Replica]) -> tuple[list[Client], bool]:
    """Print the throughput of one, two and three replicas; return the clients, and True if two replicas serve enough.

    The rounds are interleaved, so that other programs of the machine disturb all numbers of replicas alike.
    """
    # The first turns of a process take longer than the others.
    clients = _clients(proxies[-1], "warm", 0)
    asyncio.run(_serve(clients, WARM_UP_TURNS))
    served, seconds, used = Counter[int](), Counter[int](), Counter[int]()
    for round_number in range(ROUNDS):
        for count, proxy in enumerate(proxies, 1):
            active = replicas[:count]
            measured = _clients(proxy, f"load{count}-{round_number}", count, CLIENTS * count)
            before, began = sum(replica.cpu_ms() for replica in active), time.monotonic()
            asyncio.run(_serve(measured, MEASURED_TURNS))
            seconds[count] += round(1000 * (time.monotonic() - began))
            used[count] += sum(replica.cpu_ms() for replica in active) - before
            served[count] += sum(client.turns for client in measured)
            clients += measured
    rates = {count: 1000 * served[count] / used[count] for count in served}
    for count, rate in rates.items():
        wall = 1000 * served[count] / seconds[count]
        print(f"{count} replicas: {served[count]} turns, {wall:.1f} a second, {rate:.1f} a CPU-second of the replicas")
    # With a fixed quota of processor time for each replica, N replicas serve N times what a CPU-second serves.
    ratios = {count: count * rate / rates[1] for count, rate in rates.items()}
    shown = ", ".join(f"{count} replicas {ratio:.2f} times one" for count, ratio in ratios.items() if count > 1)
    print(f"with the same quota of processor time for each replica: {shown}", flush=True)
    return clients, ratios[2] >= MIN_RATIO


def _clients(url: str, name: str, seed: int, count: int = CLIENTS) -> list[Client]:
    return [Client(f"{name}-{n}", url, random.Random(f"{seed} {n}")) for n in range(count)]


async def _serve(clients: Sequence[Client], turns: int) -> None:
    until = time.monotonic() + MEASURED_SECONDS
    await asyncio.gather(*(client.run(until, turns) for client in clients))


async def _survive_faults(rng: random.Random, proxy: str, replicas: Sequence[Replica], database: PostgreSql) -> list[Client]:
    clients = _clients(proxy, "user", rng.randrange(10**6))
    until = time.monotonic() + FAULT_SECONDS
    serving = asyncio.gather(*(client.run(until) for client in clients))
    supervising = asyncio.create_task(supervise(replicas))
    injected = await inject(rng, replicas, database, until)
    await serving
    for replica in replicas:
        await asyncio.to_thread(replica.wait_until_ready, supervised=True)
    supervising.cancel()
    statuses: Counter[str] = sum((client.statuses for client in clients), Counter())
    print(f"faults: {_counts(injected)}")
    print(f"answers: {_counts(statuses)}")
    added, deleted, uncertain, failed = (sum(counts) for counts in zip(*map(_totals, clients), strict=True))
    print(f"acknowledged: {added} additions, {deleted} confirmed deletions; {uncertain} reported as not known")
    print(f"{failed} turns were answered as failed", flush=True)
    return clients


def _totals(client: Client) -> tuple[int, int, int, int]:
    return len(client.added), len(client.deleted), len(client.uncertain), client.failed


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
