"""Stops while processes make changes, are killed and frozen: nothing is intended after the commit, and soon nothing is sent."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Connection, func, select

from graph_agent.db import Database
from graph_agent.models.stop import Stop, StopScope
from graph_agent.record.permit import PERMIT_SECONDS
from graph_agent.record.stops import end_stop, place_stop
from graph_agent.record.tables import call_operations
from graph_agent.record.tree.leaves import Sealer
from tests.record.trees import KEY

EVERYTHING = Stop(number=0, scope=StopScope.EVERYTHING, reason="a test")
_COUNT = select(func.count()).select_from(call_operations)


class Processes:
    """Several processes on one database, and the calls that they have sent."""

    def __init__(self, url: str, folder: Path, number: int, mistake: str = "") -> None:
        self.url, self.file, self.mistake = url, folder / "sent", mistake
        self.running = [self._start() for _ in range(number)]

    def _start(self) -> subprocess.Popen[bytes]:
        # Not of the fork server, which cannot pass on that one is frozen.
        command = [sys.executable, "-m", "tests.record.stopped_process", self.url, str(self.file), "3", self.mistake]
        return subprocess.Popen(command)

    def kill_one(self, chance: Random) -> None:
        """Kill a process, and start another one in its place."""
        place = chance.randrange(len(self.running))
        self.running[place].kill()
        self.running[place].wait()
        self.running[place] = self._start()

    def sent(self, since: float) -> list[tuple[float, str]]:
        """Return the calls since a time, with their times."""
        if not self.file.exists():
            return []
        lines = [line.split() for line in self.file.read_text().splitlines() if line]
        return [(float(at), kind) for at, kind in lines if float(at) > since]

    async def send_something(self) -> None:
        """Wait until the processes have made changes and reads."""
        since = time.monotonic()
        while len({kind for _, kind in self.sent(since)}) < 2:  # noqa: ASYNC110 (other processes set no event)
            await asyncio.sleep(0.05)

    def close(self) -> None:
        for process in self.running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@pytest.fixture
def processes(log: Database, database_url: str, tmp_path: Path) -> Iterator[Processes]:
    del log
    found = Processes(database_url, tmp_path, 3)
    yield found
    found.close()


def stop_and_count(connection: Connection) -> int:
    """Stop everything as psql does, and return the calls that were intended until then."""
    connection.exec_driver_sql("INSERT INTO rule_stops (scope, reason) VALUES ('everything', 'by hand')")
    return int(connection.execute(_COUNT).scalar_one())


@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.nightly)])
async def test_nothing_is_intended_after_a_stop_and_nothing_is_sent_soon_after(
    log: Database, processes: Processes, rounds: int
) -> None:
    chance = Random(1)
    for number in range(1, rounds + 1):
        assert await _stop_once(log, processes, chance, number) == (0, [])


@pytest.mark.nightly
@pytest.mark.postgresql
@pytest.mark.parametrize("mistake", ["read without the lock", "no check in the commit", "no permit"])
async def test_a_planted_mistake_is_found(fresh_postgresql_url: str, tmp_path: Path, mistake: str) -> None:
    log = Database.open(fresh_postgresql_url)
    log.write_now(call_operations.metadata.create_all)
    processes, chance = Processes(fresh_postgresql_url, tmp_path, 3, mistake), Random(1)
    try:
        found = [await _stop_once(log, processes, chance, number) for number in range(1, 17)]
    finally:
        processes.close()
        await log.close()
    assert any(one != (0, []) for one in found)


async def _stop_once(log: Database, processes: Processes, chance: Random, number: int) -> tuple[int, list[tuple[float, str]]]:
    """Stop everything, and resume it; return the calls that were intended after the stop, and those that were sent late.

    Each has its seconds after the stop.
    """
    await processes.send_something()
    if number % 2:
        processes.kill_one(chance)
    frozen = chance.choice(processes.running)
    # A frozen process may hold the only lock of SQLite, which nobody can end.
    freezes = log.dialect == "postgresql" and number % 3 > 0
    if freezes:
        frozen.send_signal(signal.SIGSTOP)
        # One that holds the lock is ended; this stop is of another user, and so without effect.
        await place_stop(log, EVERYTHING.replace(scope=StopScope.USER, name="nobody"))
    intended = await log.write(stop_and_count)
    stopped_at = time.monotonic()
    await asyncio.sleep(PERMIT_SECONDS)
    if freezes:
        frozen.send_signal(signal.SIGCONT)
    await asyncio.sleep(0.5)
    late = [(at - stopped_at, kind) for at, kind in processes.sent(stopped_at + PERMIT_SECONDS)]
    after = await log.read(lambda connection: int(connection.execute(_COUNT).scalar_one()))
    for stop in await log.read(_open):
        await end_stop(log, stop, Sealer(KEY), by="a test", reason="goes on")
    return after - intended, late


def _open(connection: Connection) -> list[int]:
    return list(connection.exec_driver_sql("SELECT number FROM rule_stops WHERE ended_at IS NULL").scalars())
