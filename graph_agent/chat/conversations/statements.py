"""Reads and writes of the conversation database, with its errors translated to `ServiceError`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from graph_agent.db import Database, DatabaseUnavailableError
from graph_agent.errors import service_unavailable

T = TypeVar("T")


async def write(database: Database, work: Callable[[Connection], T]) -> T:
    """Run `database.write`. Raises `ServiceError` SERVICE_UNAVAILABLE if the database does not answer."""
    try:
        return await database.write(work)
    except DatabaseUnavailableError as exc:
        raise service_unavailable() from exc


async def read(database: Database, work: Callable[[Connection], T]) -> T:
    """Run `database.read`. Raises `ServiceError` SERVICE_UNAVAILABLE if the database does not answer."""
    try:
        return await database.read(work)
    except DatabaseUnavailableError as exc:
        raise service_unavailable() from exc
