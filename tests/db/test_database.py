"""The database port: behaviour common to SQLite and PostgreSQL, then what is specific to each."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    event,
    func,
    insert,
    make_url,
    select,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import NullPool

from graph_agent.db import Database, DatabaseUnavailableError, closing_writes
from graph_agent.db.postgresql import CLOSING_CONNECTIONS, CONNECTIONS
from graph_agent.db.sqlite import BATCH, CLOSING_BATCH
from graph_agent.db.sqlite_engine import driver_connection, sqlite_engine
from graph_agent.errors import ConfigurationError
from tests import fork_server

metadata = MetaData()
rows = Table(
    "rows",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("text", String),
    CheckConstraint("text <> 'bad'", name="not_bad"),
)


@pytest.fixture
def with_rows(database: Database) -> Database:
    database.write_now(metadata.create_all)
    return database


@pytest.fixture
def file_database(sqlite_url: str) -> Iterator[Database]:
    opened = Database.open(sqlite_url)
    opened.write_now(metadata.create_all)
    yield opened
    opened.close_now()


def add(number: int, text: str = "x") -> Callable[[Connection], int]:
    def insert_row(connection: Connection) -> int:
        connection.execute(insert(rows), {"number": number, "text": text})
        return number

    return insert_row


@asynccontextmanager
async def blocked_writer(database: Database) -> AsyncIterator[None]:
    """Block the writer thread, so that everything written in the block becomes one batch."""
    started, resume = threading.Event(), threading.Event()

    def block(_connection: Connection) -> None:
        started.set()
        resume.wait(60)

    blocking = asyncio.create_task(database.write(block))
    await asyncio.to_thread(started.wait, 60)
    yield
    # Let the tasks of the block submit their work.
    await asyncio.sleep(0)
    resume.set()
    await blocking


def numbers(connection: Connection) -> list[int]:
    return list(connection.execute(select(rows.c.number).order_by(rows.c.number)).scalars())


async def test_a_committed_write_is_read(with_rows: Database) -> None:
    assert await with_rows.write(add(1)) == 1
    assert await with_rows.read(numbers) == [1]


async def test_work_that_raises_is_rolled_back_and_its_error_is_raised(with_rows: Database) -> None:
    def fails(connection: Connection) -> None:
        connection.execute(insert(rows), {"number": 1})
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await with_rows.write(fails)
    assert await with_rows.read(numbers) == []


async def test_a_bad_row_fails_alone(with_rows: Database) -> None:
    results = await asyncio.gather(
        *(with_rows.write(add(number, "bad" if number == 7 else "good")) for number in range(20)), return_exceptions=True
    )
    assert [number for number, result in enumerate(results) if result != number] == [7]
    assert isinstance(results[7], IntegrityError)
    assert await with_rows.read(numbers) == [number for number in range(20) if number != 7]


async def test_fifty_writers_at_once_all_commit(with_rows: Database) -> None:
    async def writer(first: int) -> None:
        for number in range(first, first + 10):
            await with_rows.write(add(number))
            assert number in await with_rows.read(numbers)

    await asyncio.gather(*(writer(first) for first in range(0, 500, 10)))
    assert await with_rows.read(numbers) == list(range(500))


async def test_a_cancelled_caller_does_not_cancel_the_work(with_rows: Database) -> None:
    started, resume = threading.Event(), threading.Event()

    def slow(number: int) -> Callable[[Connection], None]:
        def insert_slowly(connection: Connection) -> None:
            connection.execute(insert(rows), {"number": number})
            started.set()
            resume.wait(60)

        return insert_slowly

    # SQLite runs them sequentially, PostgreSQL concurrently.
    running = asyncio.create_task(with_rows.write(slow(1)))
    waiting = asyncio.create_task(with_rows.write(slow(2)))
    await asyncio.to_thread(started.wait, 60)
    for task in (running, waiting):
        task.cancel()
    results = await asyncio.gather(running, waiting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2
    resume.set()
    await with_rows.write(add(3))
    while (found := await with_rows.read(numbers)) != [1, 2, 3]:
        # PostgreSQL runs them concurrently: the slow one may end last.
        assert set(found) < {1, 2, 3}


def test_a_write_whose_event_loop_has_ended_is_committed(with_rows: Database) -> None:
    started, resume = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        started.set()
        assert resume.wait(10)
        add(1)(connection)

    async def leave() -> None:
        write = asyncio.create_task(with_rows.write(slow))
        await asyncio.to_thread(started.wait, 10)
        write.cancel()

    asyncio.run(leave())
    resume.set()
    # On SQLite it waits for the first one; on PostgreSQL another connection takes it.
    assert with_rows.write_now(add(2)) == 2
    while len(with_rows.read_now(numbers)) < 2:
        pass


def test_one_database_serves_several_event_loops(with_rows: Database) -> None:
    for number in range(3):
        assert asyncio.run(with_rows.write(add(number))) == number
    assert with_rows.read_now(numbers) == [0, 1, 2]


async def test_a_reader_sees_a_snapshot_while_a_writer_writes(with_rows: Database) -> None:
    written = threading.Event()
    counted = threading.Event()

    def count_twice(connection: Connection) -> tuple[int, int]:
        first = connection.execute(select(func.count()).select_from(rows)).scalar_one()
        counted.set()
        written.wait(60)
        return first, connection.execute(select(func.count()).select_from(rows)).scalar_one()

    reading = asyncio.create_task(with_rows.read(count_twice))
    await asyncio.to_thread(counted.wait, 60)
    await with_rows.write(add(1))
    written.set()
    assert await reading == (0, 0)


async def test_a_reader_cannot_write(with_rows: Database) -> None:
    with pytest.raises((DatabaseUnavailableError, DBAPIError)):
        await with_rows.read(add(1))
    assert await with_rows.read(numbers) == []


async def test_a_closed_database_raises_unavailable(with_rows: Database) -> None:
    await with_rows.close()
    await with_rows.close()
    with pytest.raises(DatabaseUnavailableError):
        await with_rows.write(add(1))
    with pytest.raises(DatabaseUnavailableError):
        await with_rows.read(numbers)


async def test_a_write_that_closes_a_turn_does_not_wait_for_the_queue_of_the_others(with_rows: Database) -> None:
    may_continue, order = threading.Event(), list[str]()

    def wait(_: Connection) -> None:
        assert may_continue.wait(60)

    def note(name: str) -> Callable[[Connection], None]:
        return lambda _: order.append(name)

    # More writes than SQLite commits at once, and as many as PostgreSQL has connections.
    occupied = [asyncio.ensure_future(with_rows.write(wait)) for _ in range(CONNECTIONS - CLOSING_CONNECTIONS)]
    others = [asyncio.ensure_future(with_rows.write(note("other"))) for _ in range(3 * BATCH)]
    await asyncio.sleep(0)

    async def close() -> None:
        with closing_writes():
            await with_rows.write(note("closing"))

    closed = asyncio.ensure_future(close())
    await asyncio.sleep(0)
    if with_rows.dialect == "postgresql":
        await closed
    may_continue.set()
    await asyncio.gather(closed, *occupied, *others)
    assert len(order) == 3 * BATCH + 1
    # SQLite's writer may have taken one batch from its queue before this write was submitted, but no second one.
    assert order.index("closing") <= BATCH


async def test_many_closing_writes_do_not_stop_the_others(file_database: Database) -> None:
    order = list[str]()
    submitted = threading.Event()

    def note(name: str) -> Callable[[Connection], None]:
        return lambda _: order.append(name)

    # The writer does nothing before all writes are submitted.
    held = asyncio.ensure_future(file_database.write(lambda _: submitted.wait(60)))
    with closing_writes():
        closing = [asyncio.ensure_future(file_database.write(note("closing"))) for _ in range(10 * CLOSING_BATCH)]
        await asyncio.sleep(0)
    other = asyncio.ensure_future(file_database.write(note("other")))
    await asyncio.sleep(0)
    submitted.set()
    assert await held
    await asyncio.gather(other, *closing)
    assert order.index("other") < len(order) - CLOSING_BATCH


async def test_close_finishes_submitted_work(sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    await database.write(metadata.create_all)
    writes = [asyncio.ensure_future(database.write(add(number))) for number in range(300)]
    # Each task submits its write.
    await asyncio.sleep(0)
    await database.close()
    assert await asyncio.gather(*writes) == list(range(300))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tasks.db",
        "mysql://root:hunter2@host/db",
        "sqlite+aiosqlite:///x.db",
        "postgresql+asyncpg://u:hunter2@h/db",
        "postgresql://u:hunter2@h:port/db",
        "sqlite:////nowhere/at/all/x.db",
    ],
)
def test_an_unusable_url_is_reported_in_one_sentence_without_the_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Database.open(url)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.postgresql
@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_postgresql_url_scheme_is_accepted(postgresql_url: str, scheme: str) -> None:
    database = Database.open(postgresql_url.replace("postgresql", scheme, 1))
    assert database.dialect == "postgresql"
    assert database.read_now(lambda connection: connection.exec_driver_sql("SELECT 1").scalar()) == 1
    database.close_now()


async def test_an_unreachable_postgresql_is_unavailable(tmp_path: Path) -> None:
    database = Database.open(f"postgresql://u:hunter2@/db?host={tmp_path}")
    with pytest.raises(DatabaseUnavailableError) as caught:
        await database.write(numbers)
    assert not caught.value.unknown
    await database.close()


@pytest.mark.postgresql
async def test_a_postgresql_that_can_only_be_read_is_unavailable_and_says_so(migrated_postgresql_url: str) -> None:
    database = Database.open(migrated_postgresql_url)
    await database.write(metadata.create_all)

    def become_standby(connection: Connection) -> None:
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.execute(insert(rows), {"number": 1})

    with pytest.raises(DatabaseUnavailableError, match="can only be read") as caught:
        await database.write(become_standby)
    assert not caught.value.unknown
    assert await database.read(numbers) == []
    await database.close()


@pytest.mark.postgresql
async def test_a_connection_closed_by_the_server_fails_only_its_own_work(fresh_postgresql_url: str) -> None:
    database = Database.open(fresh_postgresql_url)
    await database.write(metadata.create_all)

    def suicide(connection: Connection) -> None:
        connection.execute(insert(rows), {"number": 1})
        connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(DatabaseUnavailableError):
        await database.write(suicide)
    assert await database.write(add(2)) == 2
    assert await database.read(numbers) == [2]
    await database.close()


@pytest.mark.postgresql
async def test_connections_that_ended_while_they_were_idle_are_replaced(
    migrated_postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database.open(migrated_postgresql_url)
    await database.write(metadata.create_all)
    # All at once, so that every thread has opened a connection.
    barrier = threading.Barrier(CONNECTIONS - CLOSING_CONNECTIONS)
    await asyncio.gather(*(database.read(lambda _: barrier.wait(10)) for _ in range(barrier.parties)))
    # The test has a database of its own: the tests beside it share theirs, and would lose their connections.
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert len(await database.read(lambda connection: connection.exec_driver_sql(others).all())) >= barrier.parties - 1
    assert sorted(await asyncio.gather(*(database.write(add(number)) for number in range(50)))) == list(range(50))
    assert await database.read(numbers) == list(range(50))
    assert not caplog.records
    await database.close()


@pytest.mark.postgresql
async def test_a_commit_without_a_reply_is_unknown(fresh_postgresql_url: str) -> None:
    database = Database.open(fresh_postgresql_url)
    await database.write(metadata.create_all)
    # A constraint trigger runs inside COMMIT: the server process dies after the commit was sent, before it is answered.
    await database.write(
        lambda connection: connection.exec_driver_sql(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON rows DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION die()"
        ).close()
    )
    with pytest.raises(DatabaseUnavailableError) as caught:
        await database.write(add(1))
    assert caught.value.unknown
    await database.close()


async def test_sqlite_is_durable_and_checks_foreign_keys(file_database: Database) -> None:
    def pragmas(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert await file_database.write(pragmas) == ["wal", 2, 1]
    assert await file_database.read(pragmas) == ["wal", 2, 1]


async def traced(database: Database) -> list[str]:
    """Return a list that gets every statement of the writer from now on, by its first word."""
    statements: list[str] = []

    def trace(connection: Connection) -> None:
        driver_connection(connection).set_trace_callback(lambda text: statements.append(text.split()[0]))

    await database.write(trace)
    statements.clear()
    return statements


async def test_many_writes_share_a_commit(file_database: Database) -> None:
    statements = await traced(file_database)
    async with blocked_writer(file_database):
        writes = [asyncio.create_task(file_database.write(add(number))) for number in range(40)]
    await asyncio.gather(*writes)
    # The blocking write, and the batch of forty.
    assert statements.count("BEGIN") == statements.count("COMMIT") == 2


async def test_a_write_alone_has_no_savepoint(file_database: Database) -> None:
    statements = await traced(file_database)
    await file_database.write(add(1))
    assert statements == ["BEGIN", "INSERT", "COMMIT"]


async def test_a_write_alone_that_raises_is_rolled_back_before_its_caller_learns_it(file_database: Database) -> None:
    statements = await traced(file_database)

    def fails(connection: Connection) -> None:
        add(1)(connection)
        raise LookupError

    with pytest.raises(LookupError):
        await file_database.write(fails)
    assert statements == ["BEGIN", "INSERT", "ROLLBACK"]
    assert await file_database.write(add(2)) == 2
    assert await file_database.read(numbers) == [2]


@pytest.fixture
def small_disk() -> Iterator[list[int]]:
    """A list with the maximum number of pages of a SQLite file; clear it to remove the limit."""
    limit = [1_000_000]

    def limited(driver: sqlite3.Connection, _record: object) -> None:
        driver.execute(f"PRAGMA max_page_count={limit[0]}").close()

    event.listen(Engine, "connect", limited)
    yield limit
    event.remove(Engine, "connect", limited)


async def test_a_full_disk_fails_the_whole_batch_and_the_writer_continues(sqlite_url: str, small_disk: list[int]) -> None:
    small_disk[0] = 12
    database = Database.open(sqlite_url)
    await database.write(metadata.create_all)
    await database.write(add(1))
    async with blocked_writer(database):
        texts = {number: "y" * (100_000 if number == 5 else 1) for number in range(2, 9)}
        batch = [asyncio.create_task(database.write(add(number, text))) for number, text in texts.items()]
    results = await asyncio.gather(*batch, return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseUnavailableError] * 7
    with pytest.raises(DatabaseUnavailableError, match="full"):
        await database.write(add(8, "y" * 100_000))
    assert await database.read(numbers) == [1]
    assert await database.write(add(9)) == 9
    await database.close()


async def test_a_lock_of_another_process_ends_in_unavailable(file_database: Database) -> None:
    path = await file_database.read(lambda connection: connection.exec_driver_sql("PRAGMA database_list").one()[2])
    await file_database.write(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout=50").close())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailableError) as caught:
        await file_database.write(add(1))
    assert not caught.value.unknown
    assert await file_database.read(numbers) == []
    other.execute("ROLLBACK")
    other.close()
    assert await file_database.write(add(1)) == 1


async def test_a_file_that_is_not_a_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is a shopping list, not a database" * 100)
    database = Database.open(f"sqlite:///{tmp_path / 'x.db'}")
    for attempt in (database.write, database.read):
        with pytest.raises(DatabaseUnavailableError):
            await attempt(numbers)
    await database.close()


async def test_each_in_memory_database_is_separate() -> None:
    first, second = Database.open("sqlite://"), Database.open("sqlite:///:memory:")
    for database in (first, second):
        await database.write(metadata.create_all)
    await asyncio.gather(*(first.write(add(number)) for number in range(50)))
    assert await first.read(numbers) == list(range(50))
    assert await second.read(numbers) == []
    await first.close()
    await second.close()


def test_two_processes_can_create_and_write_the_same_file(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from sqlalchemy import text\n"
        "from graph_agent.db import Database\n"
        "database = Database.open(sys.argv[1])\n"
        "sys.stdin.readline()\n"
        "database.write_now(lambda c: c.execute(text('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)')) and None)\n"
        "for _ in range(50): database.write_now(lambda c: c.execute(text('INSERT INTO t DEFAULT VALUES')) and None)\n"
        "database.close_now()\n"
    )
    command = [fork_server.python(), "-c", script, f"sqlite:///{tmp_path / 'x.db'}"]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [child.communicate()[1] for child in children] == ["", ""]
    connection = sqlite3.connect(tmp_path / "x.db")
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (100,)
    connection.close()


def test_connections_that_open_a_new_file_at_once_all_get_it(tmp_path: Path) -> None:
    """Each of them switches the file to write-ahead logging, and SQLite refuses all but one of them at once."""
    start = threading.Barrier(2)

    def connect(engine: Engine) -> None:
        start.wait(60)
        engine.connect().close()

    with ThreadPoolExecutor(2) as pool:
        for number in range(300):
            url = make_url(f"sqlite:///{tmp_path / str(number)}.db")
            engines = [sqlite_engine(url, "BEGIN", (), {"poolclass": NullPool}) for _ in range(2)]
            list(pool.map(connect, engines))
