"""Fixtures for every test: empty databases, and checks that a test leaves the process as it was."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
import pytest

from graph_agent.db import Database
from graph_agent.record.tree.tables import tree_leaves
from tests import fork_server
from tests.chat.environment import migrated
from tests.postgresql_copies import PostgresqlCopies
from tests.run_folder import run_folder, service, use_memory

fork_server.without_grammar()
fork_server.share_tls_contexts()

TESTS = Path(__file__).parent
ON_SQLITE = {"api": "nightly", "audit": "slow", "integrations": "nightly", "replays": "nightly"}
"""The folders whose tests `make test` runs on SQLite, with the mark of their tests on PostgreSQL."""

# No test depends on the machine's speed: neither one example's time nor the generation of examples is limited.
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the files, and the tests of each file, in a random order")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `make test` does not run on PostgreSQL, and shuffle the tests if a seed is given.

    Those of a file stay together, because they share servers and browsers.
    """
    for item in items:
        # A test of the run itself starts one with a test elsewhere.
        mark = ON_SQLITE.get(item.path.relative_to(TESTS).parts[0]) if item.path.is_relative_to(TESTS) else None
        if mark and item.get_closest_marker("postgresql"):
            item.add_marker(mark)
    seed: int | None = config.getoption("shuffle")
    if seed is None:
        return
    chance = random.Random(seed)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    shuffled = list(files.values())
    chance.shuffle(shuffled)
    for tests in shuffled:
        chance.shuffle(tests)
    items[:] = [item for tests in shuffled for item in tests]


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of the run, in the process that starts those of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        use_memory()
        folder = ExitStack()
        folder.enter_context(run_folder())
        config.add_cleanup(folder.close)


def pytest_xdist_auto_num_workers() -> int:
    """Run four test processes more than there are processors: tests wait for time limits, browsers and other processes."""
    return (os.cpu_count() or 1) + 4


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Let the test processes be forks of one that has imported the tests."""
    # Those that measure coverage import the package themselves, because what runs at its import counts, too.
    if not getattr(config.option, "cov_source", None):
        paths = [str(config.invocation_params.dir / argument.partition("::")[0]) for argument in config.args]
        for spec in specs:
            spec.python = service("tests.worker_server", *paths)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the tests and all modules, which are never garbage."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def bytecode_of_child_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share compiled modules between child processes if the environment does not write bytecode beside the sources.

    Without it every command that a test starts compiles all its libraries again, which takes longer than the command.
    """
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            base = tmp_path_factory.getbasetemp()
            # Each worker of pytest-xdist has a folder of its own inside the folder of the session.
            session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(session / "bytecode"))
        yield


@pytest.fixture(scope="session")
def postgresql_url() -> str:
    """The URL of the PostgreSQL server that all test processes share."""
    return service("tests.postgresql_server")


@pytest.fixture
def fresh_postgresql_url(postgresql_url: str) -> str:
    """The URL of an empty schema on the PostgreSQL server of the session."""
    schema = f"test_{uuid.uuid4().hex}"
    database = Database.open(postgresql_url)
    database.write_now(lambda connection: connection.exec_driver_sql(f"CREATE SCHEMA {schema}").close())
    database.close_now()
    return f"{postgresql_url}&options=-csearch_path%3D{schema}"


@pytest.fixture(scope="session")
def postgresql_copies(postgresql_url: str) -> PostgresqlCopies:
    return PostgresqlCopies(postgresql_url)


@pytest.fixture
def migrated_postgresql_url(postgresql_copies: PostgresqlCopies) -> Iterator[str]:
    """The URL of a PostgreSQL database with all tables, and nothing in them."""
    with postgresql_copies.copy(_migrate) as url:
        yield url


@pytest.fixture
def patient_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many writes wait for one row: on PostgreSQL without the limit of seconds, which the last ones reach on a busy machine."""
    # No setting changes the limit.
    monkeypatch.setattr("graph_agent.db.postgresql._BEGIN_WRITE", "BEGIN ISOLATION LEVEL READ COMMITTED")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a migrated SQLite database, to copy."""
    return asyncio.run(migrated(tmp_path_factory.mktemp("template")))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database: the test runs on SQLite and on PostgreSQL."""
    name = {"sqlite": "sqlite_url", "postgresql": "fresh_postgresql_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def migrated_database(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Iterator[Database]:
    """An open database with all tables, and nothing in them: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        copy = shutil.copy(template / "graph_agent.db", tmp_path)
        opened = Database.open(f"sqlite:///{copy}")
    else:
        opened = Database.open(request.getfixturevalue("migrated_postgresql_url"))
    yield opened
    opened.close_now()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty open database: the test runs on SQLite and on PostgreSQL."""
    opened = Database.open(database_url)
    yield opened
    opened.close_now()


@pytest.fixture
def log(database: Database) -> Database:
    """A log database with empty tables, created from the declarations instead of the migrations, which takes less time.

    `record/test_migrations.py` checks that both create the same tables.
    """
    database.write_now(tree_leaves.metadata.create_all)
    return database


def _migrate(url: str) -> None:
    # In a thread, because the event loop of an asynchronous fixture may be running here.
    with TemporaryDirectory() as home, ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, migrated(Path(home), url)).result()


@pytest.fixture
def quick_processes() -> Iterator[None]:
    """The processes of pools and worker groups are forks of one that has imported everything."""
    with fork_server.quick_processes():
        yield


@pytest.fixture(autouse=True)
def signals_are_left_as_they_were() -> Iterator[None]:
    """Fail the test that leaves a signal handler behind, instead of a later test that the handler disturbs."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.fixture(autouse=True)
def warnings_are_logged() -> None:
    """Reset the log level, which a command that ran in this process has raised."""
    logging.getLogger().setLevel(logging.WARNING)
