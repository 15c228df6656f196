"""What every statement of these tables stands on: inserts that give way, and one kind of failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import ServiceError, ServiceErrorCode

T = TypeVar("T")

RETRY_SECONDS = 5.0


def insert_into(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insert that knows ON CONFLICT, in the words of the connection's database."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


async def write(database: Database, work: Callable[[Connection], T]) -> T:
    """`database.write`, but a database that does not answer is `ServiceError` SERVICE_UNAVAILABLE."""
    try:
        return await database.write(work)
    except DatabaseUnavailableError as exc:
        raise unavailable() from exc


async def read(database: Database, work: Callable[[Connection], T]) -> T:
    """`database.read`, but a database that does not answer is `ServiceError` SERVICE_UNAVAILABLE."""
    try:
        return await database.read(work)
    except DatabaseUnavailableError as exc:
        raise unavailable() from exc


def unavailable() -> ServiceError:
    text = "The service is not available right now. Please try again later."
    return ServiceError(ServiceErrorCode.SERVICE_UNAVAILABLE, text, retry_after=RETRY_SECONDS)
