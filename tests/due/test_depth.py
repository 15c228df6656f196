"""Operators see what waits, what nobody takes and what is stuck, on both databases."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection

from graph_agent.clock import ManualClock
from graph_agent.db import Database
from graph_agent.due.depth import MOST_LANES, Depth, find_depths, find_rows, labelled, summary
from graph_agent.due.table import DueTable, WorkKind


def test_what_waits_is_counted_by_kind_and_lane_and_what_is_neglected_is_named(migrated_database: Database) -> None:
    clock = migrated_database.clock = ManualClock()
    table = DueTable(migrated_database)

    def put_all(connection: Connection) -> None:
        table.put(connection, WorkKind.SETTLE, "a:1", lane="mail", user_id="ann")
        table.put(connection, WorkKind.SETTLE, "b:1", lane="mail", user_id="ben")
        table.put(connection, WorkKind.NOTICE, "q.requested", user_id="ann")
        [work] = table.take(connection, WorkKind.NOTICE, token="t")
        table.postpone(connection, work, None, "status 500")
        table.put(connection, WorkKind.END, "q", user_id="ann", after=timedelta(hours=1))

    migrated_database.write_now(put_all)
    clock.advance(seconds=90)
    depths = migrated_database.read_now(lambda connection: find_depths(migrated_database, connection))
    assert depths == {
        ("end", ""): Depth(rows=1, late=0.0, stuck=0),
        ("notice", ""): Depth(rows=1, late=0.0, stuck=1),
        ("settle", "mail"): Depth(rows=2, late=90.0, stuck=0),
    }
    assert summary(depths) == (
        "end: 1; notice: 1, 1 stuck: see `graph-agent due list --stuck`; "
        "settle mail: 2, the oldest due for 90 s: no server takes it"
    )
    [stuck] = migrated_database.read_now(lambda connection: find_rows(connection, stuck=True, limit=9))
    assert (stuck.kind, stuck.key, stuck.due_at, stuck.error) == ("notice", "q.requested", None, "status 500")
    listed = migrated_database.read_now(lambda connection: find_rows(connection, stuck=False, limit=9))
    keys = [row.key for row in listed]
    assert (keys[0], keys[-1]) == ("q.requested", "q")


def test_metrics_name_a_limited_number_of_lanes_by_short_labels() -> None:
    depths = {("settle", f"{number:03}-a-long-name"): Depth(1, float(number), 0) for number in range(100)}
    found = labelled(depths)
    assert len(found) == MOST_LANES + 1
    assert found["settle", "other"] == Depth(80, 79.0, 0)
    assert found["settle", "099-a-lo"] == Depth(1, 99.0, 0)
