"""The simulated database server: SQLite in memory, one transaction at a time, with faults before and after each commit.

Each process has a `Database` whose backend sends its work to the server. The work runs in the event loop at one moment of
simulated time, so that a run is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import chain
from random import Random
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, make_url
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import StaticPool

from graph_agent.chat.conversations.tables import metadata as conversation_tables
from graph_agent.db import Database, DatabaseUnavailableError, UtcDateTime
from graph_agent.db.backend import Reply, Work, committed_calls
from graph_agent.db.sqlite import SqliteBackend
from graph_agent.db.sqlite_engine import driver_connection, sqlite_engine, translated_error
from graph_agent.due.table import WorkKind
from graph_agent.due.tables import metadata as work_tables
from graph_agent.question.tables import metadata as question_tables
from graph_agent.record.tables import metadata as record_tables
from tests.simulation.clocks import SimulatedClock
from tests.simulation.event_loop import Process, SimulatedLoop
from tests.simulation.faults import Faults
from tests.simulation.history import History

T = TypeVar("T")

_TOUCHED = "simulation_touched"
"""The rows of decisions that a transaction has changed; triggers fill it."""


_TREE = ("tree_", "record_leaves")
"""The beginnings of the names of the tables of the tree, whose rows are written once."""


@dataclass(frozen=True)
class Change:
    """A row of a decision, or of a request for approval, that a transaction has inserted or changed."""

    table: str
    operation: str
    decision_id: str
    """That of the request for the tables of requests."""


Observer = Callable[[Process, Connection, list[Change]], None]
"""Looks at the end of a transaction, before its commit."""


@dataclass
class _Request:
    process: Process
    work: Work[Any]
    answer: Reply[Any]
    at: float
    writes: bool
    sent: bool
    """True if it has left the process, so that it arrives even if the process is paused or killed."""
    commits: bool = True


_Reply = Callable[[Callable[[], Any]], None]
"""Sends the result back: a function that returns or raises it."""


class DatabaseServer:
    """One database, which the processes of a simulation share."""

    def __init__(self, loop: SimulatedLoop, random: Random, faults: Faults, history: History) -> None:
        self._loop = loop
        self._random = random
        self._faults = faults
        self._history = history
        self._connection = _connection()
        driver_connection(self._connection).deserialize(_empty_database())
        self.clock = SimulatedClock(loop, faults.database_skew)
        self.down_until = 0.0
        self.healed = False
        self.observer: Observer | None = None
        self.longest: dict[Process, float] = {}
        """The longest time that a process has waited for the database, in seconds."""
        self._troubled: dict[Process, float] = {}
        self._cut_off_until: dict[Process, float] = {}
        self._all_troubled_until = 0.0
        self._last_commit: dict[tuple[Process, bool], float] = {}

    def open(self, process: Process) -> Database:
        """Return the database as a process sees it."""
        return Database(SimulatedBackend(self, process))

    def look(self, work: Work[T]) -> T:
        """Run `work` now, for a check."""
        with self._connection.begin() as transaction:
            try:
                return work(self._connection)
            finally:
                transaction.rollback()

    def go_down(self, seconds: float) -> None:
        """Refuse every write for a while."""
        self.down_until = self._loop.time() + seconds
        self.trouble_all(seconds)

    def cut_off(self, process: Process, seconds: float) -> None:
        """Refuse every request of a process for a while."""
        self._cut_off_until[process] = self._loop.time() + seconds
        self.trouble(process, seconds)

    def trouble(self, process: Process, seconds: float) -> None:
        """Note that a process may fail to reach the database in time, for so many seconds."""
        self._troubled[process] = max(self._troubled.get(process, 0.0), self._loop.time() + seconds)

    def trouble_all(self, seconds: float) -> None:
        self._all_troubled_until = max(self._all_troubled_until, self._loop.time() + seconds)

    def troubled_until(self, process: Process) -> float:
        """Return the time until which a process was, or is, in trouble."""
        return max(self._troubled.get(process, 0.0), self._all_troubled_until)

    def submit(self, process: Process, work: Work[Any], answer: Reply[Any], *, writes: bool, closing: bool = False) -> None:
        random, faults = self._random, self._faults
        request = _Request(process, work, answer, self._loop.time(), writes, sent=random.random() < 0.7)
        there, back = random.uniform(0.0005, 0.02), random.uniform(0.0005, 0.02)
        if self.healed:
            self._arrive_later(request, there, closing, lambda failed: self._reply_later(request, failed, back))
            return
        fate = random.random()
        if self._cut_off_until.get(process, 0.0) > self._loop.time():
            self._reply_later(request, _raising(DatabaseUnavailableError()), there)
        elif (fate := fate - faults.refused) < 0:
            self.trouble(process, there)
            self._reply_later(request, _raising(DatabaseUnavailableError()), there)
        elif (fate := fate - faults.slow_requests) < 0:
            there, back = random.uniform(0.0, random.choice((1, 10))), random.uniform(0.0, random.choice((0.1, 5)))
            self.trouble(process, there + back)
            self._arrive_later(request, there, closing, lambda result: self._reply_later(request, result, back))
        elif not writes:
            self._arrive_later(request, there, closing, lambda result: self._reply_later(request, result, back))
        elif (fate := fate - faults.lost_requests) < 0:
            self.trouble(process, there + back)
            self._reply_later(request, _raising(DatabaseUnavailableError(unknown=True)), there + back)
        elif (fate := fate - faults.rollbacks) < 0:
            self.trouble(process, there + back)
            request.commits = False
            self._arrive_later(request, there, closing, lambda result: self._reply_later(request, result, back))
        elif (fate := fate - faults.lost_replies) < 0:
            back = random.uniform(0.0, random.choice((0.1, 0.1, 5)))
            self.trouble(process, there + back)
            lost = _raising(DatabaseUnavailableError(unknown=True))
            self._arrive_later(request, there, closing, lambda _: self._reply_later(request, lost, back))
        elif (fate := fate - faults.late_commits) < 0:
            back, there = random.uniform(0.0, 2.0), random.uniform(0.0, random.choice((1, 20)))
            self.trouble(process, max(there, back))
            request.sent = True
            self._reply_later(request, _raising(DatabaseUnavailableError(unknown=True)), back)
            self._loop.call_later(there, lambda: self._arrive(request, lambda _: None), context=self._loop.outside.context())
        else:
            self._arrive_later(request, there, closing, lambda result: self._reply_later(request, result, back))

    def _arrive_later(self, request: _Request, seconds: float, closing: bool, reply: _Reply) -> None:
        at = self._loop.time() + seconds
        if self._faults.in_order and request.writes:
            queue = (request.process, closing)
            at = self._last_commit[queue] = max(at, self._last_commit.get(queue, 0.0) + 0.0001)
            if at - self._loop.time() > 0.1:
                self.trouble(request.process, at - self._loop.time())
        self._loop.call_at(at, lambda: self._arrive(request, reply), context=self._loop.outside.context())

    def _arrive(self, request: _Request, reply: _Reply) -> None:
        process, now = request.process, self._loop.time()
        if not request.sent and not process.alive:
            return
        if not request.sent and process.paused_until > now:
            self._loop.call_at(
                process.paused_until + 0.001, lambda: self._arrive(request, reply), context=self._loop.outside.context()
            )
            return
        if request.writes and now < self.down_until:
            reply(_raising(DatabaseUnavailableError()))
            return
        reply(self._run(request))

    def _run(self, request: _Request) -> Callable[[], Any]:
        """Run the work in a transaction and commit it; return a function that returns or raises its result."""
        connection = self._connection
        # A process finds what another one made due when it looks; its own, too, because this thread is that of every loop.
        committed_calls(connection).clear()
        try:
            with connection.begin():
                result = request.work(connection)
                if not request.commits:
                    raise DatabaseUnavailableError(unknown=True)
                if request.writes:
                    self._observe(request.process, connection)
        except BaseException as error:
            if connection.in_transaction():
                connection.rollback()
            if isinstance(error, IntegrityError) and any(name in str(error) for name in _TREE):
                self._history.violated(f"{request.process.name} seals what is sealed: {error.orig}")
            return _raising(translated_error(error))
        return lambda: result

    def _observe(self, process: Process, connection: Connection) -> None:
        rows = connection.exec_driver_sql(f"SELECT source, operation, decision_id FROM {_TOUCHED} ORDER BY rowid").all()
        if rows:
            connection.exec_driver_sql(f"DELETE FROM {_TOUCHED}")
        changes = list(dict.fromkeys(Change(*row) for row in rows))
        if self.observer is not None and changes:
            self.observer(process, connection, changes)

    def _reply_later(self, request: _Request, result: Callable[[], Any], seconds: float) -> None:
        waited = self._loop.time() + seconds - request.at
        self.longest[request.process] = max(waited, self.longest.get(request.process, 0.0))
        self._loop.call_later(seconds, lambda: _set(request.answer, result), context=self._loop.outside.context())


class SimulatedBackend:
    """A process's connections to the server."""

    dialect = "sqlite"

    def __init__(self, server: DatabaseServer, process: Process) -> None:
        self._server = server
        self._process = process

    def submit_write(self, work: Work[T], reply: Reply[T], *, closing: bool = False) -> None:
        self._server.submit(self._process, work, reply, writes=True, closing=closing)

    def submit_read(self, work: Work[T], reply: Reply[T]) -> None:
        self._server.submit(self._process, work, reply, writes=False)

    def time(self, after: timedelta) -> Any:
        """Return the SQL expression for a time `after` that of the database's own clock."""
        clock = self._server.clock
        return bindparam(None, callable_=lambda: _later(clock, after), type_=UtcDateTime)

    shifted = staticmethod(SqliteBackend.shifted)

    def close(self) -> None:
        """There is nothing to release."""


