"""The faults of a cluster, in an order and at times that a seed decides."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence

from graph_agent.chat.leases import LEASE
from tests.cluster.services import PostgreSql, Replica

PAUSE_SECONDS = (2.0, 6.0)
"""The shortest and the longest time between two faults."""
FAULTS = (
    "kill replica",
    "kill worker",
    "kill parent",
    "end replica",
    "pause replica",
    "pause worker",
    "restart database",
    "full disk",
)
PAUSED_SECONDS = 2 * LEASE.total_seconds()
"""Long enough that another replica takes the turns over."""

FULL_SECONDS = 5.0
"""The time for which the disk of the database is full."""


async def inject(rng: random.Random, replicas: Sequence[Replica], database: PostgreSql, until: float) -> Counter[str]:
    """Inject faults until the monotonic time `until`; return how often each was injected. All come before one repeats."""
    injected: Counter[str] = Counter()
    waiting: list[str] = []
    while time.monotonic() < until:
        await asyncio.sleep(rng.uniform(*PAUSE_SECONDS))
        if not waiting:
            waiting = rng.sample(FAULTS, len(FAULTS))
        fault = waiting.pop()
        injected[fault] += await asyncio.to_thread(_inject, fault, rng, rng.choice(replicas), database)
    return injected


async def supervise(replicas: Sequence[Replica]) -> None:
    """Start every replica again that has ended, until this task is cancelled."""
    while True:
        for replica in replicas:
            replica.restart_if_ended()
        await asyncio.sleep(0.5)


def _inject(fault: str, rng: random.Random, replica: Replica, database: PostgreSql) -> bool:
    """Inject a fault; False if this machine cannot."""
    match fault:
        case "kill replica":
            replica.kill()
        case "kill worker":
            if workers := replica.workers():
                replica.signal(rng.choice(workers), signal.SIGKILL)
        case "kill parent":
            replica.signal(replica.pid, signal.SIGKILL)
        case "end replica":
            replica.signal(replica.pid, signal.SIGTERM)
        case "pause replica":
            _pause(replica, replica.processes())
        case "pause worker":
            if workers := replica.workers():
                _pause(replica, [rng.choice(workers)])
        case "restart database":
            database.restart()
        case "full disk":
            if not database.limit_files():
                print("full disk is skipped: there is no program prlimit that may limit the files of PostgreSQL", flush=True)
                return False
            time.sleep(FULL_SECONDS)
            database.restart()
    return True


def _pause(replica: Replica, processes: Sequence[int]) -> None:
    for process in processes:
        replica.signal(process, signal.SIGSTOP)
    time.sleep(PAUSED_SECONDS)
    for process in processes:
        replica.signal(process, signal.SIGCONT)
