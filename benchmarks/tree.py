"""The cost of the tree of the record: sealing a leaf, and making a proof. Run `python -m benchmarks.tree`."""

from __future__ import annotations

import argparse
import random
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert

from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.record.sealer import Sealer
from graph_agent.record.tree.keys import LogKeys
from graph_agent.record.tree.leaves import pending_mac
from graph_agent.record.tree.reading import prove_leaf, stored_nodes
from graph_agent.record.tree.sealing import BATCH, TreeSealer
from graph_agent.record.tree.tables import LeafKind, record_pending, tree_leaves
from graph_agent.tlog.merkle import consistency_proof
from graph_agent.tlog.note import KeyType, SigningKey

LIMIT_MS = 20.0
"""The largest time for a proof, at the 95th percentile."""
SAMPLES = 200


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
    mac = pending_mac(LeafKind.DECISION, item, committed, macs)
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
    leaves = parser.parse_args().leaves
    with TemporaryDirectory() as folder:
        database = Database.open(f"sqlite:///{Path(folder) / 'tree.db'}")
        database.write_now(tree_leaves.metadata.create_all)
        seconds = fill(database, leaves)
        inclusion = percentiles(database, lambda n: partial(prove_leaf, n=n), leaves)
        growth = percentiles(
            database, lambda n: lambda connection: consistency_proof(stored_nodes(connection), n, leaves), leaves
        )
        database.close_now()
    print(f"sealing: {1e6 * seconds / leaves:.0f} µs a leaf, in batches of {BATCH}, {leaves:,} leaves")
    for name, (middle, high) in {"inclusion": inclusion, "consistency": growth}.items():
        print(f"{name} proof: {middle:.1f} ms, 95th percentile {high:.1f} ms")
        if high > LIMIT_MS:
            raise SystemExit(f"more than {LIMIT_MS:.0f} ms")


if __name__ == "__main__":
    main()
