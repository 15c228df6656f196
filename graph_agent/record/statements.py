"""Reads and writes of the log: reads have a time limit, and driver errors become `ServiceError`s."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.db.sqlite_engine import driver_connection
from graph_agent.errors import ServiceError, ServiceErrorCode

T = TypeVar("T")

QUERY_SECONDS = 5.0
"""The default time limit of a read."""

_SQLITE_STEPS_BETWEEN_CHECKS = 20_000
"""Virtual machine instructions after which SQLite checks the time limit: well below a millisecond."""
_QUERY_CANCELED = "57014"
"""PostgreSQL's SQLSTATE for a statement that exceeded `statement_timeout`."""


async def read(database: Database, work: Callable[[Connection], T], *, seconds: float | None = QUERY_SECONDS) -> T:
    """Run `work` on a reading connection and return its result.

    Raises `ServiceError`: QUERY_TIMEOUT after `seconds` (None for no limit), STORAGE_ERROR if the log is not available.
    """

    def limited(connection: Connection) -> T:
        with _time_limit(connection, seconds):
            return work(connection)

    try:
        return await database.read(limited)
    except (DatabaseUnavailableError, SQLAlchemyError) as exc:
        raise _service_error(exc) from exc


async def write(database: Database, work: Callable[[Connection], T]) -> T:
    """Run `work` in a transaction and return its result after the commit. Raises `ServiceError` STORAGE_ERROR."""
    try:
        return await database.write(work)
    except (DatabaseUnavailableError, SQLAlchemyError) as exc:
        raise _service_error(exc) from exc


@contextmanager
def _time_limit(connection: Connection, seconds: float | None) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
        # LOCAL: the limit ends with this transaction, so the pooled connection keeps no trace of it. 0 is no limit.
        limit_ms = 0 if seconds is None else max(1, round(seconds * 1000))
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit_ms}").close()
        yield
        return
    if seconds is None:
        yield
        return
    # SQLite has no statement timeout, but interrupts a statement whose progress handler returns true.
    driver = driver_connection(connection)
    ends_at = time.monotonic() + seconds
    driver.set_progress_handler(lambda: time.monotonic() > ends_at, _SQLITE_STEPS_BETWEEN_CHECKS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _service_error(exc: Exception) -> ServiceError:
    cause = exc.__cause__ if isinstance(exc, DatabaseUnavailableError) else exc
    original = cause.orig if isinstance(cause, DBAPIError) else cause
    interrupted = getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    if interrupted or getattr(original, "sqlstate", None) == _QUERY_CANCELED:
        return ServiceError(
            ServiceErrorCode.QUERY_TIMEOUT, "The query took too long: narrow it down, for example by time or user."
        )
    return ServiceError(ServiceErrorCode.STORAGE_ERROR, "The log cannot be reached right now.")