def _later(clock: SimulatedClock, after: timedelta) -> datetime:
    return clock.now() + after


def _raising(error: BaseException) -> Callable[[], Any]:
    def result() -> Any:
        raise error

    return result


def _set(answer: Reply[Any], result: Callable[[], Any]) -> None:
    try:
        value = result()
    except BaseException as error:
        answer.set_exception(error)
    else:
        answer.set_result(value)


@cache
def _connection() -> Connection:
    """Return the connection to the one in-memory database of this process, whose content each simulation replaces."""
    return sqlite_engine(make_url("sqlite://"), "BEGIN IMMEDIATE", (), {"poolclass": StaticPool}).connect()


@cache
def _empty_database() -> bytes:
    """Return the content of a database with empty tables, and triggers that note which decisions a transaction changes."""
    with sqlite_engine(make_url("sqlite://"), "BEGIN IMMEDIATE", (), {"poolclass": StaticPool}).connect() as connection:
        with connection.begin():
            record_tables.create_all(connection)
            conversation_tables.create_all(connection)
            question_tables.create_all(connection)
            work_tables.create_all(connection)
            question_tables.create_all(connection)
            connection.exec_driver_sql(f"CREATE TABLE {_TOUCHED} (source TEXT, operation TEXT, decision_id TEXT)")
            for table in chain(*(one.tables.values() for one in (record_tables, conversation_tables, question_tables))):
                names = {"turns": "id", "questions": "id", "answers": "question_id"}
                name = names.get(table.name, "decision_id" if "decision_id" in table.c else "")
                for operation in ("INSERT", "UPDATE") if name else ():
                    connection.exec_driver_sql(
                        f"CREATE TRIGGER simulation_{table.name}_{operation} AFTER {operation} ON {table.name} BEGIN "
                        f"INSERT INTO {_TOUCHED} VALUES ('{table.name}', '{operation}', NEW.{name}); END"
                    )
            connection.exec_driver_sql(
                f"CREATE TRIGGER simulation_due AFTER INSERT ON due WHEN NEW.kind = '{WorkKind.DECISION}' BEGIN "
                f"INSERT INTO {_TOUCHED} VALUES ('due', 'INSERT', NEW.key); END"
            )
        return driver_connection(connection).serialize()
