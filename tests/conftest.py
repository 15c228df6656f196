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
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hypothesis
import pytest

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.record.tree.tables import tree_leaves
from tests import fork_server
from tests.api.oidc_server import Issuer, oidc_issuer
from tests.chat.environment import Environment, migrated, open_environment
from tests.postgresql_copies import PostgresqlCopies
from tests.run_folder import run_folder, service, use_memory
from tests.run_time import expected_time

fork_server.without_grammar()
fork_server.share_tls_contexts()

TESTS = Path(__file__).parent
ON_BOTH = ("chat/conversations", "db", "due", "ledger", "question", "record")
"""The folders that own tables: `make test` runs their tests on both databases, and the others on SQLite."""
ON_POSTGRESQL = {"api": "nightly", "integrations": "nightly", "replays": "nightly"}
"""The marks of the tests of other folders on PostgreSQL, if it is not `slow`."""

LEFT_TO_CI = "not foreign and not slow and not nightly"
"""The marks that `make test` leaves out, as pyproject.toml has them."""
LAST_RUN = TESTS.parent / ".venv" / "last_test_run"
"""The seconds that the last complete run took."""
STARTED = pytest.StashKey[float]()

# No test depends on the machine's speed: neither one example's time nor the generation of examples is limited.
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the files, and the tests of each file, in a random order")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `.ci/run`, and shuffle the tests if a seed is given.

    Those of a file stay together, because they share servers and browsers.
    """
    for item in items:
        # A test of the run itself starts one with a test elsewhere.
        if item.path.is_relative_to(TESTS) and (mark := _left_out(item)):
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


def _left_out(item: pytest.Item) -> str | None:
    """Return the mark of a test in the browser, and of one on PostgreSQL whose folder has no tables of its own."""
    path = item.path.relative_to(TESTS)
    if path.parts[0] == "page":
        return "slow"
    if item.get_closest_marker("postgresql") is None or any(path.is_relative_to(folder) for folder in ON_BOTH):
        return None
    return ON_POSTGRESQL.get(path.parts[0], "slow")


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of the run, in the process that starts those of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        use_memory()
        folder = ExitStack()
        folder.enter_context(run_folder())
        config.add_cleanup(folder.close)


def _is_whole_run(config: pytest.Config) -> bool:
    """True for `make test` without OPTIONS, in the process that starts those of pytest-xdist."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    parallel = bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")
    return whole and parallel and not config.option.collectonly and config.option.markexpr == LEFT_TO_CI


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Say how long the run takes."""
    if _is_whole_run(session.config):
        session.config.stash[STARTED] = time.monotonic()
        if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
            reporter.write_line(expected_time(LAST_RUN))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note how long a complete run took."""
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not session.shouldfail
    if ended and STARTED in session.config.stash and LAST_RUN.parent.is_dir():
        LAST_RUN.write_text(str(time.monotonic() - session.config.stash[STARTED]))


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
    monkeypatch.setattr("graph_agent.db.postgresql.BEGIN_WRITE", "BEGIN ISOLATION LEVEL READ COMMITTED")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a migrated SQLite database, to copy."""
    return asyncio.run(migrated(tmp_path_factory.mktemp("template")))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def environment(tmp_path: Path, template: Path) -> AsyncGenerator[Environment]:
    """A complete installation on SQLite files."""
    async with open_environment(tmp_path, template) as environment:
        yield environment


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
async def each_environment(
    request: pytest.FixtureRequest, tmp_path: Path, template: Path, clock: ManualClock
) -> AsyncGenerator[Environment]:
    """A complete installation with a manual clock: the test runs on SQLite and on PostgreSQL."""
    url = request.getfixturevalue("migrated_postgresql_url") if request.param == "postgresql" else ""
    async with open_environment(tmp_path, template, clock, url) as environment:
        yield environment


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An OpenID provider on the loopback."""
    with oidc_issuer() as issuer:
        yield issuer


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
def migrated_url(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> str:
    """The URL of a database with all tables, and nothing in them: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(template / 'graph_agent.db', tmp_path)}"
    url: str = request.getfixturevalue("migrated_postgresql_url")
    return url


@pytest.fixture
def migrated_database(migrated_url: str) -> Iterator[Database]:
    """An open database with all tables, and nothing in them: the test runs on SQLite and on PostgreSQL."""
    opened = Database.open(migrated_url)
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
