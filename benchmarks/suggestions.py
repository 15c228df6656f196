"""`policy suggest` over a long log: CPU for each decision as a ratio to a one-tool turn, and the growth of its peak memory.

    python -m benchmarks.suggestions [DECISIONS]

The log has decisions of a shop with many users, in records as long as those of real turns. Each size is read by a new process.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import insert, select

from benchmarks.goals import against, settled
from benchmarks.turn import context_of, full_engine, turn_microseconds
from graph_agent.audit.filters import DecisionFilter
from graph_agent.db import Database
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.record.tables import decision_logs
from graph_agent.suggestions.suggest import Suggested, records_in, suggest
from tests.policy.cedar_shop import policy_of
from tests.suggestions.businesses import BUSINESSES, decisions

DECISIONS = 100_000
SMALL = 10_000
GOAL_RATIO = 0.12
"""Of a one-tool turn: where one takes 5 ms, 100,000 decisions take a minute."""
GOAL_GROWTH_MB = 60
"""The memory that ten times as many decisions may take more: samples of bounded size are not yet full at the smaller one."""
_EACH_USER = 20
_BATCH = 5_000


class Reading(NamedTuple):
    """One run of `suggest` in a process of its own."""

    cpu_seconds: float
    peak_megabytes: float
    """The growth of the peak of the process."""
    rules: int
    asked: int


async def fill(folder: Path, count: int) -> None:
    """Store `count` decisions of a shop: the record of a real turn, with the head and the calls of the generated ones."""
    async with full_engine(folder) as engine:
        await engine.run(context_of(0))
    log = Database.open(f"sqlite:///{folder / 'graph_agent.db'}")
    row: dict[str, Any] = dict(log.read_now(lambda connection: connection.execute(select(decision_logs)).one())._mapping)
    record = json.loads(row.pop("record"))
    header, (call,) = record["header"], record["invocations"]
    shop = replace(BUSINESSES[0], users=count // _EACH_USER)
    rows = []
    for made in decisions(shop, count, 1):
        of, calls = made.record["header"], made.record["invocations"]
        # The words of the user are searched for the values of each call.
        of["context"]["message"] = "Please pay 35 for my order 12345678, it has come late, and write to p1234@example.com."
        changed = {**record, "header": {**header, **of}, "invocations": [{**call, **one} for one in calls]}
        columns = {"decision_id": of["decision_id"], "created_at": datetime.fromisoformat(of["started_at"])}
        rows.append({**row, **columns, "record": json.dumps(changed)})
        if len(rows) == _BATCH:
            _insert(log, rows)
            rows = []
    _insert(log, rows)
    await log.close()


def _insert(log: Database, rows: list[dict[str, Any]]) -> None:
    if rows:
        log.write_now(lambda connection: connection.execute(insert(decision_logs), rows).close())


async def _suggested(folder: Path) -> Suggested:
    shop = BUSINESSES[0]
    log = Database.open(f"sqlite:///{folder / 'graph_agent.db'}")
    file = ConditionsFile("", roles=shop.roles)
    try:
        return await suggest(records_in(log, DecisionFilter()), policy_of(shop.tools, None, shop.roles), file, enough=5)
    finally:
        await log.close()


def read(folder: Path) -> Reading:
    """Run `suggest` on the log in `folder`."""
    before, started = _peak_megabytes(), time.process_time()
    found = asyncio.run(_suggested(folder))
    return Reading(time.process_time() - started, _peak_megabytes() - before, len(found.rules), found.effect.asked)


def _peak_megabytes() -> float:
    # Of this process alone: `ru_maxrss` begins at that of the parent.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _in_new_process(folder: Path) -> Reading:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(read, folder).result()


def main(count: int = DECISIONS) -> None:
    """Print the CPU and the peak memory for two sizes of a log."""
    print(f"`policy suggest` of {SMALL:,} and {count:,} decisions on SQLite")
    with tempfile.TemporaryDirectory() as name:
        folders = {size: Path(name) / str(size) for size in (SMALL, count)}
        for size, folder in folders.items():
            folder.mkdir()
            asyncio.run(fill(folder, size))

        def measure() -> tuple[dict[int, Reading], Mapping[str, float]]:
            found = {size: _in_new_process(folder) for size, folder in folders.items()}
            each = found[count].cpu_seconds / count * 1e6
            growth = found[count].peak_megabytes - found[SMALL].peak_megabytes
            return found, {"ratio": each / asyncio.run(turn_microseconds()), "growth": growth}

        found, lowest = settled(measure, {"ratio": GOAL_RATIO, "growth": GOAL_GROWTH_MB})
    for size, one in found.items():
        each = one.cpu_seconds / size * 1e6
        print(f"{size:>9,}: {one.cpu_seconds:6.1f} s of CPU, {each:4.0f} µs for each, {one.peak_megabytes:4.0f} MB, ", end="")
        print(f"{one.rules} rules that would have asked about {one.asked:,} calls")
    print(f"a decision: {lowest['ratio']:.3f} of a one-tool turn{against('suggest', lowest['ratio'], GOAL_RATIO)}")
    print(f"the growth of the peak: {lowest['growth']:.0f} MB{against('memory', lowest['growth'], GOAL_GROWTH_MB, ' MB')}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
