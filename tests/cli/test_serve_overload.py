"""`graph-agent serve` with more turns than it can run, and with a log that cannot be closed."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.overload import ask_for_a_turn, measure, open_rows, serving_without_a_model


def test_a_burst_at_a_silent_model_leaves_nothing_open(home: Path) -> None:
    # The gates in seconds are measured by `python -m benchmarks.overload`; how long it takes here depends on the machine.
    result = measure(home, 900, deadline=3.0)
    assert set(result.statuses()) == {200, 503}
    assert len(result.answers) == 900
    assert all(answer.retry_after for answer in result.answers if answer.status == 503)
    with closing(sqlite3.connect(home / "graph_agent.db")) as log:
        ended = log.execute("SELECT DISTINCT status FROM decision_logs").fetchall()
    # Model calls that time out end the turn with an apology; those that the deadline interrupts are interrupted.
    assert {status for (status,) in ended} <= {"completed", "interrupted"}
    assert (result.left_open, result.exit_code) == (0, 0)


def test_a_server_that_leaves_a_row_open_exits_with_a_failure(home: Path) -> None:
    database = home / "graph_agent.db"
    away = home / "away.db"

    async def end_during_a_turn(port: int) -> None:
        turn = asyncio.create_task(ask_for_a_turn(port))
        # The turn and its opening row.
        while open_rows(home) < 2:  # noqa: ASYNC110 (the server is another process)
            await asyncio.sleep(0.05)
        # Without its file the turn can neither be closed nor counted, and is refused at once: a lock would be waited for.
        database.rename(away)
        server.send_signal(signal.SIGTERM)
        await turn

    # The turn must still run when this process sees its rows, also after a pause.
    with serving_without_a_model(home, 60.0) as (server, port):
        asyncio.run(end_during_a_turn(port))
        assert server.wait(120) == 1
        assert "an unknown number of turns were left open" in (home / "stderr").read_text(encoding="utf-8")
    away.rename(database)
    assert open_rows(home) == 2
    with closing(sqlite3.connect(database)) as stored, stored:
        stored.execute("UPDATE turns SET lease_until = created_at")
    # The next server finishes it at its start, when its lease has expired.
    with serving_without_a_model(home, 3.0) as (server, _):
        while open_rows(home):
            time.sleep(0.05)
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
