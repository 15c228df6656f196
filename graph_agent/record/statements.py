"""Reads of the log with a time limit, their failures told by code."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import ServiceError, ServiceErrorCode

T = TypeVar("T")

QUERY_SECONDS = 5.0
"""How long one question may take."""

_STEPS_BETWEEN_LOOKS = 20_000
_QUERY_CANCELED = "57014"


async def read(database: Database, work: Callable[[Connection], T], *, seconds: float = QUERY_SECONDS) -> T:
    """What `work` reads. Raises `ServiceError`: QUERY_TIMEOUT after `seconds`, STORAGE_ERROR where the log does not answer."""

    def limited(connection: Connection) -> T:
        with _time_limit(connection, seconds):
            return work(connection)

    try:
        return await database.read(limited)
    except (DatabaseUnavailableError, SQLAlchemyError) as exc:
        raise _translated(exc) from exc


async def write(database: Database, work: Callable[[Connection], T]) -> T:
    """What `work` returns once it is committed. Raises `ServiceError` STORAGE_ERROR where the log does not take it."""
    try:
        return await database.write(work)
    except (DatabaseUnavailableError, SQLAlchemyError) as exc:
        raise _translated(exc) from exc


@contextmanager
def _time_limit(connection: Connection, seconds: float) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}").close()
        yield
        return
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    ends = time.monotonic() + seconds
    driver.set_progress_handler(lambda: time.monotonic() > ends, _STEPS_BETWEEN_LOOKS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _translated(exc: Exception) -> ServiceError:
    cause = exc.__cause__ if isinstance(exc, DatabaseUnavailableError) else exc
    original = cause.orig if isinstance(cause, DBAPIError) else cause
    interrupted = getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    if interrupted or getattr(original, "sqlstate", None) == _QUERY_CANCELED:
        return ServiceError(ServiceErrorCode.QUERY_TIMEOUT, "The question took too long: narrow it, by time or by user.")
    return ServiceError(ServiceErrorCode.STORAGE_ERROR, "The log cannot be reached right now.")
