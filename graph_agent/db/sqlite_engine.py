"""SQLite engines, files and errors: pragmas, explicit transactions, and the translation of error codes.

Transactions are started by this package, not by the driver (`isolation_level=None`): those of readers by the engine's `begin`
event, those of the writer by the writer. It starts with BEGIN IMMEDIATE: a transaction that will write never starts as a
reader, which SQLite could refuse to upgrade.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from graph_agent.db.backend import DatabaseUnavailableError
from graph_agent.errors import ConfigurationError

_log = logging.getLogger(__name__)

_MODE = 0o600
_SIDE_FILES = ("-wal", "-shm")
"""SQLite creates them with the mode of the database."""

BUSY_TIMEOUT_MS = 5000
"""The longest wait of a write for another process that writes to the same file."""
_RETRY_SECONDS = 0.01

_UNAVAILABLE = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ("BUSY", "CANTOPEN", "CORRUPT", "FULL", "IOERR", "LOCKED", "NOMEM", "NOTADB", "PERM", "PROTOCOL", "READONLY")
)

PRAGMAS = (f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}", "PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON")
"""The settings of each connection."""


def sqlite_engine(url: URL, begin: str | None, pragmas: tuple[str, ...], pool: dict[str, Any]) -> Engine:
    """Return an engine whose transactions start with the statement `begin`; without one they are started by the caller."""
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        # Parameters are user data and would otherwise be part of error messages.
        hide_parameters=True,
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": BUSY_TIMEOUT_MS / 1000},
        **pool,
    )

    def connected(driver: sqlite3.Connection, _record: object) -> None:
        _use_wal(driver)
        for pragma in (*PRAGMAS, *pragmas):
            driver.execute(pragma).close()

    event.listen(engine, "connect", connected)
    if begin is not None:
        event.listen(engine, "begin", lambda connection: driver_connection(connection).execute(begin))
    return engine


def _use_wal(driver: sqlite3.Connection) -> None:
    """Switch the file to write-ahead logging. SQLite refuses at once, without waiting, while another process does the same."""
    ends_at = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return driver.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > ends_at:
                raise
            time.sleep(_RETRY_SECONDS)


def driver_connection(connection: Connection) -> sqlite3.Connection:
    """Return the driver's connection, for savepoints and for the transaction state that SQLAlchemy does not see."""
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def require_folder(url: URL) -> None:
    """Raise `ConfigurationError` if the folder of the database file does not exist."""
    folder = Path(str(url.database)).parent
    if not str(url.database).startswith("file:") and not folder.is_dir():
        raise ConfigurationError(f"the folder of the SQLite database does not exist: {folder}")


def translated_error(error: BaseException) -> BaseException:
    """Return `DatabaseUnavailableError` for a failure of the database, and any other error unchanged."""
    original = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(original, "sqlite_errorcode", None)
    # The low byte is the primary result code, the rest its extension.
    if isinstance(original, sqlite3.Error) and code is not None and code & 0xFF in _UNAVAILABLE:
        # SQLite's own sentence, such as "database is locked" or "file is not a database", names no data.
        return DatabaseUnavailableError.caused_by(error, str(original))
    return error


class SqliteFile:
    """A database file, identified by device and inode since its first use.

    A connection to a file that was removed or replaced reports no error, but its writes are lost.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The writer and the readers are threads: one creates the file, and the others must not take it for a new one.
        self._opening = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._reported = False

    def check(self) -> None:
        """Create the file if this is its first use. Raises `DatabaseUnavailableError` if it was removed or replaced since."""
        with self._opening:
            if self._identity is None:
                self._make_private()
                self._identity = self._current()
                return
        if self._current() != self._identity:
            if not self._reported:
                self._reported = True
                _log.error("the database file %s was removed or replaced while it was in use: restart this process", self._path)
            raise DatabaseUnavailableError("the database file was removed or replaced")

    def _make_private(self) -> None:
        # Errors are left to SQLite, which reports them when it opens the file.
        with contextlib.suppress(OSError):
            # An existing file is not opened: closing this descriptor would release the POSIX locks of SQLite's connections.
            if not self._path.exists():
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))
        for path in (self._path, *(Path(f"{self._path}{suffix}") for suffix in _SIDE_FILES)):
            with contextlib.suppress(OSError):
                # Not a folder, which a wrong URL may name: without the right to enter it, it is useless.
                if path.is_file() and path.stat().st_mode & 0o077:
                    path.chmod(_MODE)

    def _current(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
