"""Texts that many records share: each is stored once under its digest, with the time range in which decisions referenced it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, case, or_

from graph_agent.db import insert_into
from graph_agent.record.tables import record_blobs

TOUCH_EVERY = timedelta(hours=1)
"""The shortest time between two updates of `last_used_at` by one process, for each text."""


def store_texts(connection: Connection, texts: Mapping[str, str], at: datetime) -> None:
    """Store `texts`, keyed by digest, as used by a decision that started `at`.

    For a text that is stored already only the time range is extended.
    """
    # Sorted by digest: two processes that store the same texts lock the rows in the same order, so they cannot deadlock.
    rows = [{"digest": name, "text": texts[name], "first_used_at": at, "last_used_at": at} for name in sorted(texts)]
    if not rows:
        return
    statement = insert_into(record_blobs, connection.dialect.name)
    new = statement.excluded
    earlier = or_(record_blobs.c.first_used_at.is_(None), new.first_used_at < record_blobs.c.first_used_at)
    later = or_(record_blobs.c.last_used_at.is_(None), new.last_used_at > record_blobs.c.last_used_at)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[record_blobs.c.digest],
            set_={
                "first_used_at": case((earlier, new.first_used_at), else_=record_blobs.c.first_used_at),
                "last_used_at": case((later, new.last_used_at), else_=record_blobs.c.last_used_at),
            },
            # Without a change of the range there is no update, and so no row lock that others would wait for.
            where=or_(earlier, later),
        ),
        rows,
    )
