"""The cost of the tree of the record: closing, sealing and verifying a decision, and making a proof.

Run `python -m benchmarks.tree`, with --postgresql on a temporary PostgreSQL server. Processor time is that of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert

from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.models.record import DecisionOpening, RecordHeader
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tree.leaves import Sealer
from graph_agent.record.tree.reading import prove_leaf, stored_nodes
from graph_agent.record.tree.service import BATCH, RecordTree, TreeSealer
from graph_agent.record.tree.tables import LeafKind, record_pending, tree_leaves
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tlog.checkpoint import LogKeys
from graph_agent.tlog.merkle import consistency_proof
from graph_agent.tlog.note import KeyType, SigningKey
from tests.cluster.services import PostgreSql
from tests.scripted_turns import asks, calls, engine_of

WAVE, WAVES = 50, 20
"""Decisions that are closed at once, and sealed together; how often."""
LIMIT_MS = 20.0
"""The largest time for a proof, at the 95th percentile."""
SAMPLES = 200


async def decisions(database: Database) -> dict[str, float]:
    """Close, seal and verify decisions with one tool call; return the microseconds of processor time of each for one."""
    key, log_key = secrets.token_bytes(32), SigningKey.generate("benchmark.example/log", KeyType.LOG)
    writer, keys = DatabaseAuditWriter(database, record_key=key), LogKeys([log_key])
    tree = RecordTree(database, keys, key=key, clock=SystemClock())
    script = calls(("add_task", {"description": "call mom"})), says("I added it to your list.")
    record = (await engine_of(*script, audit=writer).run(asks())).record
    spent = dict.fromkeys(("closing", "sealing", "verifying"), 0.0)
    for _ in range(WAVES):
        headers = [record.header.replace(decision_id=str(uuid.uuid4())) for _ in range(WAVE)]
        await asyncio.gather(*(writer.write_opening(opening(header)) for header in headers))
        closed = asyncio.gather(*(writer.close_decision_log(record.replace(header=header)) for header in headers))
        spent["closing"] += await processor_time(closed)
        spent["sealing"] += await processor_time(tree.seal())
    spent["verifying"] = await processor_time(verify_log(database, keys=keys, key=key))
    return {name: 1e6 * seconds / (WAVE * WAVES) for name, seconds in spent.items()}


def opening(header: RecordHeader) -> DecisionOpening:
    context = header.context
    return DecisionOpening(
        decision_id=header.decision_id,
        conversation_id=context.conversation_id,
        user_id=context.user_id,
        message=context.message,
        header=header,
    )


async def processor_time(work: Awaitable[object]) -> float:
    started = time.process_time()
    await work
    return time.process_time() - started


def fill(database: Database, leaves: int) -> float:
    """Seal so many leaves in full batches; return the seconds of sealing alone."""
    macs = Sealer(secrets.token_bytes(32))
    sealer = TreeSealer(LogKeys([SigningKey.generate("benchmark.example/log", KeyType.LOG)]), macs, clock=SystemClock())
    seconds = 0.0
    for first in range(0, leaves, BATCH):
        rows = [row(macs, number) for number in range(first, min(first + BATCH, leaves))]
        database.write_now(lambda connection, rows=rows: connection.execute(insert(record_pending), rows).close())  # type: ignore[misc]  # a default binds the value
        started = time.perf_counter()
        database.write_now(sealer.seal)
        seconds += time.perf_counter() - started
    return seconds


def row(macs: Sealer, number: int) -> dict[str, Any]:
    committed, item = secrets.token_bytes(32), f"decision {number}"
    mac = macs.macs("pending", LeafKind.DECISION, item, committed.hex())[0]
    return {"kind": LeafKind.DECISION, "item": item, "commitment": committed, "mac": mac}


def percentiles(database: Database, work: Callable[[int], Callable[[Any], object]], leaves: int) -> tuple[float, float]:
    """Return median and 95th percentile of the milliseconds of `work` at random positions."""
    taken = []
    for _ in range(SAMPLES):
        one = work(random.randrange(leaves))
        started = time.perf_counter()
        database.read_now(one)
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken), quantiles(taken, n=20)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=100_000)
    parser.add_argument("--postgresql", action="store_true", help="use a temporary server instead of SQLite")
    options = parser.parse_args()
    leaves = options.leaves
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        if options.postgresql:
            server = PostgreSql(folder)
            stack.callback(server.close)
        urls = [server.url] * 2 if options.postgresql else [f"sqlite:///{folder / f'{n}.db'}" for n in range(2)]
        database = Database.open(urls[0])
        database.write_now(tree_leaves.metadata.create_all)
        spent = asyncio.run(decisions(database))
        database.write_now(tree_leaves.metadata.drop_all)
        database.close_now()
        database = Database.open(urls[1])
        database.write_now(tree_leaves.metadata.create_all)
        seconds = fill(database, leaves)
        inclusion = percentiles(database, lambda n: partial(prove_leaf, n=n), leaves)
        growth = percentiles(
            database, lambda n: lambda connection: consistency_proof(stored_nodes(connection), n, leaves), leaves
        )
        database.close_now()
    print(f"a decision: {', '.join(f'{what} {each:.0f} µs' for what, each in spent.items())} of CPU, {WAVE} at once")
    print(f"sealing: {1e6 * seconds / leaves:.0f} µs a leaf, in batches of {BATCH}, {leaves:,} leaves")
    for name, (middle, high) in {"inclusion": inclusion, "consistency": growth}.items():
        print(f"{name} proof: {middle:.1f} ms, 95th percentile {high:.1f} ms")
        if high > LIMIT_MS:
            raise SystemExit(f"more than {LIMIT_MS:.0f} ms")


if __name__ == "__main__":
    main()
