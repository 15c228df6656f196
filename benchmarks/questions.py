"""The cost of questions and due work beside many others: the inbox, a look for due work, an approval up to its call, fairness.

    python -m benchmarks.questions [--postgresql] [--rows 20000]

With --postgresql on a temporary server of the dev packages, instead of a SQLite file.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from graph_agent.bootstrap.stores import open_stores
from graph_agent.chat.service import ChatService
from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.due.table import BackOff, DueTable, DueWork, WorkKind
from graph_agent.due.tables import due
from graph_agent.due.worker import DueHandler, DueWorker
from graph_agent.models.approval import ApproverIdentity
from graph_agent.models.decision import ApprovalRequest
from graph_agent.models.llm import FunctionCall
from graph_agent.question import inbox
from graph_agent.question.stored import NewQuestion, new_columns
from graph_agent.question.tables import Asks, QuestionState, audience, questions
from graph_agent.question.transitions import Questions
from graph_agent.settings import Settings
from tests.cluster.services import PostgreSql
from tests.question.processes.environment import KEY, USUAL, LedgerServer, open_chat

TIMES = 20
_BATCH = 1_000
_SLOTS = 5
_DUE_FIRST = timedelta(milliseconds=1)
_KINDS = (WorkKind.DECIDE, WorkKind.END, WorkKind.NOTICE, WorkKind.SETTLE, WorkKind.JOB)


def fill(database: Database, rows: int, role: str) -> None:
    """Insert open questions to a role, five of each user, each with the work that ends it."""
    macs, now = Questions(database, record_key=KEY).macs, datetime.now(UTC)
    for first in range(0, rows, _BATCH):
        stored, asked, work = [], [], []
        for number in range(first, min(first + _BATCH, rows)):
            opened_at, ends = now - timedelta(hours=1) + timedelta(milliseconds=number), now + timedelta(hours=20)
            one = NewQuestion(
                id=f"{role}-{number}",
                asks=Asks.OTHERS,
                user_id=f"{role}-user-{number // _SLOTS}",
                conversation_id=f"conversation-{number}",
                decision_id=f"decision-{number}",
                subject={"roles": [role], "text": "x" * 1_500},
                digest=f"{number:064}",
                call_digest=f"{number:064}",
                rules="rules",
                expires_at=ends,
            )
            times = {"opened_at": opened_at, "expires_at": ends}
            state = {"asked": 1, "state": QuestionState.OPEN, "slot": number % _SLOTS + 1}
            stored.append({**new_columns(one), **times, **state, "mac": macs.of_question(one, opened_at)[0]})
            asked.append({"who": f"role:{role}", "opened_at": opened_at, "question_id": one.id})
            work.append(_due(WorkKind.END, one.id, one.user_id, ends))

        def store(connection: Connection, rows: Any = (stored, asked, work)) -> None:
            for table, added in zip((questions, audience, due), rows, strict=True):
                connection.execute(insert(table), added).close()

        database.write_now(store)
    # So many rows at once: the server would do it itself within a minute.
    database.write_now(lambda connection: connection.exec_driver_sql("ANALYZE").close())


def _due(kind: WorkKind, key: str, user: str, at: datetime) -> dict[str, Any]:
    return {"kind": kind, "key": key, "lane": "", "user_id": user, "due_at": at, "set_at": datetime.now(UTC), "attempts": 0}


async def median_ms(work: Callable[[], Awaitable[Any]], times: int = TIMES) -> float:
    """Return the median time of some work in milliseconds, after one that is not counted."""
    await work()
    spent = []
    for _ in range(times):
        begun = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - begun)
    return 1_000 * statistics.median(spent)


class Desk:
    """A server with the rules of two people, and its users."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.chat: ChatService = open_chat(database, LedgerServer(folder=folder, rules=USUAL), USUAL)
        self._asked = 0

    async def ask(self) -> ApprovalRequest:
        self._asked += 1
        # Nobody has more than five open questions.
        user, call = f"asker {uuid.uuid4()}", FunctionCall(name="add_task", arguments={"description": f"task {self._asked}"})
        answer = await self.chat.call(user, [call])
        assert answer.decision.approval is not None
        return answer.decision.approval

    async def approve(self, request: ApprovalRequest) -> float:
        """Let two people approve; return the seconds from the second answer to the end of the call."""
        assert self.chat.approvals is not None
        given: dict[str, Any] = {"approve": True, "digest": request.digest, "identity": ApproverIdentity.TOKEN}
        await self.chat.approvals.answer(request.id, "bob", ["manager"], **given)
        await self.chat.approvals.closings()
        begun = time.perf_counter()
        await self.chat.approvals.answer(request.id, "eve", ["finance"], **given)
        await self.chat.approvals.closings()
        spent = time.perf_counter() - begun
        stored = await self.chat.approvals.state(request.id, request.user_id)
        assert stored.closing_decision is not None
        return spent


