"""A log of a million decisions, and the time that its queries take.

    python -m benchmarks.record                         # writes a temporary log, queries it, removes it
    python -m benchmarks.record --store big.db          # keeps the log; the second run only queries it
    python -m benchmarks.record --store postgresql://…  # the same on PostgreSQL
    python -m benchmarks.record --postgresql            # on a temporary PostgreSQL of the dev packages

A dozen turns are run, and their records are written many times with other ids, users and times. Each query has the time limit
that it has in the API; the exit code is 1 if one exceeds it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metric_counts import count_hours
from graph_agent.audit.queries import LogQueryService
from graph_agent.db import Database, migrate
from graph_agent.errors import ServiceError
from graph_agent.record.metrics_hours import COUNTED_AFTER
from graph_agent.record.statements import QUERY_SECONDS
from graph_agent.record.tables import decision_logs
from tests.cluster.services import PostgreSql
from tests.record.generated_log import ENDS, fill


async def time_queries(database: Database) -> int:
    """Run each query ten times, and print the shortest, the median and the longest time in milliseconds.

    Return how many queries were ended by their time limit.
    """
    service = LogQueryService(database)
    newest = (await service.query_decisions(limit=1)).items[0]
    rare = (await service.query_decisions(DecisionFilter(outcome="ERROR:RESPONSE_GENERATION"), limit=1)).items[0]
    day, week = ENDS - timedelta(days=1), ENDS - timedelta(days=7)
    queries: dict[str, Callable[[], Awaitable[Any]]] = {
        "one trace": lambda: service.get_decision_trace(rare.decision_id),
        **{
            f"query: {name}": lambda filters=filters: service.query_decisions(filters)
            for name, filters in {
                "everything": DecisionFilter(),
                "one user": DecisionFilter(user_id=newest.user_id),
                "one conversation": DecisionFilter(conversation_id=newest.conversation_id),
                "last day": DecisionFilter(since=day),
                "an old week": DecisionFilter(since=week - timedelta(days=30), until=week - timedelta(days=23)),
                "decision type": DecisionFilter(decision_type="REQUEST_CONFIRMATION"),
                "outcome": DecisionFilter(outcome="REFUSAL:OUT_OF_SCOPE"),
                "outcome prefix": DecisionFilter(outcome="ERROR"),
                "outcome prefix, within": DecisionFilter(outcome="ERROR:R"),
                "intent": DecisionFilter(intent_type="DELETE_TASK"),
                "model": DecisionFilter(model="embedded"),
                "a model without decisions": DecisionFilter(model="unused"),
                "user and outcome": DecisionFilter(user_id=newest.user_id, outcome="ERROR"),
                "type and outcome": DecisionFilter(decision_type="INVOKE_TOOL", outcome="SUCCESS:TASK_COMPLETED"),
                "type and outcome, nothing": DecisionFilter(decision_type="INVOKE_TOOL", outcome="ERROR"),
                "outcome, last week": DecisionFilter(outcome="REFUSAL", since=week),
                "still open": DecisionFilter(status="PENDING"),
            }.items()
        },
        "page 100 of everything": lambda: service.query_decisions(offset=9900),
        "metrics of the last day": lambda: service.get_metrics_summary(day),
        "metrics of the last week": lambda: service.get_metrics_summary(week),
        "metrics of everything": lambda: service.get_metrics_summary(),
    }
    exceeded = 0
    for name, query in queries.items():
        spent = []
        try:
            for _ in range(10):
                started = time.perf_counter()
                await query()
                spent.append((time.perf_counter() - started) * 1000)
        except ServiceError as error:
            exceeded += 1
            print(f"{name:32} {error}")
            continue
        print(f"{name:32}{min(spent):9.1f} ms{statistics.median(spent):9.1f} ms{max(spent):9.1f} ms")
    return exceeded


async def _count_all_hours(database: Database) -> int:
    hours = 0
    while counted := await count_hours(database, ENDS + COUNTED_AFTER):
        hours += counted
    return hours


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=1_000_000)
    stores = parser.add_mutually_exclusive_group()
    stores.add_argument("--store", help="a file to keep, or a database URL")
    stores.add_argument("--postgresql", action="store_true", help="use a temporary PostgreSQL server")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="record-", ignore_cleanup_errors=True)))
        store = arguments.store or str(folder / "record.db")
        if arguments.postgresql:
            folder.chmod(0o755)
            server = PostgreSql(folder)
            stack.callback(server.close)
            store = server.url
        database = Database.open(store if "://" in store else f"sqlite:///{Path(store).absolute()}")
        stack.callback(database.close_now)
        migrate(database, "graph_agent.record")
        stored = database.read_now(lambda connection: connection.scalar(select(func.count()).select_from(decision_logs)))
        if not stored:
            started = time.perf_counter()
            fill(database, arguments.decisions)
            print(f"wrote {arguments.decisions:,} decisions in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        hours = asyncio.run(_count_all_hours(database))
        print(f"counted {hours:,} hours, as the sweeper does", file=sys.stderr)
        print(f"{'':32}{'fastest':>12}{'median':>12}{'slowest':>12}")
        if exceeded := asyncio.run(time_queries(database)):
            sys.exit(f"{exceeded} queries exceeded their limit of {QUERY_SECONDS:g} s")


if __name__ == "__main__":
    main()
