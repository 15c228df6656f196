"""`replay --all` of a large log in one process, in several, and on a Dask cluster; the reports must be equal to the byte.

    python -m benchmarks.replay [--decisions 1000000] [--workers 2] [--dask] [--store FILE]

A thousand turns are run and their rows are stored many times, so a report appears many times too. The commands run one after
another. The CPU ratio is what the speed-up would be if nothing else ran on the machine and the work were evenly divided.
"""

from __future__ import annotations

import argparse
import asyncio
import filecmp
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import insert, select

from benchmarks.turn import full_engine
from graph_agent.db import Database
from graph_agent.llm.embedded import EmbeddedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.record.tables import decision_logs

ORIGINALS = 1_000
GOAL_SPEEDUP = 1.8
_BATCH = 10_000
_STARTS = datetime(2026, 10, 1, tzinfo=UTC)
_MESSAGES = (
    "add a task to call mom",
    "show my tasks",
    "mark call mom as done",
    "hello",
    "add milk and bread",
    "what's the weather?",
)


class Run(NamedTuple):
    """One command: its time, the CPU of all its processes, and the file with its reports."""

    seconds: float
    cpu_seconds: float
    reports: Path


async def fill(folder: Path, count: int) -> None:
    """Run `ORIGINALS` turns in `folder`, and store each of them again until the log has `count` decisions."""
    async with full_engine(folder, EmbeddedAdapter()) as engine:
        for number in range(min(ORIGINALS, count)):
            user, message = f"user-{number // len(_MESSAGES)}", _MESSAGES[number % len(_MESSAGES)]
            await engine.run(DecisionContext(user_id=user, message=message, conversation_id=user))
    log = Database.open(f"sqlite:///{folder / 'log.db'}")
    originals = [dict(row._mapping) for row in log.read_now(lambda connection: connection.execute(select(decision_logs)).all())]
    copies = (
        {**row, "decision_id": f"{number}", "created_at": _STARTS + timedelta(seconds=number)}
        for number in range(count - len(originals))
        for row in (originals[number % len(originals)],)
    )
    while batch := [row for row, _ in zip(copies, range(_BATCH), strict=False)]:
        log.write_now(lambda connection, batch=batch: connection.execute(insert(decision_logs), batch).close())
    await log.close()


def replay(folder: Path, name: str, *options: str) -> Run:
    """Run `graph-agent replay --all --json` on the log in `folder`."""
    command = [str(Path(sys.executable).with_name("graph-agent")), "replay", "--all", "--json", *options]
    environment = {**os.environ, "GRAPH_AGENT_HOME": str(folder), "DATABASE_URL": f"sqlite:///{folder / 'log.db'}"}
    reports = folder / f"{name}.jsonl"
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with reports.open("wb") as output:
        done = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {done.returncode}: {done.stderr[-500:]}")
    return Run(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, reports)


def main() -> int:
    """Print one line for each run, and return 1 if the reports differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dask", action="store_true", help="also replay on a Dask LocalCluster with as many workers")
    parser.add_argument("--store", type=Path, help="keep the log in this directory, and use it again")
    arguments = parser.parse_args()
    with nullcontext(arguments.store) if arguments.store else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "log.db").exists():
            started = time.process_time()
            asyncio.run(fill(folder, arguments.decisions))
            print(f"wrote {arguments.decisions:,} decisions in {time.process_time() - started:.0f} s of CPU")
        one = replay(folder, "one")
        _print("one process", one, arguments.decisions)
        several = replay(folder, "several", "--workers", str(arguments.workers))
        _print(f"{arguments.workers} processes", several, arguments.decisions)
        ratio = one.seconds / several.seconds
        by_cpu = arguments.workers * one.cpu_seconds / several.cpu_seconds
        print(f"speed-up {ratio:.2f} (by CPU {by_cpu:.2f}), goal {GOAL_SPEEDUP} for two processes on two idle cores")
        compared = [several]
        if arguments.dask:
            compared.append(_replay_on_dask(folder, arguments.workers))
            # The CPU of the cluster is not that of the command.
            print(f"{'Dask':14}{compared[-1].seconds:8.1f} s")
        equal = all(filecmp.cmp(one.reports, other.reports, shallow=False) for other in compared)
        print(f"reports: {'equal to the byte' if equal else 'they differ'}, {one.reports.stat().st_size / 1e6:,.1f} MB")
    return 0 if equal else 1


def _replay_on_dask(folder: Path, workers: int) -> Run:
    # Imported here, because the extra may not be installed.
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        return replay(folder, "dask", "--dask", cluster.scheduler_address)


def _print(name: str, run: Run, decisions: int) -> None:
    each = run.cpu_seconds / decisions * 1e6
    print(f"{name:14}{run.seconds:8.1f} s{run.cpu_seconds:8.1f} s of CPU{each:8.0f} µs of CPU for each decision")


if __name__ == "__main__":
    sys.exit(main())
