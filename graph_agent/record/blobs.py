"""The texts many records share, each stored once under its digest, with the span of time in which decisions named it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, case, or_
from sqlalchemy.dialects import postgresql, sqlite

from graph_agent.record.tables import RecordBlob, table_of

TOUCH_EVERY = timedelta(hours=1)
"""How far `last_used_at` may lag behind: a process marks a text as used no more often than this."""

_blobs = table_of(RecordBlob)


def keep_texts(connection: Connection, texts: Mapping[str, str], at: datetime) -> None:
    """Store `texts`, keyed by digest, as used by a decision that began `at`; what stands already only widens its span."""
    # In one order everywhere: two processes that store the same texts must not wait for each other crosswise.
    rows = [{"digest": name, "text": texts[name], "first_used_at": at, "last_used_at": at} for name in sorted(texts)]
    if not rows:
        return
    statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(_blobs)
    new = statement.excluded
    earlier = or_(_blobs.c.first_used_at.is_(None), new.first_used_at < _blobs.c.first_used_at)
    later = or_(_blobs.c.last_used_at.is_(None), new.last_used_at > _blobs.c.last_used_at)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[_blobs.c.digest],
            set_={
                "first_used_at": case((earlier, new.first_used_at), else_=_blobs.c.first_used_at),
                "last_used_at": case((later, new.last_used_at), else_=_blobs.c.last_used_at),
            },
            where=or_(earlier, later),
        ),
        rows,
    )
