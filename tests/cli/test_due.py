"""`graph-agent due` shows what waits, and tries again what is stuck."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import Connection

from graph_agent.db import Database
from graph_agent.due.table import DueTable, WorkKind
from tests.cli.conftest import Cli


def test_what_is_stuck_is_listed_with_its_reason_and_tried_again(cli: Cli, home: Path) -> None:
    database = Database.open(f"sqlite:///{home / 'graph_agent.db'}")
    table = DueTable(database)

    def put(connection: Connection) -> None:
        table.put(connection, WorkKind.NOTICE, "q.requested", user_id="ann")
        [work] = table.take(connection, WorkKind.NOTICE, token="t")
        table.postpone(connection, work, None, "the webhook answered with status 500")

    database.write_now(put)
    database.close_now()
    listed = "notice q.requested: stuck, tried 1x, for ann (the webhook answered with status 500)\n"
    assert cli("due", "list", "--stuck").out == listed
    assert "1 stuck: see `graph-agent due list --stuck`" in cli("doctor").out.replace("\n", " ")
    assert cli("due", "retry", "notice", "q.requested").out == "notice q.requested is due now\n"
    assert cli("due", "list", "--stuck").out == "Nothing is stuck.\n"
    [row] = [json.loads(line) for line in cli("due", "list", "--json").out.splitlines()]
    assert (row["kind"], row["key"], row["attempts"], row["error"]) == ("notice", "q.requested", 0, "")


def test_work_that_is_not_there_is_not_tried_again(cli: Cli) -> None:
    found = cli("due", "retry", "notice", "q")
    assert found.code != 0
    assert "there is no work notice q" in found.err
