"""A run: processes are started, killed and started again while the clock of the database is set; then the rows are checked."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import delete

from graph_agent.chat.service import ChatService
from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.due.table import BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.tables import due
from graph_agent.due.worker import DueHandler, DueWorker
from graph_agent.question.approvals import prune_questions
from tests.question.processes.checks import Outcome, check, check_carried_out
from tests.question.processes.environment import LAX, LIFETIME, STRICT, USUAL, LedgerServer, SteppedClock, open_chat
from tests.question.processes.process import Settings, run

_PROCESSES = ((USUAL, True), (STRICT, True), (LAX, True), (USUAL, False), (LAX, False))
"""The rules of each process, and whether it asks and answers, or only does what is due."""
_STEPS = (-200.0, -3.0, -1.0, 1.0, 3.0, 30.0, 200.0)
_KILLS = 0.004
_LEASES_END = 40.0
"""The seconds after which turns and due work of dead processes can be taken by others."""
_CALM_SECONDS = 30.0
"""What is not done after this time without faults is never done."""
_ROWS = 2_000
"""The works of one user before that of another."""
_LAST_PLACE = 1.1
"""The seconds after which the last place of a user is due."""
_FORK = multiprocessing.get_context("fork")


@dataclass
class Report(Outcome):
    """What a run has seen."""

    kills: int = 0
    steps: int = 0
    effects: int = 0


def run_processes(url: str, seconds: float, seed: int, *, steps: bool = True) -> Report:
    """Run processes on an empty database with all tables for so many seconds, and return what was violated.

    This process has no threads until they have ended: they are its forks.
    """
    report, chance, clock = Report(), random.Random(seed), SteppedClock()
    with TemporaryDirectory() as folder:
        settings = Settings(url, Path(folder), clock, _KILLS)
        _play(settings, report, chance, time.monotonic() + seconds, steps=steps)
        asyncio.run(_end(settings, report))
    return report


def _play(settings: Settings, report: Report, chance: random.Random, until: float, *, steps: bool) -> None:
    running = [_start(settings, chance, number, until) for number in range(len(_PROCESSES))]
    step_at = time.monotonic() + 2
    while time.monotonic() < until:
        time.sleep(0.02)
        if chance.random() < 0.01:
            # At any moment, such as while the server of the tools makes a call.
            os.kill(chance.choice(running).pid or 0, signal.SIGKILL)
        for number, process in enumerate(running):
            if not process.is_alive():
                assert process.exitcode == -signal.SIGKILL or time.monotonic() > until, process.exitcode
                report.kills += 1
                running[number] = _start(settings, chance, number, until)
        if steps and time.monotonic() > step_at:
            settings.clock.step(chance.choice(_STEPS))
            report.steps += 1
            step_at = time.monotonic() + chance.uniform(0.3, 3)
    for process in running:
        process.join()


def _start(settings: Settings, chance: random.Random, number: int, until: float) -> multiprocessing.process.BaseProcess:
    rules, asks = _PROCESSES[number]
    named = {"asks": asks, "seed": chance.getrandbits(32), "until": until}
    process = _FORK.Process(target=run, args=(settings, rules), kwargs=named)
    process.start()
    return process


async def _end(settings: Settings, report: Report) -> None:
    """Do what is left without kills and steps: first what is in time, then all."""
    database = Database.open(settings.url)
    database.clock = settings.clock
    servers = [LedgerServer(folder=settings.folder, rules=rules) for rules in (USUAL, STRICT, LAX)]
    chats = tuple(open_chat(database, server, server.rules) for server in servers)
    try:
        for seconds in (_LEASES_END, LIFETIME.total_seconds() + sum(map(abs, _STEPS)), 3600.0):
            settings.clock.step(seconds)
            report.require(await _serve_due(chats), "work is never done", seconds)
            if seconds == _LEASES_END:
                await database.read(lambda connection: check_carried_out(connection, report))
        # Nothing but maintenance ends a late question to its requester.
        await prune_questions(database, settings.clock.now())
        effects = list(servers[0].effects())
        report.effects = sum(effect.target is not None for effect in effects)
        await database.read(lambda connection: check(connection, effects, report))
    finally:
        for chat in chats:
            await chat.aclose()
        await database.close()


async def _serve_due(chats: tuple[ChatService, ...]) -> bool:
    """Do what is due until nothing is; False if that takes too long."""
    try:
        async with asyncio.timeout(_CALM_SECONDS):
            for chat in chats * 2:
                await chat.serve_due()
    except TimeoutError:
        return False
    return True


async def check_due_work(url: str, outcome: Outcome) -> None:
    """Add what the table of due work violates for two users, and for work that becomes due while it is done."""
    database = Database.open(url)
    table, done = DueTable(database), list[str]()

    async def put(key: str, user: str) -> None:
        await database.write(lambda connection: table.put(connection, WorkKind.NOTICE, key, user_id=user))

    async def again(work: DueWork) -> None:
        done.append(work.key)
        if len(done) == 1:
            # Such as a second answer, while the question is decided by the first.
            await put(work.key, "ann")

    try:
        for number in range(_ROWS):
            await put(str(number), "ann")
        await put("the other's", "ben")
        await asyncio.sleep(_LAST_PLACE)
        taken = await database.write(lambda connection: table.take(connection, WorkKind.NOTICE, token="next"))
        outcome.require("ben" in {work.user_id for work in taken}, "a user starves", taken)
        await database.write(lambda connection: connection.execute(delete(due)).close())

        await put("twice", "ann")
        back_off = BackOff(timedelta(seconds=1), timedelta(seconds=1))
        handler = DueHandler(WorkKind.NOTICE, again, slots=1, back_off=back_off)
        await DueWorker(database, [handler], SystemClock()).serve()
        outcome.require(done == ["twice", "twice"], "the end of older work removes newer work", done)
    finally:
        await database.close()
