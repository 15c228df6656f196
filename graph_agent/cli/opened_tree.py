"""The tree of the log with the database of a command, opened in its event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graph_agent.bootstrap.record_tree import record_tree
from graph_agent.bootstrap.stores import Stores, open_stores
from graph_agent.cli.running import Run, open_in_loop
from graph_agent.clock import SystemClock
from graph_agent.record.tree.service import RecordTree
from graph_agent.settings import Settings, read_settings


@contextmanager
def open_tree(settings: Settings | None = None) -> Iterator[tuple[Settings, Stores, RecordTree, Run]]:
    """Open the stores, and the tree of the log. `settings` are by default those of the environment."""
    settings = settings or read_settings()
    with open_in_loop(open_stores(settings)) as (stores, run):
        yield settings, stores, record_tree(settings, stores.database, SystemClock()), run
