"""SQLite engines and errors: pragmas, explicit transactions, and the translation of error codes.

Transactions are started by the engine's `begin` event, not by the driver (`isolation_level=None`). The writer starts with
BEGIN IMMEDIATE: a transaction that will write never starts as a reader, which SQLite could refuse to upgrade.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from graph_agent.db.errors import DatabaseUnavailableError
from graph_agent.errors import ConfigurationError

BUSY_TIMEOUT_MS = 5000
"""The longest wait of a write for another process that writes to the same file."""
_RETRY_SECONDS = 0.01

_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)

_PRAGMAS = (
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
)


def sqlite_engine(url: URL, begin: str, pragmas: tuple[str, ...], pool: dict[str, Any]) -> Engine:
    """Return an engine whose transactions start with the statement `begin`."""
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        # Parameters are user data and would otherwise be part of error messages.
        hide_parameters=True,
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": BUSY_TIMEOUT_MS / 1000},
        **pool,
    )

    def connected(driver: sqlite3.Connection, _record: object) -> None:
        _use_wal(driver)
        for pragma in (*_PRAGMAS, *pragmas):
            driver.execute(pragma).close()

    def began(connection: Connection) -> None:
        driver_connection(connection).execute(begin)

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", began)
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
    driver = connection.connection.driver_connection
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
        return DatabaseUnavailableError.caused_by(error)
    return error
