"""The database of a command, opened in its event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from graph_agent.audit.queries import LogQueryService
from graph_agent.bootstrap.stores import open_stores
from graph_agent.cli.running import Run, open_in_loop
from graph_agent.db import Database
from graph_agent.settings import Settings, read_settings

T = TypeVar("T")


def run_with_database(function: Callable[[Settings, Database], Coroutine[Any, Any, T]], settings: Settings) -> T:
    """Return what `function` returns for `settings` and their database."""
    with open_in_loop(open_stores(settings)) as (stores, run):
        return run(function(settings, stores.database))


@contextmanager
def open_log(*, writes: bool = False) -> Iterator[tuple[Database, Run]]:
    """Open the database and migrate its tables. A command that only reads gets the replica of the log, if there is one."""
    settings = read_settings()
    with open_in_loop(open_stores(settings)) as (stores, run):
        yield (stores.database if writes else stores.log_reads), run


@contextmanager
def open_queries() -> Iterator[tuple[LogQueryService, Run]]:
    """Open the log for queries."""
    with open_log() as (database, run):
        yield LogQueryService(database, seconds=60), run