async def measure_questions(database: Database, folder: Path) -> dict[str, float]:
    """Return the milliseconds of what people do beside the questions that wait."""
    store, table, desk = Questions(database, record_key=KEY), DueTable(database), Desk(database, folder)

    async def page(role: str) -> inbox.Page:
        return await database.read(partial(inbox.waiting_for, store, user_id="ben", roles=[role]))

    async def tick() -> Any:
        return await database.read(lambda connection: table.first_due(connection, [(kind, "") for kind in _KINDS]))

    assert len((await page("legal")).questions) == 1
    found = {
        "a page of 50 of the inbox": await median_ms(partial(page, "finance")),
        "the inbox of a role with one, the newest": await median_ms(partial(page, "legal")),
        "a look for due work": await median_ms(tick),
        "a turn that asks": await median_ms(desk.ask),
    }
    spent = [await desk.approve(await desk.ask()) for _ in range(TIMES)]
    found["the last approval, up to the end of its call"] = 1_000 * statistics.median(spent)
    await desk.chat.aclose()
    return found


async def measure_work(database: Database, rows: int) -> tuple[float, int]:
    """Return the seconds in which so many works of one user are done, and the place of one of another user that came last."""
    table, done = DueTable(database), list[str]()
    earlier = [_due(WorkKind.NOTICE, str(number), "ann", datetime.now(UTC) + number * _DUE_FIRST) for number in range(rows)]
    # As `put` places them: behind one another, and the last ones not later than in a second.
    limit = datetime.now(UTC) + timedelta(seconds=1)
    for first in range(0, rows, _BATCH):
        part = [{**one, "due_at": min(one["due_at"], limit)} for one in earlier[first : first + _BATCH]]
        await database.write(lambda connection, part=part: connection.execute(insert(due), part).close())  # type: ignore[misc]
    await asyncio.sleep(1)
    await database.write(lambda connection: table.put(connection, WorkKind.NOTICE, "last", user_id="ben"))

    async def do(work: DueWork) -> None:
        done.append(work.key)

    back_off = BackOff(timedelta(seconds=1), timedelta(seconds=1))
    begun = time.perf_counter()
    handler = DueHandler(WorkKind.NOTICE, do, slots=8, back_off=back_off)
    await DueWorker(database, [handler], SystemClock()).serve()
    assert len(done) == rows + 1
    return time.perf_counter() - begun, done.index("last") + 1


async def run(url: str, rows: int) -> None:
    """Print the figures of one database."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(GRAPH_AGENT_HOME=folder, DATABASE_URL=url)
        async with open_stores(settings) as stores:
            database = stores.database
            print(f"\n{database.dialect}: milliseconds with 0 and {rows:,} open questions, and the ratio")
            # The newest of all.
            await asyncio.to_thread(fill, database, 1, "legal")
            before = await measure_questions(database, folder)
            await asyncio.to_thread(fill, database, rows, "finance")
            for figure, after in (await measure_questions(database, folder)).items():
                print(f"  {figure:48}{before[figure]:8.1f}{after:8.1f}{after / before[figure]:8.2f}")
            seconds, place = await measure_work(database, rows)
            print(f"  {rows:,} due works of one user are done in {seconds:.1f} s; that of another, put last, is number {place}")


def main() -> None:
    """Measure the databases that the arguments choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", action="store_true", help="use a temporary server instead of SQLite")
    parser.add_argument("--rows", type=int, default=20_000, help="the number of open questions and of due works")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        url = ""
        if options.postgresql:
            folder = Path(name)
            folder.chmod(0o755)
            server = PostgreSql(folder)
            stack.callback(server.close)
            url = server.url
        asyncio.run(run(url, options.rows))


if __name__ == "__main__":
    main()
