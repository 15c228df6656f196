"""Copies of a database: into an empty one, with a verification of its log, and the join of the two files of earlier versions.

In those versions a home had two SQLite files: tasks and conversations, and the record. The joined file is made of copies. Then
it takes the place of `graph_agent.db`, and only then `log.db` is moved away: a start that still finds it continues where the
last one was stopped.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path

from graph_agent.bootstrap.record_tree import log_keys
from graph_agent.bootstrap.secret import record_keys
from graph_agent.bootstrap.stores import FORMER_LOG
from graph_agent.chat.conversations.tables import metadata as conversation_tables
from graph_agent.db import Database, DatabaseUnavailableError, migrate
from graph_agent.db.copy import copy_tables, require_file
from graph_agent.db.migrations import installed_revision, require_newest
from graph_agent.db.private_file import lock_file
from graph_agent.errors import ConfigurationError
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport
from graph_agent.record.tree.tables import tree_leaves
from graph_agent.settings import Settings
from graph_agent.task_server.store import metadata as task_tables

KEPT = "before_join"
"""The folder of the home that keeps the two files."""

_IN_USE_SECONDS = 1.0
"""The wait for a process that is just closing a file."""

_TABLES = {
    "graph_agent.task_server": task_tables,
    "graph_agent.chat.conversations": conversation_tables,
    "graph_agent.record": tree_leaves.metadata,
}


async def copy_database(settings: Settings, source_url: str, target_url: str) -> tuple[dict[str, int], VerifyReport | None]:
    """Copy everything that a database contains to an empty one; return the number of rows of each table, and a report.

    The report is the verification of the copied log, None if there is no log. Raises `ConfigurationError`; then the target has
    no rows.
    """
    require_file(source_url)
    async with AsyncExitStack() as stack:
        source, target = Database.open(source_url), Database.open(target_url)
        stack.push_async_callback(source.close)
        stack.push_async_callback(target.close)
        owners = [owner for owner in _TABLES if installed_revision(source, owner) is not None]
        if not owners:
            raise ConfigurationError("the source has no tables of graph-agent")
        for owner in owners:
            # The source is only read: a backup must not change what it copies.
            require_newest(source, owner)
            migrate(target, owner, record_key=lambda: record_keys(settings))
        counts = copy_rows(source, target, owners)
        has_log = "graph_agent.record" in owners
        if not has_log:
            return counts, None
        return counts, await verify_log(target, keys=log_keys(settings), key=record_keys(settings))


def copy_rows(source: Database, target: Database, owners: Iterable[str]) -> dict[str, int]:
    """Copy the tables of these packages, which are empty in the target; see `copy_tables`."""
    return copy_tables(source, target, [table for owner in owners for table in _TABLES[owner].sorted_tables])


def join_home(settings: Settings, packages: Sequence[str]) -> None:
    """Join `log.db` with `graph_agent.db`, and keep both; `packages` are those with tables, the record's first.

    Of several processes, one joins and the others wait. Raises `ConfigurationError` if a file cannot be read or is in use.
    """
    home = settings.home
    try:
        with lock_file(home / "join"):
            if (home / FORMER_LOG).exists():
                _join(settings, home / "graph_agent.db", home / FORMER_LOG, packages)
    except (OSError, sqlite3.Error, DatabaseUnavailableError) as exc:
        text = f"graph_agent.db and {FORMER_LOG} in {home} cannot be joined: stop all other processes and make room on the disk"
        raise ConfigurationError(text) from exc


def _join(settings: Settings, main: Path, log: Path, packages: Sequence[str]) -> None:
    kept = main.with_name(KEPT)
    kept.mkdir(mode=0o700, exist_ok=True)
    for file in filter(Path.exists, (main, log)):
        _close_file(file)
    if not _has_table(main, "decision_logs"):
        folder = main.with_name("joining")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        joined = _joined(settings, main, log, folder, packages)
        if main.exists():
            shutil.copy2(main, kept)
        joined.replace(main)
        shutil.rmtree(folder)
    log.replace(kept / log.name)


def _joined(settings: Settings, main: Path, log: Path, folder: Path, packages: Sequence[str]) -> Path:
    """Return a file in `folder` with the tables of both files, in the schema of this version."""
    for file in filter(Path.exists, (main, log)):
        shutil.copyfile(file, folder / file.name)
    source, target = (Database.open(f"sqlite:///{folder / file.name}") for file in (main, log))
    with ExitStack() as stack:
        for opened in (source, target):
            stack.callback(opened.close_now)
        for database, owners in ((source, packages[1:]), (target, packages)):
            for owner in owners:
                migrate(database, owner, record_key=lambda: record_keys(settings))
        copy_rows(source, target, packages[1:])
    _close_file(folder / log.name)
    return folder / log.name


def _has_table(file: Path, table: str) -> bool:
    if not file.exists():
        return False
    with closing(sqlite3.connect(file)) as connection:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone())


def _close_file(file: Path) -> None:
    """Bring everything into the one file. Raises `sqlite3.Error` if another process has it open."""
    with closing(sqlite3.connect(file, timeout=_IN_USE_SECONDS, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").close()
